//===- Builtin.cu - kernels that measure the GPU --------------------------===//
//
// Of kerf_builtin (Device.h): one that leaves its argument alone, for the time
// that a launch takes, and x + y of vectors, for the bandwidth of memory.
//
//===----------------------------------------------------------------------===//

#include "Cuda.h"

constexpr int threads = 256, unitElements = 4096;

typedef float Four __attribute__((ext_vector_type(4)));

KERF_KERNEL(threads, 1) void kerf_builtin_nothing(float *) {}

KERF_KERNEL(threads, 1)
void kerf_builtin_sum(const Four *x, const Four *y, Four *sum) {
  constexpr int perUnit = unitElements / 4;
  int first = blockX() * perUnit + threadIndex();
#pragma unroll
  for (int n = 0; n < perUnit; n += threads)
    sum[first + n] = x[first + n] + y[first + n];
}
