//===- Cuda.h - the part of CUDA C++ that the kernels use -----------------===//
//
// clang compiles CUDA without NVIDIA's headers: these declarations stand for
// them. Blocks have one dimension of threads. 32-bit addresses of shared memory
// are what PTX takes.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_CUDA_H
#define KERF_DEVICES_CUDA_KERNELS_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define KERF_DEVICE inline __attribute__((device, always_inline))
#define KERF_MEMBER __attribute__((device, always_inline))
/// A kernel for blocks of `threads`, of which `blocks` shall fit a processor.
#define KERF_KERNEL(threads, blocks)                                           \
  extern "C" __attribute__((global, launch_bounds(threads, blocks)))

constexpr int warpThreads = 32;

KERF_DEVICE int threadIndex() { return __nvvm_read_ptx_sreg_tid_x(); }
KERF_DEVICE int blockX() { return __nvvm_read_ptx_sreg_ctaid_x(); }
KERF_DEVICE int blocksX() { return __nvvm_read_ptx_sreg_nctaid_x(); }

/// Waits for all threads of the block.
KERF_DEVICE void barrier() { __syncthreads(); }

/// One of the barriers 1 to 15, of `threads` of the block in whole warps: what
/// they did before they arrived is done for those who wait. Only the latter
/// stand still.
template <int threads> KERF_DEVICE void waitAt(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(threads) : "memory");
}
template <int threads> KERF_DEVICE void arriveAt(int number) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(threads) : "memory");
}

/// Brings the lanes of a warp together, as what they do in step wants it, after
/// code in which they may have parted.
KERF_DEVICE void joinLanes() { __nvvm_bar_warp_sync(0xffffffff); }

/// The value of the thread whose lane differs in these bits; all lanes take
/// part.
KERF_DEVICE float exchange(float value, int bits) {
  return __nvvm_shfl_sync_bfly_f32(0xffffffff, value, bits, 31);
}

/// Of the thread's warp, in a form of which the compiler knows that all lanes
/// have the same: what depends on it alone does not part them.
KERF_DEVICE int warpIndex() {
  return __nvvm_shfl_sync_idx_i32(0xffffffff, threadIndex() / warpThreads, 0,
                                  31);
}

KERF_DEVICE float largest(float a, float b) { return __nvvm_fmax_f(a, b); }
/// Is it true for a thread of the warp? All lanes take part.
KERF_DEVICE bool anyLane(bool x) { return __nvvm_vote_any_sync(0xffffffff, x); }

KERF_DEVICE int least(int a, int b) { return a < b ? a : b; }
KERF_DEVICE int most(int a, int b) { return a > b ? a : b; }

/// 2^x and log2(x), to 2 units in the last place.
KERF_DEVICE float exp2Of(float x) { return __nvvm_ex2_approx_ftz_f(x); }
KERF_DEVICE float log2Of(float x) { return __nvvm_lg2_approx_ftz_f(x); }

constexpr float infinity = __builtin_inff();
constexpr float log2e = 1.4426950408889634f, ln2 = 0.6931471805599453f;

/// The same number, of which the compiler knows nothing: keeps it from
/// computing before a loop, and keeping in registers, what costs little inside.
KERF_DEVICE uint32_t opaque(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}
KERF_DEVICE int opaque(int x) { return (int)opaque((uint32_t)x); }

/// What instructions call the address of shared memory.
KERF_DEVICE uint32_t sharedAddress(const void *pointer) {
  return (uint32_t)(size_t)(__attribute__((address_space(3)))
                            const void *)pointer;
}

#endif // KERF_DEVICES_CUDA_KERNELS_CUDA_H
