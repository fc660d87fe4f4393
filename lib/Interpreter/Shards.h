//===- Shards.h - parts of global tensors on virtual ranks ----------------===//

#ifndef KERF_LIB_INTERPRETER_SHARDS_H
#define KERF_LIB_INTERPRETER_SHARDS_H

#include "kerf/Dialect/Spmd/Spmd.h"

#include <memory>

namespace kerf {

using TensorRef = std::shared_ptr<const HostTensor>;
/// One tensor per rank of the mesh; null for ranks that run another stage.
using Ranks = llvm::SmallVector<TensorRef>;

/// One tensor for each rank of a program, from a function of the rank.
Ranks makeRanks(spmd::ProgramOp program,
                llvm::function_ref<HostTensor(int64_t rank)> body);

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

/// Part `index` of `parts` along a dimension that is made of `blocks` equal
/// blocks: that part of each block.
HostTensor takePart(const HostTensor &whole, int64_t dim, int64_t index,
                    int64_t parts, int64_t blocks = 1);
/// Tensors one after the other along a dimension.
HostTensor joinParts(llvm::ArrayRef<const HostTensor *> parts, int64_t dim);

/// Piece `index` of `parts` of a tensor, flattened and padded with zeros so
/// that all pieces have one multiple of `granule` elements.
HostTensor takePiece(const HostTensor &whole, int64_t index, int64_t parts,
                     int64_t granule = 1);
/// Writes a piece back where `takePiece` takes it from; the padding is dropped.
void putPiece(HostTensor &whole, const HostTensor &piece, int64_t index);
/// The tensor of this shape from all its pieces.
HostTensor joinPieces(llvm::ArrayRef<const HostTensor *> pieces,
                      llvm::ArrayRef<int64_t> shape);

/// How a global tensor is stored on the ranks of a program.
struct Rest {
  mlir::ArrayAttr sharded; ///< one list of axes per dimension
  /// Blocks of each dimension, which are sharded one by one; empty: one each.
  llvm::SmallVector<int64_t> blocks;
  mlir::ArrayAttr pieces; ///< axes over which shards are in pieces, or null
  int64_t granule = 1;    ///< of the elements of a piece
};

/// `sharded` without the micro-batches.
mlir::ArrayAttr dropMicro(mlir::ArrayAttr sharded);

/// The rows of dimension 1, given by position, in an order.
HostTensor putInOrder(const HostTensor &global, ZigzagAttr zigzag);

/// What the rank at a place holds of a global tensor.
HostTensor takeShard(const HostTensor &global, const Rest &rest,
                     const Place &place);

/// The global tensor from what all ranks of the program hold (one tensor per
/// rank of the mesh). Fails with a message in `error` when ranks that should
/// hold the same differ, or padding of pieces is not zero.
mlir::FailureOr<HostTensor>
joinShards(llvm::ArrayRef<const HostTensor *> shards, const Rest &rest,
           llvm::ArrayRef<int64_t> globalShape, spmd::ProgramOp program,
           std::string &error);

/// First element in which two tensors of one size differ, or -1. NaN is equal
/// to NaN.
int64_t findDifference(const HostTensor &a, const HostTensor &b);

} // namespace kerf

#endif // KERF_LIB_INTERPRETER_SHARDS_H
