#include "kerf/Dialect/Kerf/Stacks.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;

RepeatOp kerf::setStacks(RepeatOp old, llvm::ArrayRef<Value> stacked) {
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

RepeatOp kerf::addStacks(RepeatOp repeat, llvm::ArrayRef<Value> values) {
  llvm::SmallVector<Value> all(repeat.getYield().getStacked());
  llvm::append_range(all, values);
  return setStacks(repeat, all);
}

BlockArgument kerf::addSlice(RepeatOp repeat, Value stack) {
  repeat.getSlicesMutable().append(stack);
  auto type = typeOf(stack);
  return repeat.getBody().front().addArgument(
      withShape(type, type.getShape().drop_front()), stack.getLoc());
}

RepeatOp kerf::dropUnreadStacks(RepeatOp repeat) {
  llvm::SetVector<Value> stacked;
  for (auto [value, stack] :
       llvm::zip(repeat.getYield().getStacked(), repeat.getStackResults()))
    if (!stack.use_empty())
      stacked.insert(value);
  return setStacks(repeat, stacked.getArrayRef());
}

void kerf::dropUnreadSlices(RepeatOp repeat) {
  Block &body = repeat.getBody().front();
  unsigned first = 1 + repeat.getInits().size();
  for (unsigned k = repeat.getSlices().size(); k-- > 0;)
    if (body.getArgument(first + k).use_empty()) {
      body.eraseArgument(first + k);
      repeat.getSlicesMutable().erase(k);
    }
}

bool kerf::goesByLayer(UpdateOp update) {
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  return update.getStart() && rule.getGramSteps() > 0;
}
