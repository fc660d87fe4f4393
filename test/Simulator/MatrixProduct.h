//===- MatrixProduct.h - sums of products ---------------------------------===//

#ifndef KERF_SIMULATOR_MATRIXPRODUCT_H
#define KERF_SIMULATOR_MATRIXPRODUCT_H

#include <cstdint>

namespace kerf::sim {

inline constexpr int warpRows = 16, productDepth = 16;

/// sums[r][n] = sum over k of a[r][k] b[k][n], for 16 rows, 16 k and `columns`
/// columns, a multiple of 8. Rows of b and sums follow each other. A product of
/// two numbers of 16 bits is exact in f64; they are added from k = 0 on.
void multiplyRows(const float (&a)[warpRows][productDepth], const float *b,
                  uint32_t columns, double *sums);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_MATRIXPRODUCT_H
