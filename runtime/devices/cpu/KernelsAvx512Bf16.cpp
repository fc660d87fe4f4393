//===- KernelsAvx512Bf16.cpp - loops for AVX-512 with bf16 dot products ---===//

#include "KernelsBf16Impl.h"

namespace {
namespace impl {

/// Two numbers of bf16; their products are added in f32.
struct Pairs {
  static constexpr int64_t numbers = 2;
  KERF_INLINE Floats add(Floats sum, Floats x, Floats y) {
    return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)y);
  }
};

constexpr Packing lines = {panel * 4, 64};

constexpr kerf::cpu::Engine bf16Engine = {true,
                                          false,
                                          panel,
                                          KERF_STRIP,
                                          2,
                                          line,
                                          packBf16A,
                                          packBf16B<lines>,
                                          multiply<Pairs>,
                                          nullptr};

} // namespace impl
} // namespace

const kerf::cpu::Kernels kerf::cpu::avx512Bf16Kernels =
    impl::table("avx512bf16", impl::bf16Engine);
