#include "ChooseSaved.h"

#include "kerf/Recompute/Passes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::recompute;

namespace kerf {
#define GEN_PASS_DEF_RECOMPUTEVIEWSPASS
#include "kerf/Recompute/Passes.h.inc"
} // namespace kerf

namespace {
struct RecomputeViewsPass
    : public kerf::impl::RecomputeViewsPassBase<RecomputeViewsPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      if (!getPhase(model.getReturn()))
        continue;
      for (RepeatPair &pair : collectPairs(model)) {
        SavedValues values(pair);
        values.close(chooseSaved(values, viewWork, /*keepCopies=*/true));
      }
      dropUnread(model);
    }
  }
};
} // namespace
