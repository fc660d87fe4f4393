//===- Layout.h - where the parts of values are ---------------------------===//
//
// How a plan's assignments of factors to axes decide the layout of every value:
// which axes shard which dimension, and over which axes a sum is still to be
// made. Planner and partitioner share this.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SHARDING_LAYOUT_H
#define KERF_SHARDING_LAYOUT_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <string>

namespace kerf {

/// Indices of axes in `PlanAxes`; where order matters, the first is slowest.
using AxisList = llvm::SmallVector<unsigned, 2>;

/// The axes of a plan: those of its mesh, then `micro`.
class PlanAxes {
public:
  explicit PlanAxes(PlanAttr plan);

  unsigned count() const { return names.size(); }
  unsigned micro() const { return names.size() - 1; }
  llvm::StringRef nameOf(unsigned axis) const { return names[axis]; }
  int64_t sizeOf(unsigned axis) const { return sizes[axis]; }
  /// Product of sizes.
  int64_t sizeOf(llvm::ArrayRef<unsigned> axes) const;
  std::optional<unsigned> find(llvm::StringRef name) const;
  /// `[dp, micro]`.
  std::string print(llvm::ArrayRef<unsigned> axes) const;
  /// `#kerf.plan`'s `moe_buffer`.
  double moeBuffer() const { return buffer; }
  /// Rows of a table of so many that one of `ranks` has room for, where they
  /// are exchanged.
  int64_t roomOf(int64_t rows, int64_t ranks) const;

private:
  llvm::SmallVector<std::string> names;
  llvm::SmallVector<int64_t> sizes;
  double buffer = 0;
};

/// Where the parts of a value are. Over an axis that is in no list, all ranks
/// hold the same.
struct Layout {
  llvm::SmallVector<AxisList, 4> dims; ///< axes that shard each dimension
  /// A sharded dimension is made of as many equal blocks, each of which is
  /// sharded: a rank has its part of each, one after the other. Empty when all
  /// are 1.
  llvm::SmallVector<int64_t, 4> blocks;
  /// The dimension whose rows lie with owners whom data decides (`FactorMap`):
  /// each part has room for all of them, or, where they were `exchanged`, as
  /// much as the plan gives. -1 if there is none.
  int ragged = -1;
  bool exchanged = false;
  AxisList sums;   ///< the value is the sum over these; ascending
  AxisList maxima; ///< the value is the maximum over these; ascending
  /// All elements are zero: a sum of such parts over any axes.
  bool zero = false;
  /// Made by every reader as it needs it (while a plan is being completed).
  bool any = false;

