//===- MatrixProduct.cpp - sums of products -------------------------------===//

#include "MatrixProduct.h"

namespace {
using Rows = const float (&)[kerf::sim::warpRows][kerf::sim::productDepth];

/// The loop over eight columns stays in registers of SIMD.
[[gnu::always_inline]] inline void multiply(Rows a, const float *b,
                                            uint32_t columns, double *sums) {
  for (int row = 0; row < kerf::sim::warpRows; ++row)
    for (uint32_t first = 0; first < columns; first += 8) {
      double total[8] = {};
      for (int k = 0; k < kerf::sim::productDepth; ++k)
        for (uint32_t at = 0; at < 8; ++at)
          total[at] += double(a[row][k]) * b[k * columns + first + at];
      for (uint32_t at = 0; at < 8; ++at)
        sums[row * columns + first + at] = total[at];
    }
}

#ifdef KERF_SIM_HAVE_AVX2
[[gnu::target("avx2")]] void multiplyAvx2(Rows a, const float *b,
                                          uint32_t columns, double *sums) {
  multiply(a, b, columns, sums);
}
#endif
} // namespace

void kerf::sim::multiplyRows(Rows a, const float *b, uint32_t columns,
                             double *sums) {
#ifdef KERF_SIM_HAVE_AVX2
  if (__builtin_cpu_supports("avx2"))
    return multiplyAvx2(a, b, columns, sums);
#endif
  multiply(a, b, columns, sums);
}
