//===- Shards.h - parts of global tensors on virtual ranks ----------------===//

#ifndef KERF_LIB_INTERPRETER_SHARDS_H
#define KERF_LIB_INTERPRETER_SHARDS_H

#include "kerf/Dialect/Spmd/Spmd.h"

namespace kerf {

/// Where a rank (and, in a call, a micro-batch) stands in a program's mesh.
struct Place {
  mutable spmd::ProgramOp program;
  int64_t rank = 0;
  int64_t micro = 0;

  int64_t coordinate(llvm::StringRef axis) const;
  /// Number of this place among those that differ in the axes, the first axis
  /// slowest.
  int64_t index(mlir::ArrayAttr axes) const;
};

/// The ranks that differ from `rank` in the axes alone, by `Place::index`.
llvm::SmallVector<int64_t> groupOf(spmd::ProgramOp program, int64_t rank,
                                   mlir::ArrayAttr axes);

/// Part `index` of `parts` along a dimension.
HostTensor takePart(const HostTensor &whole, int64_t dim, int64_t index,
                    int64_t parts);
/// Tensors one after the other along a dimension.
HostTensor joinParts(llvm::ArrayRef<const HostTensor *> parts, int64_t dim);

/// `cut` without the micro-batches.
mlir::ArrayAttr dropMicro(mlir::ArrayAttr cut);

/// The part of a global tensor at a place, as `cut` says.
HostTensor takeShard(const HostTensor &global, mlir::ArrayAttr cut,
                     const Place &place);

/// The global tensor from the parts of all ranks. Fails with a message in
/// `error` when ranks that should hold the same part differ.
mlir::FailureOr<HostTensor>
joinShards(llvm::ArrayRef<const HostTensor *> shards, mlir::ArrayAttr cut,
           llvm::ArrayRef<int64_t> globalShape, spmd::ProgramOp program,
           std::string &error);

} // namespace kerf

#endif // KERF_LIB_INTERPRETER_SHARDS_H
