#include "SavedValues.h"

#include "kerf/Dialect/Kerf/Stacks.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::recompute;

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
