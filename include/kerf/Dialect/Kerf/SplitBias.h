//===- SplitBias.h - matmuls whose bias is added after the sum ------------===//

#ifndef KERF_DIALECT_KERF_SPLITBIAS_H
#define KERF_DIALECT_KERF_SPLITBIAS_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Carries out the variant `bias_after_sum` of an op: the matmul without its
/// bias, then the addition of the bias. Returns the matmul, whose summed
/// factor may be split; null where the op has no bias. The op is erased.
mlir::Operation *splitBias(mlir::Operation *op);

/// Undoes `splitBias`: gives a matmul the bias that is added to its sum, with
/// the matmul's assignment. False where no such addition of the same forward
/// op follows.
bool mergeBias(mlir::Operation *matmul);

} // namespace kerf

#endif // KERF_DIALECT_KERF_SPLITBIAS_H
