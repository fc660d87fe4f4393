//===- RankRows.cpp - rows of experts -------------------------------------===//
//
// Where ranks take the rows of their own experts out of all tokens, the slots
// are each rank's own (`Own`), and so the rows of the table are sharded; what
// is brought back is a sum. Where ranks exchange rows the table is not
// followed, and tokens are sharded again when they are home.
//
//===----------------------------------------------------------------------===//

#include "RankRules.h"

using namespace mlir;
using namespace kerf;

/// True when an axis shards a tensor of tokens along sequences or groups.
static bool hasTokens(const RankState &state, unsigned axis) {
  int dim = state.shardedDim(axis);
  return dim >= 0 && dim < 2;
}

/// Tokens, slots, weights to a table `[G,R,D]`.
FailureOr<bool> OpRule::followDispatch(unsigned axis) {
  RankState &table = results[0];
  const RankState &x = operand(0), &slots = operand(1);
  // Of one group on the rank, shapes do not show whether it is itself sharded.
  bool isOne = typeOf(op->getResult(0)).getDimSize(0) == 1;
  if (isOne && axes.hasGroups() && axis != axes.micro() &&
      slots.shardedDim(axis) == 0) {
    table.over[axis] = Over::Unknown;
    table.dims[0] = table.dims[0].without(axis);
    return true;
  }
  if (slots.over[axis] != Over::Own)
    return false;
  table.over[axis] = Over::Unknown;
  if (hasTokens(slots, axis) || x.over[axis] != Over::Same)
    return true;
  if (x.isShardedBy(axis))
    return FailureOr<bool>(error(axis, 0)
                           << "all tokens, as the slots are those of all");
  shardResult(axis, 1);
  return true;
}

/// A table, slots and weights or a gradient to tokens `[B,S,*]`.
FailureOr<bool> OpRule::followCombine(unsigned axis) {
  RankState &tokens = results[0];
  const RankState &table = operand(0), &slots = operand(1);
  bool rowsAreSharded = table.dims[1].isShardedBy(axis);
  if (table.isLoose(axis)) {
    tokens.over[axis] = hasTokens(slots, axis) ? Over::Same : Over::Unknown;
    return true;
  }
  bool isOwn = slots.over[axis] == Over::Own;
  if (rowsAreSharded && !isOwn && !slots.isLoose(axis))
    return FailureOr<bool>(error(axis, 0)
                           << "all rows, as the slots are those of all");
  if (rowsAreSharded != isOwn || hasTokens(slots, axis)) {
    if (!rowsAreSharded && !isOwn)
      return false;
    tokens.over[axis] = Over::Unknown;
    return true;
  }
  if (!isOwn)
    return false;
  tokens.over[axis] = Over::Sum;
  return true;
}

/// Makes an axis the first digit of a dimension of the result.
void OpRule::shardResult(unsigned axis, unsigned dim) {
  RankState &result = results[0];
  result.over[axis] = Over::Same;
  if (result.isShardedBy(axis))
    return;
  DimState &sharded = result.dims[dim];
  sharded.opaque |= !sharded.axes().empty();
  sharded.digits.insert(sharded.digits.begin(), {axes.sizeOf(axis), int(axis)});
}

/// Matmuls of rows with the weights of their experts, without a capacity. Rows
/// that were exchanged are those of the rank's experts.
FailureOr<bool> OpRule::followMatmul(unsigned axis) {
  bool isGradient = isCall(op, LibraryCall::GroupedGradient);
  unsigned row = facts.maps[0].from[0], expert = facts.maps[0].to[0];
  bool isOwn = isSharded(isGradient ? row : expert, axis);
  if (loose[axis] && isOwn && (isGradient || operand(0).isLoose(axis))) {
    shardResult(axis, isGradient ? 0 : 1);
    return true;
  }
  if (loose[axis] || isSharded(row, axis) == isSharded(expert, axis))
    return false;
  if (isSharded(row, axis))
    return FailureOr<bool>(error(axis, 0)
                           << "the rows of all experts, as the sizes are");
  return FailureOr<bool>(error(axis, isGradient ? 2 : 1)
                         << "all experts, as the rows are those of all");
}

/// True where an override says what the results are over an axis.
FailureOr<bool> OpRule::followRows(unsigned axis) {
  if (isa<DispatchOp>(op))
    return followDispatch(axis);
  if (isa<CombineOp, CombineWeightGradientOp>(op))
    return followCombine(axis);
  if (isCall(op, LibraryCall::GroupedMatmul, LibraryCall::GroupedGradient) &&
      !facts.maps.empty())
    return followMatmul(axis);
  return false;
}
