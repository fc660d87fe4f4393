//===- Faults.cpp - a compiler that makes mistakes ------------------------===//
//
// The pass `test-plant-fault` makes one of the mistakes that kerf-mutants
// makes, in scheduled programs: as a fault of the stages before would.
//
//===----------------------------------------------------------------------===//

#include "../Random/Mutate.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;
using namespace kerf::test;

namespace {
struct PlantFaultPass
    : public PassWrapper<PlantFaultPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlantFaultPass)

  PlantFaultPass() = default;
  PlantFaultPass(const PlantFaultPass &other) : PassWrapper(other) {}
  llvm::StringRef getArgument() const override { return "test-plant-fault"; }

  /// Places are counted anew where there are fewer: a twin has fewer stages.
  void runOnOperation() override {
    std::vector<Site> all = findSites(getOperation()), sites;
    for (const Site &site : all)
      if (whyEquivalent(site).empty())
        sites.push_back(site);
    if (sites.empty()) {
      getOperation().emitError("has no place for the fault");
      return signalPassFailure();
    }
    makeMistake(sites[number % sites.size()]);
  }

  Option<unsigned> number{*this, "number", llvm::cl::init(0)};
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "KerfTestFaults", LLVM_VERSION_STRING,
          [] { PassRegistration<PlantFaultPass>(); }};
}
