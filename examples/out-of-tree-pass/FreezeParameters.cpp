//===- FreezeParameters.cpp - a pass of one's own -------------------------===//
//
// For fine-tuning a part of a model: what is frozen costs no optimizer state and
// no weight gradients. The planner sees a smaller step and plans accordingly.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_FREEZEPARAMETERSPASS
#include "FreezeParameters.h.inc"

struct FreezeParametersPass
    : public impl::FreezeParametersPassBase<FreezeParametersPass> {
  using FreezeParametersPassBase::FreezeParametersPassBase;

  void runOnOperation() override {
    for (kerf::ModelOp model : getOperation().getOps<kerf::ModelOp>())
      if (failed(freeze(model)))
        signalPassFailure();
  }

  LogicalResult freeze(kerf::ModelOp model) {
    int64_t frozen = 0, trained = 0;
    model.walk([&](kerf::ParamOp param) {
      if (param.getName().contains(name))
        param.setFrozen(true);
      ++(param.getFrozen() ? frozen : trained);
    });
    if (frozen == 0)
      return model.emitOpError() << "has no parameter with '" << name << "'";
    if (trained == 0)
      return model.emitOpError() << "has nothing left to train";
    return success();
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "FreezeParameters", LLVM_VERSION_STRING, [] {
            PassRegistration<FreezeParametersPass>();
          }};
}
