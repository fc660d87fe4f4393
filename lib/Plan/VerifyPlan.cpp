#include "kerf/Dialect/Kerf/Layout.h"
#include "kerf/Plan/Passes.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf

namespace {
struct VerifyPlanPass : public kerf::impl::VerifyPlanPassBase<VerifyPlanPass> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      if (!model->hasAttr(kPlanAttrName)) {
        model.emitOpError("has no 'plan'; run 'kerf-propagate-plan'");
        return signalPassFailure();
      }
      if (failed(planModel(model)))
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
