//===- Shard.h - checks of ops that know their place in a global tensor ---===//

#ifndef KERF_LIB_DIALECT_KERF_SHARD_H
#define KERF_LIB_DIALECT_KERF_SHARD_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// Checks `global` and the number of offsets of an op on a shard of `shape`:
/// one global size per dimension, none below the local one; no offsets or one
/// per dimension.
mlir::LogicalResult verifyShard(mlir::Operation *op,
                                llvm::ArrayRef<int64_t> shape,
                                std::optional<llvm::ArrayRef<int64_t>> global,
                                size_t numOffsets);

} // namespace kerf

#endif // KERF_LIB_DIALECT_KERF_SHARD_H
