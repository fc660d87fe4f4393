//===- KernelsAvx512Bf16.cpp - loops for AVX-512 with bf16 products -------===//

#include "KernelsBf16Impl.h"

namespace {
namespace impl {

constexpr int half = 8; ///< rows of a register tile

/// `half` rows of a strip, [k / 32][16][32], times a panel.
KERF_INLINE void tileBf16(int64_t rows, int64_t n, int64_t k, const char *a,
                          const char *b, float *c, int64_t cRow,
                          bool accumulate) {
  __m512 sum[half][2];
#pragma GCC unroll 8
  for (int i = 0; i < half; ++i)
    sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  for (int64_t l = 0; l < k; l += line, a += 1024, b += 2048)
#pragma GCC unroll 4
    for (int64_t p = 0; p < 16; ++p) {
      __m512bh b0 = (__m512bh)_mm512_loadu_si512(b + p * 64);
      __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + 1024 + p * 64);
#pragma GCC unroll 8
      for (int i = 0; i < half; ++i) {
        int32_t pair;
        memcpy(&pair, a + i * 64 + p * 4, 4);
        __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
        sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
      }
    }
  float part[half * panel];
  bool whole = rows == half && n == panel;
  float *to = whole && !accumulate ? c : part;
  int64_t toRow = whole && !accumulate ? cRow : panel;
#pragma GCC unroll 8
  for (int i = 0; i < half; ++i) {
    _mm512_storeu_ps(to + i * toRow, sum[i][0]);
    _mm512_storeu_ps(to + i * toRow + 16, sum[i][1]);
  }
  if (to == part)
    savePart(c, cRow, part, panel, rows, n, accumulate);
}

static void multiplyBf16(int64_t m, int64_t n, int64_t k, const void *a,
                         int64_t, int64_t stripBytes, const void *b, float *c,
                         int64_t cRow, bool accumulate, const void *) {
  for (int64_t i = 0; i < m; i += half) {
    const char *rows =
        (const char *)a + i / bf16Strip * stripBytes + i % bf16Strip * 64;
    tileBf16(least(half, m - i), n, k, rows, (const char *)b, c + i * cRow,
             cRow, accumulate);
  }
}

constexpr kerf::cpu::Engine bf16Engine = {true,      panel,        bf16Strip,
                                          2,         line,         packBf16A,
                                          packBf16B, multiplyBf16, nullptr};

} // namespace impl
} // namespace

const kerf::cpu::Kernels kerf::cpu::avx512Bf16Kernels =
    impl::table("avx512bf16", impl::bf16Engine);
