//===- Shard.h - checks of ops that know their place in a global tensor ---===//

#ifndef KERF_LIB_DIALECT_KERF_SHARD_H
#define KERF_LIB_DIALECT_KERF_SHARD_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Checks `global` and the number of offsets of an op on a shard of `shape`:
/// one global size per dimension, none below the local one; no offsets or one
/// per dimension.
mlir::LogicalResult verifyShard(mlir::Operation *op,
                                llvm::ArrayRef<int64_t> shape,
                                std::optional<llvm::ArrayRef<int64_t>> global,
                                size_t numOffsets);

/// Checks that an order of rows is one of these dimensions of the whole tensor.
mlir::LogicalResult verifyZigzag(mlir::Operation *op, ZigzagAttr zigzag,
                                 llvm::ArrayRef<int64_t> whole);

/// The same of an op of which the dimension's whole size is not known, but the
/// local one.
mlir::LogicalResult verifyZigzagAlong(mlir::Operation *op, ZigzagAttr zigzag,
                                      int64_t dim, int64_t size);

} // namespace kerf

#endif // KERF_LIB_DIALECT_KERF_SHARD_H
