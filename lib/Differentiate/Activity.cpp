#include "Activity.h"

using namespace mlir;
using namespace kerf;

Activity::Activity(ModelOp model) {
  while (propagate(model.getBody().front())) {
  }
  collectWeights(model);
}

void Activity::copy(Value from, Value to) {
  if (isActive(from))
    active.insert(to);
  if (isWeight(from))
    weights.insert(to);
}

void Activity::collectWeights(ModelOp model) {
  model.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto isKnown = [&](Value operand) { return isWeight(operand); };
    if (!isa<RepeatOp>(op) && llvm::all_of(op->getOperands(), isKnown))
      weights.insert(op->result_begin(), op->result_end());
  });
}

bool Activity::mark(Value value) {
  if (!isa<FloatType>(typeOf(value).getElementType()))
    return false;
  return active.insert(value).second;
}

bool Activity::propagateRepeat(RepeatOp repeat) {
  bool changed = false;
  auto flow = [&](Value from, Value to) {
    if (isActive(from))
      changed |= mark(to);
  };
  YieldOp yield = repeat.getYield();
  for (auto [init, arg] : llvm::zip(repeat.getInits(), repeat.getCarryArgs()))
    flow(init, arg);
  for (auto [stack, arg] : llvm::zip(repeat.getSlices(), repeat.getSliceArgs()))
    flow(stack, arg);
  changed |= propagate(repeat.getBody().front());
  for (auto [value, arg, result] :
       llvm::zip(yield.getCarried(), repeat.getCarryArgs(),
                 repeat.getCarryResults())) {
    flow(value, arg); // the next iteration's
    flow(value, result);
  }
  for (auto [value, result] :
       llvm::zip(yield.getStacked(), repeat.getStackResults()))
    flow(value, result);
  return changed;
}

bool Activity::propagate(Block &block) {
  bool changed = false;
  for (Operation &op : block) {
    if (auto param = dyn_cast<ParamOp>(op)) {
      if (!param.getFrozen())
        changed |= mark(param.getResult());
      continue;
    }
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      changed |= propagateRepeat(repeat);
      continue;
    }
    auto gradient = dyn_cast<GradientOpInterface>(op);
    if (gradient && gradient.stopsGradient())
      continue;
    if (llvm::any_of(op.getOperands(), [&](Value v) { return isActive(v); }))
      for (Value result : op.getResults())
        changed |= mark(result);
  }
  return changed;
}
