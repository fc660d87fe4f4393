#include "SavedValues.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::recompute;

RepeatOp recompute::setStacks(RepeatOp old, llvm::ArrayRef<Value> stacked) {
  YieldOp yield = old.getYield();
  llvm::SmallVector<Value> oldStacked(yield.getStacked());
  if (llvm::ArrayRef<Value>(oldStacked) == stacked)
    return old;
  yield.getStackedMutable().assign(stacked);
  OpBuilder builder(old);
  auto repeat =
      RepeatOp::create(builder, old.getLoc(), old.inferResultTypes(),
                       old.getInits(), old.getSlices(), old.getStart(),
                       old.getEnd(), old.getReverse(), old.getPairAttr());
  repeat->setDiscardableAttrs(old->getDiscardableAttrDictionary());
  repeat.getBody().takeBody(old.getBody());
  for (auto [from, to] :
       llvm::zip(old.getCarryResults(), repeat.getCarryResults()))
    from.replaceAllUsesWith(to);
  for (auto [value, from] : llvm::zip(oldStacked, old.getStackResults())) {
    auto found = llvm::find(stacked, value);
    assert((found != stacked.end() || from.use_empty()) &&
           "a stack that is read stays");
    if (found != stacked.end())
      from.replaceAllUsesWith(
          repeat.getStackResults()[found - stacked.begin()]);
  }
  old.erase();
  return repeat;
}

static RepeatOp dropStacks(RepeatOp repeat) {
  llvm::SetVector<Value> stacked;
  for (auto [value, stack] :
       llvm::zip(repeat.getYield().getStacked(), repeat.getStackResults()))
    if (!stack.use_empty())
      stacked.insert(value);
  return setStacks(repeat, stacked.getArrayRef());
}

static void dropSlices(RepeatOp repeat) {
  Block &body = repeat.getBody().front();
  unsigned first = 1 + repeat.getInits().size();
  for (unsigned k = repeat.getSlices().size(); k-- > 0;)
    if (body.getArgument(first + k).use_empty()) {
      body.eraseArgument(first + k);
      repeat.getSlicesMutable().erase(k);
    }
}

void recompute::dropUnread(ModelOp model) {
  // Last to first: the readers of a stack are gone before it is looked at.
  auto repeats = llvm::to_vector(model.getBody().getOps<RepeatOp>());
  for (RepeatOp repeat : llvm::reverse(repeats)) {
    repeat = dropStacks(repeat);
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(repeat.getBody().front())))
      if (op.use_empty() && canCopy(&op))
        op.erase();
    dropSlices(repeat);
  }
}
