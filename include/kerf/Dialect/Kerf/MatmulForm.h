//===- MatmulForm.h - contractions as strided matmuls ---------------------===//
//
// Library matmuls know three matrices with strides and a batch. This says which
// contractions are one, whatever their number of dimensions.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_KERF_MATMULFORM_H
#define KERF_DIALECT_KERF_MATMULFORM_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include <optional>

namespace kerf {

/// Strides of a tensor's dimensions, in elements.
using Strides = llvm::SmallVector<int64_t, 4>;

/// Strides of a dense row-major tensor.
Strides denseStrides(llvm::ArrayRef<int64_t> shape);

/// `c[batch,m,n] = sum_k a[batch,m,k] b[batch,k,n] (+ bias[n])`, columns of c
/// adjacent. Strides are in elements.
struct MatmulForm {
  struct Matrix {
    unsigned operand = 0; ///< of the op (0 for the result)
    int64_t batch = 0, row = 0, column = 0;
  };
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Matrix a, b, c;
  /// Operand with a bias per column of c, if any.
  std::optional<unsigned> bias;
};

/// The form of a `linear`, `matmul` or `einsum` whose operands and result have
/// these strides; nothing if it is no such op, or not one strided matmul.
std::optional<MatmulForm> getMatmulForm(mlir::Operation *op,
                                        llvm::ArrayRef<Strides> operands,
                                        const Strides &result);

/// The form with dense operands and result.
std::optional<MatmulForm> getMatmulForm(mlir::Operation *op);

} // namespace kerf

#endif // KERF_DIALECT_KERF_MATMULFORM_H
