#include "kerf/Dialect/Kerf/Layout.h"
#include "kerf/Plan/Passes.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf

/// True if some factor of some op is cut by the micro-batches.
static bool cutsByMicro(ModelOp model) {
  WalkResult result = model.walk([](Operation *op) {
    auto assign = op->getAttrOfType<AssignAttr>(kAssignAttrName);
    if (!assign)
      return WalkResult::advance();
    for (NamedAttribute factor : assign.getFactors())
      for (auto axis :
           cast<ArrayAttr>(factor.getValue()).getAsValueRange<StringAttr>())
        if (axis == kMicroAxis)
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return result.wasInterrupted();
}

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
      if (getPlan(model).getMicroBatches() > 1 && !cutsByMicro(model)) {
        (model.emitOpError()
         << "is planned in " << getPlan(model).getMicroBatches()
         << " micro-batches, and no op is cut by 'micro'")
                .attachNote()
            << "cut the batch where the tokens enter, as with {\"op\": "
               "\"embedding\", \"factors\": {\"b\": [\"micro\"]}}";
        return signalPassFailure();
      }
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