  static Layout whole(int64_t rank);
  bool operator==(const Layout &other) const {
    return dims == other.dims && blocks == other.blocks &&
           ragged == other.ragged && exchanged == other.exchanged &&
           sums == other.sums && maxima == other.maxima;
  }
  int64_t blocksOf(unsigned dim) const {
    return blocks.empty() ? 1 : blocks[dim];
  }
  void setBlocks(unsigned dim, int64_t count);
  /// Of a dimension that is not sharded any more.
  void forgetParts(unsigned dim);
  bool isRagged(unsigned dim) const { return ragged == int(dim); }
  bool isShardedBy(unsigned axis) const;
  bool isPending() const { return !sums.empty() || !maxima.empty(); }
  /// Without sums and maxima to be made.
  Layout reduced() const;
  /// Without an axis.
  Layout without(unsigned axis) const;
};

/// `[[dp, micro], [tp] of 3 blocks, [ep] ragged] sum [tp]`; `exchanged` for
/// ragged rows that were.
std::string printLayout(const Layout &layout, const PlanAxes &axes);

/// Type of a part of a global tensor. The sizes must divide.
mlir::RankedTensorType localType(mlir::Type global, const Layout &layout,
                                 const PlanAxes &axes);

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// `#kerf.assign` with numbers for names.
struct Assignment {
  llvm::SmallVector<AxisList, 6> factors; ///< one per factor of the op
  AxisList pending;
  /// Indices of the op's variants that it uses; ascending.
  llvm::SmallVector<unsigned, 1> variants;
  /// Blocks of the dimension that the axis `tp` shards, each of which is
  /// sharded: no contiguous parts.
  int64_t blocks = 1;
  /// The factors of the op's maps may be split, all by the same axes.
  bool routed = false;
};

/// The op's assignment; nothing split where it has none. Fails with an error
/// naming the factor, axis or variant that does not exist.
mlir::FailureOr<Assignment>
getAssignment(mlir::Operation *op, const Factors &facts, const PlanAxes &axes);
void setAssignment(mlir::Operation *op, const Factors &facts,
                   const Assignment &assignment, const PlanAxes &axes);

/// True when parts of the op may sum squares on their own and combine them:
/// an axis may then split one factor per operand.
bool sumsSquares(const Factors &facts);
/// True when the op exchanges rows of a table, or works on rows that were.
bool exchangesRows(const Factors &facts, const Assignment &assignment);

/// Layouts that an op works on.
struct OpLayouts {
  llvm::SmallVector<Layout> operands; ///< as the op needs them
  llvm::SmallVector<Layout> results;
};

/// The layouts that follow from an assignment, given those in which the
/// operands arrive. Fails, with a message in `error`, where a factor must not
/// be split, the sizes do not divide, a part would be neither a range nor one
/// of each block, or a pending sum cannot pass.
mlir::FailureOr<OpLayouts> layoutsOf(const Factors &facts,
                                     const Assignment &assignment,
                                     llvm::ArrayRef<Layout> arriving,
                                     const PlanAxes &axes, std::string &error);

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// One collective (or local slice) on the way from a layout to another.
struct ConversionStep {
  enum Kind { AllReduce, ReduceScatter, AllGather, AllToAll, SliceOwn };
  Kind kind;
  AxisList axes;
  int64_t dim = 0;    ///< that is reduced, gathered, sliced or split
  int64_t concat = 0; ///< AllToAll
  ReduceKind reduce = ReduceKind::Sum;
  int64_t blocks = 1;       ///< of `dim`, each of which is sliced or gathered
  int64_t concatBlocks = 1; ///< of `concat`
};

/// The steps from one layout to another. Fails, with a message in `error`,
/// where values of different micro-batches would be needed at once, or a value
/// would have to become a pending sum.
mlir::FailureOr<llvm::SmallVector<ConversionStep>>
planConversion(const Layout &from, const Layout &to, const PlanAxes &axes,
               std::string &error);

/// The layout after a step.
Layout applyStep(const Layout &layout, const ConversionStep &step);

/// Bytes that a rank sends in these steps: (n-1)/n of what is gathered,
/// scattered or exchanged over n ranks, twice that for an all-reduce.
double bytesOf(llvm::ArrayRef<ConversionStep> steps, Layout from,
               mlir::Type global, const PlanAxes &axes);

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// The layouts of a planned model.
struct PlannedModel {
  PlanAxes axes;
  /// As values are made. Inputs: as they rest.
  llvm::DenseMap<mlir::Value, Layout> values;
  llvm::DenseMap<mlir::Operation *, Assignment> assignments;
  /// Of ops, repeats (operands in order), yields and the return.
  llvm::DenseMap<mlir::Operation *, OpLayouts> ops;
  /// Ops that depend on inputs alone and not on the micro-batch: once per step.
  llvm::DenseSet<mlir::Operation *> prologue;

  explicit PlannedModel(PlanAttr plan) : axes(plan) {}

  /// The layout in which a value arrives at an op: inputs come whole to ops of
  /// the prologue, and sums over micro-batches are done for the update.
  Layout arriving(mlir::Value value, mlir::Operation *reader) const;
};

/// The model's plan, or the trivial one: one rank, one micro-batch.
PlanAttr getPlan(ModelOp model);

/// True for ops without operands that every reader may compute for itself:
/// parameters, constants, counters.
bool isSource(mlir::Operation *op);

/// True for a constant whose elements are all one number.
bool isOneNumber(mlir::Value value);

/// How a plan that is not complete is completed.
class Completion {
public:
  virtual ~Completion() = default;
  /// Gives an op without an assignment one. Operands arrive in these layouts.
  virtual mlir::LogicalResult assign(mlir::Operation *op, const Factors &facts,
                                     llvm::ArrayRef<Layout> arriving,
                                     const PlannedModel &plan) = 0;
  /// Told of the layouts that an op has got.
  virtual void note(mlir::Operation *op, const OpLayouts &layouts,
                    const PlannedModel &plan) = 0;
  /// Takes back what `assign` gave to ops of this body.
  virtual void retract(mlir::Block &body) = 0;
};

/// Layouts of the model's values, from its plan and assignments; those that are
/// missing come from `completion`, and without one nothing more is sharded.
/// Fails with a diagnostic where an assignment is impossible.
mlir::FailureOr<PlannedModel> planModel(ModelOp model,
                                        Completion *completion = nullptr);

/// The layout of a slice of a stack, and of a stack of such values.
Layout sliceLayout(const Layout &stack);
Layout stackLayout(const Layout &slice);

} // namespace kerf

#endif // KERF_SHARDING_LAYOUT_H
