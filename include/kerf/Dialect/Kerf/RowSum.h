//===- RowSum.h - sums of rows beside products ----------------------------===//
//
// The gradient of a bias adds up the rows that the gradient of the weight
// contracts over: a library gives both in one call.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_KERF_ROWSUM_H
#define KERF_DIALECT_KERF_ROWSUM_H

#include "kerf/Dialect/Kerf/MatmulForm.h"

namespace kerf {

/// True for a sum over all dimensions but the last.
bool isRowSum(ReduceOp reduce);

/// True where the rows of `operand` of a product, each of `columns` elements,
/// are what it adds up over: `a` transposed, or `b`, in their dense order.
bool sumsOverRows(const MatmulForm &form, unsigned operand, int64_t columns);

} // namespace kerf

#endif // KERF_DIALECT_KERF_ROWSUM_H
