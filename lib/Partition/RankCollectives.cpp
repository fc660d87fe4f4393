#include "RankRules.h"

using namespace mlir;
using namespace kerf;

bool kerf::isCollective(Operation *op) {
  return isa<spmd::AllReduceOp, spmd::AllGatherOp, spmd::ReduceScatterOp,
             spmd::AllToAllOp, spmd::SliceOwnOp, spmd::RotateOp>(op);
}

namespace {
/// A collective while its result's state is worked out.
struct CollectiveRule {
  Operation *op;
  const RankAxes &axes;
  llvm::SmallVector<unsigned, 4> group;
  RankState state; ///< of the operand, then of the result

  LogicalResult reduce(ReduceKind kind);
  LogicalResult gather(int64_t dim);
  LogicalResult slice(int64_t dim);
  LogicalResult exchange(spmd::AllToAllOp op);
  void rotate();
  LogicalResult run();
  InFlightDiagnostic error(unsigned axis) {
    return stateError(op, 0, state, axis, axes);
  }
  bool isSame(unsigned axis) {
    return state.over[axis] == Over::Same && !state.isShardedBy(axis);
  }
  /// True where a dimension of one element is taken for the sharded one: shapes
  /// do not tell it from a dimension that was summed.
  bool mayBeSum(unsigned axis) {
    return llvm::any_of(state.dims, [&](const DimState &dim) {
      return dim.isShardedBy(axis) && dim.localSize() == 1;
    });
  }
  bool isAny(int64_t dim) {
    return state.zero || (state.dims[dim].uniform && state.isUniform());
  }
};
} // namespace

/// A maximum of equal values is that value; a sum of them is n times it.
LogicalResult CollectiveRule::reduce(ReduceKind kind) {
  Over pending = kind == ReduceKind::Sum ? Over::Sum : Over::Max;
  for (unsigned axis : group) {
    bool fits = state.over[axis] == pending || state.isLoose(axis) ||
                axes.isPipeline(axis) || // the others have zeros
                state.zero || mayBeSum(axis) ||
                (kind == ReduceKind::Max && isSame(axis));
    if (!fits)
      return error(axis) << (kind == ReduceKind::Sum ? "a sum" : "a maximum")
                         << " that is still to be made";
    bool isGuess = state.over[axis] != pending && mayBeSum(axis);
    for (DimState &dim : state.dims)
      if (dim.isShardedBy(axis))
        dim = dim.without(axis);
    state.over[axis] = isGuess ? Over::Unknown : Over::Same;
  }
  return success();
}

/// What is not followed is equal on all ranks afterwards.
LogicalResult CollectiveRule::gather(int64_t dim) {
  llvm::SmallVector<unsigned, 4> own;
  for (unsigned axis : group) {
    bool isLoose = state.isLoose(axis);
    if (!isLoose && state.over[axis] != Over::Same)
      return error(axis) << "parts";
    bool isPart = state.dims[dim].isShardedBy(axis);
    if (!isPart && !isLoose && !isAny(dim) && !state.dims[dim].uniform)
      return error(axis) << "split along dimension " << dim;
    if (isPart)
      own.push_back(axis);
    state.over[axis] = Over::Same;
  }
  DimState gathered = state.dims[dim];
  if (failed(gatherDim(gathered, own, axes)))
    return op->emitOpError()
           << "puts parts of dimension " << dim << " together, which is split "
           << printDim(state.dims[dim], axes) << ", in another order";
  int64_t size = typeOf(op->getResult(0)).getDimSize(dim);
  if (gathered.localSize() != size) // Some of the group were not followed.
    gathered.forget(size);
  state.dims[dim] = gathered;
  return success();
}

/// `over` is `Same` for all of the group here.
LogicalResult CollectiveRule::slice(int64_t dim) {
  for (unsigned axis : group)
    if (state.isShardedBy(axis) && !state.isLoose(axis))
      return error(axis) << "the same on all ranks";
  if (state.dims[dim].uniform) {
    state.dims[dim] = DimState::anyOf(typeOf(op->getResult(0)).getDimSize(dim));
    return success();
  }
  sliceDim(state.dims[dim], group, axes);
  return success();
}

LogicalResult CollectiveRule::exchange(spmd::AllToAllOp op) {
  bool follows =
      llvm::none_of(group, [&](unsigned axis) { return state.isLoose(axis); });
  for (unsigned axis : group)
    if (!state.isLoose(axis) &&
        (state.over[axis] != Over::Same ||
         (!state.dims[op.getConcat()].isShardedBy(axis) && !state.isUniform())))
      return error(axis) << "split along dimension " << op.getConcat();
  if (follows)
    return failed(gather(op.getConcat())) ? failure() : slice(op.getSplit());
  RankState result = RankState::unknown(op.getResult().getType(), axes);
  for (unsigned axis = 0; axis < axes.count(); ++axis)
    if (!llvm::is_contained(group, axis))
      result.over[axis] = state.over[axis];
  result.dims = state.dims;
  auto shape = typeOf(op.getResult()).getShape();
  for (int64_t dim : {op.getSplit(), op.getConcat()}) {
    for (unsigned axis : group)
      result.dims[dim] = result.dims[dim].without(axis);
    if (!result.dims[dim].uniform)
      result.dims[dim].forget(shape[dim]);
  }
  state = result;
  return success();
}

/// The part of the next rank. Of several axes together it is not followed.
void CollectiveRule::rotate() {
  for (unsigned axis : group) {
    if (group.size() > 1)
      state.over[axis] = Over::Unknown;
    for (DimState &dim : state.dims)
      for (IndexDigit &digit : dim.digits)
        if (digit.axis == int(axis))
          digit.shift = (digit.shift + 1) % axes.sizeOf(axis);
  }
}

LogicalResult CollectiveRule::run() {
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(op))
    return this->reduce(reduce.getKind());
  if (auto all = dyn_cast<spmd::AllGatherOp>(op))
    return gather(all.getDim());
  if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op)) {
    if (failed(reduce(scatter.getKind())))
      return failure();
    return slice(scatter.getDim());
  }
  if (auto own = dyn_cast<spmd::SliceOwnOp>(op)) {
    for (unsigned axis : group)
      if (!state.isLoose(axis) && !state.zero && !isSame(axis))
        return error(axis) << "the same on all ranks";
    return slice(own.getDim());
  }
  if (auto all = dyn_cast<spmd::AllToAllOp>(op))
    return exchange(all);
  rotate();
  return success();
}

LogicalResult kerf::transferCollective(Operation *op, RankStates &states,
                                       const RankAxes &axes) {
  auto group = axes.numbersOf(op->getAttrOfType<ArrayAttr>("axes"));
  return tryPlaces(op, states, [&] {
    CollectiveRule rule = {op, axes, group,
                           states.find(op->getOperand(0))->second};
    if (!isa<spmd::AllGatherOp>(op))
      rule.state.flat = {};
    if (!group.empty() && failed(rule.run()))
      return failure();
    states[op->getResult(0)] = std::move(rule.state);
    return success();
  });
}
