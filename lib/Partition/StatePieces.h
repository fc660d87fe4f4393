//===- StatePieces.h - state that is sharded over data ranks --------------===//

#ifndef KERF_LIB_PARTITION_STATEPIECES_H
#define KERF_LIB_PARTITION_STATEPIECES_H

#include "Writer.h"

#include "llvm/ADT/StringMap.h"

namespace kerf {

/// Which axes split the state of which parameter in pieces (ZeRO, Rajbhandari
/// et al. 2020, arXiv 1910.02054): those over which its gradient is a sum,
/// tensor ranks aside, the innermost ones that make up the plan's shard group.
/// Parameters are known by name.
class StatePieces {
public:
  StatePieces() = default;
  StatePieces(ModelOp model, const PlannedModel &plan);

  /// What of the state is sharded: `#kerf.plan`'s `zero`.
  int64_t level() const { return zero; }
  /// Axes of a parameter's pieces; empty where nothing is sharded.
  const AxisList &axesOf(llvm::StringRef param) const;
  /// Axes of the pieces of a gradient that updates read; else empty.
  const AxisList &axesOf(mlir::Value gradient) const;
  /// As its parameter is stored, less the pieces; of a stack: the stack.
  const Layout &restOf(mlir::Value gradient) const;
  /// Elements of each piece of a shard of so many of a parameter, or of a
  /// gradient, that is split in pieces.
  int64_t sizeOf(llvm::StringRef param, int64_t elements) const;
  int64_t sizeOf(mlir::Value gradient, int64_t elements) const;

private:
  struct Param {
    AxisList axes;
    int64_t ranks = 1, granule = 1;
  };
  struct Gradient {
    llvm::StringRef param;
    Layout rests;
  };
  int64_t zero = 0;
  AxisList none;
  llvm::StringMap<Param> params;
  llvm::DenseMap<mlir::Value, Gradient> gradients;
};

/// A shard (of a stack of them if `isStack`: of each) as the piece of the rank:
/// flat, padded, summed over the axes and scattered.
mlir::Value scatterPieces(mlir::OpBuilder &builder, FunctionWriter &function,
                          mlir::Value shard, const StatePieces &pieces,
                          mlir::Value gradient, bool isStack,
                          const PlanAxes &plan, mlir::Operation *reader);

/// The shard of type `shard` from the pieces of all ranks.
mlir::Value gatherPieces(mlir::OpBuilder &builder, FunctionWriter &function,
                         mlir::Value piece, mlir::RankedTensorType shard,
                         const AxisList &axes, mlir::Operation *reader);

} // namespace kerf

#endif // KERF_LIB_PARTITION_STATEPIECES_H
