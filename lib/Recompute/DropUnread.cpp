#include "SavedValues.h"

#include "kerf/Dialect/Kerf/Stacks.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::recompute;

void recompute::dropUnread(ModelOp model) {
  // Last to first: the readers of a stack are gone before it is looked at.
  auto repeats = llvm::to_vector(model.getBody().getOps<RepeatOp>());
  for (RepeatOp repeat : llvm::reverse(repeats)) {
    repeat = dropUnreadStacks(repeat);
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(repeat.getBody().front())))
      if (op.use_empty() && canCopy(&op))
        op.erase();
    dropUnreadSlices(repeat);
  }
}
