//===- MatmulEnd.h - what matmuls of libraries can end in -----------------===//

#ifndef KERF_DIALECT_KERF_MATMULEND_H
#define KERF_DIALECT_KERF_MATMULEND_H

#include "kerf/Dialect/Kerf/MatmulForm.h"

namespace kerf {

/// What an op is that a library can compute in one call with a matmul.
enum class MatmulEnd {
  None,
  Gelu,         ///< of the matmul's result; by tanh, as libraries have it
  GeluBackward, ///< by tanh, of a gradient that the matmul makes
  /// Over all dimensions but the last: the gradient of a bias adds up the rows
  /// that the gradient of the weight contracts over.
  RowSum,
};
MatmulEnd matmulEndOf(mlir::Operation *op);

/// True where the rows of `operand` of a matmul, each of `columns` elements,
/// are what it adds up over: `a` transposed, or `b`, in their dense order.
bool sumsOverRows(const MatmulForm &form, unsigned operand, int64_t columns);

} // namespace kerf

#endif // KERF_DIALECT_KERF_MATMULEND_H
