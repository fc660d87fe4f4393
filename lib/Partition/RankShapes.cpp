//===- RankShapes.cpp - ops that regroup elements, and the norm -----------===//

#include "RankRules.h"

using namespace mlir;
using namespace kerf;

bool OpRule::isShapeOp() const {
  return isView(op, ViewKind::Rename, ViewKind::Part, ViewKind::Pad,
                ViewKind::Join);
}

/// Ends of the next run of dimensions with as many elements on both sides.
static void nextRun(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                    size_t &i, size_t &j) {
  int64_t left = from[i++], right = to[j++];
  while (left != right) {
    if (left < right && i < from.size())
      left *= from[i++];
    else if (j < to.size())
      right *= to[j++];
    else
      break;
  }
}

/// Dimensions of one element at the end belong to the last run. Groups of
/// sequences, whose numbers are integers, are not sharded where they are one:
/// their axes stay with the sequences.
void OpRule::reshape() {
  const RankState &x = operand(0);
  auto type = typeOf(op->getResult(0));
  auto from = typeOf(op->getOperand(0)).getShape(), to = type.getShape();
  RankState &result = results[0];
  if (spmd::ParamOp param = x.flat) {
    auto declared = declaredDims(param, axes);
    llvm::SmallVector<unsigned, 2> sharding;
    for (const DimState &dim : declared)
      llvm::append_range(sharding, dim.axes());
    llvm::sort(sharding);
    if (type.getShape() == param.getShardType().getShape() &&
        x.dims.size() == 1 && x.dims[0].axes() == sharding) {
      result.dims = declared;
      return;
    }
    result.flat = param;
  }
  size_t i = 0, j = 0;
  llvm::SmallVector<DimState, 4> dims;
  while (i < from.size() && j < to.size()) {
    size_t firstFrom = i, firstTo = j;
    nextRun(from, to, i, j);
    bool isLast = i == from.size() || j == to.size();
    while (isLast && i < from.size())
      ++i;
    while (isLast && j < to.size())
      ++j;
    dims.append(regroup(llvm::ArrayRef(x.dims).slice(firstFrom, i - firstFrom),
                        to.slice(firstTo, j - firstTo),
                        !isa<IntegerType>(type.getElementType())));
  }
  for (size_t d = dims.size(); d < to.size(); ++d)
    dims.push_back(DimState::local(to[d]));
  result.dims = dims;
}

/// A dimension of blocks, `[2][tp][4]`, of which some are taken or added.
static DimState inBlocks(const DimState &dim, int64_t offset, int64_t size) {
  DimState result = dim;
  result.uniform = false;
  int64_t within = 1;
  for (const IndexDigit &digit : llvm::reverse(dim.digits)) {
    if (!digit.isLocal())
      break;
    within *= digit.size;
  }
  size_t locals = llvm::count_if(
      dim.digits, [](const IndexDigit &digit) { return digit.isLocal(); });
  bool startsLocal = !dim.digits.empty() && dim.digits.front().isLocal();
  bool simple = locals <= size_t(within > 1) + size_t(startsLocal);
  if (dim.axes().empty()) {
    result.digits = DimState::local(size).digits;
    return result;
  }
  if (dim.opaque || !simple || size % within != 0 || offset % within != 0) {
    result.forget(size);
    return result;
  }
  if (startsLocal)
    result.digits.erase(result.digits.begin());
  result.digits.insert(result.digits.begin(), {size / within});
  result.digits = normalized(result.digits);
  return result;
}

/// Parts and pads.
void OpRule::window(const View &view) {
  bool isPart = view.kind == ViewKind::Part;
  auto from = typeOf(op->getOperand(0)).getShape();
  auto to = typeOf(op->getResult(0)).getShape();
  for (auto [d, dim] : llvm::enumerate(operand(0).dims)) {
    bool kept = from[d] == to[d] || (isPart && dim.uniform);
    results[0].dims[d] = kept ? dim : inBlocks(dim, view.offsets[d], to[d]);
    if (kept && from[d] != to[d])
      results[0].dims[d] = DimState::anyOf(to[d]);
  }
  results[0].flat = operand(0).flat;
}

/// Parts that are sharded alike become blocks.
LogicalResult OpRule::concat(size_t at) {
  int64_t total = typeOf(op->getResult(0)).getDimSize(at);
  const DimState *first = nullptr;
  bool alike = true;
  for (auto [i, state] : llvm::enumerate(operands)) {
    for (auto [d, dim] : llvm::enumerate(state->dims))
      if (d != at && !dim.uniform &&
          failed(meet(facts.operands[i][d][0], dim, i, d)))
        return failure();
    const DimState &dim = state->dims[at];
    if (dim.uniform)
      continue;
    if (first && dim.axes() != first->axes())
      alike = false;
    alike &= !first || isShardedAlike(dim, *first, loose);
    first = first ? first : &dim;
  }
  for (auto [d, dim] : llvm::enumerate(facts.results[0]))
    if (d != at)
      results[0].dims[d] =
          known[dim[0]].value_or(DimState::anyOf(facts.factors[dim[0]].size));
  results[0].dims[at] =
      first ? inBlocks(*first, 0, total) : DimState::local(total);
  if (!alike)
    results[0].dims[at].forget(total);
  return success();
}

LogicalResult OpRule::runShapeOp() {
  for (unsigned axis = 0; axis < axes.count(); ++axis)
    for (const RankState *state : operands)
      loose[axis] = loose[axis] || state->isLoose(axis);
  View view = *viewOf(op);
  if (view.kind == ViewKind::Rename)
    reshape();
  else if (view.kind == ViewKind::Join) {
    if (failed(concat(view.dims[0])))
      return failure();
  } else
    window(view);
  for (unsigned axis = 0; axis < axes.count(); ++axis) {
    uint64_t parts = 0;
    bool isUnknown = false;
    for (const RankState *state : operands) {
      parts |= state->over[axis] == Over::Ring ? state->parts[axis] : 0;
      isUnknown |= state->over[axis] == Over::Unknown;
    }
    FailureOr<Over> passed = Over::Same;
    if (loose[axis])
      passed = isUnknown ? Over::Unknown : Over::Own;
    else
      passed = passPending(axis);
    if (failed(passed))
      return failure();
    setPassed(axis, 0, *passed);
    if (parts && !loose[axis])
      addRing(axis, 0, parts);
  }
  results[0].zero = llvm::all_of(
      operands, [](const RankState *state) { return state->zero; });
  return success();
}

/// Every gradient has the same axes, or some would count more than once.
LogicalResult OpRule::normOfParts() {
  for (unsigned axis = 0; axis < axes.count(); ++axis) {
    bool isLoose = false, first = operand(0).isShardedBy(axis);
    for (auto [i, state] : llvm::enumerate(operands)) {
      isLoose |= state->isLoose(axis);
      if (!state->isLoose(axis) && state->over[axis] != Over::Same)
        return error(axis, i) << "it made";
      if (!isLoose && state->isShardedBy(axis) != first)
        return error(axis, i) << (first ? "a part" : "the same on all ranks")
                              << ", as operand #0";
    }
    results[0].over[axis] = isLoose ? Over::Own
                            : first ? Over::Norm
                                    : Over::Same;
  }
  return success();
}
