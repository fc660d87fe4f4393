//===- Float8.h - matmuls of 8-bit floats, recognised ---------------------===//

#ifndef KERF_DIALECT_KERF_FLOAT8_H
#define KERF_DIALECT_KERF_FLOAT8_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// What an operand of a matmul of 8-bit floats, or of what was one, was before
/// its dimensions were ordered and it was rounded (`kerf-quantize-matmuls`);
/// the value itself when it is no such operand. Dimension i of `value` is
/// dimension `perm[i]` of that, in order where `perm` stays empty.
mlir::Value unquantized(mlir::Value value,
                        llvm::SmallVectorImpl<int64_t> *perm = nullptr);

} // namespace kerf

#endif // KERF_DIALECT_KERF_FLOAT8_H
