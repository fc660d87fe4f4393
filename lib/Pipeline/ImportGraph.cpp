#include "ImportGraph.h"

#include "kerf/Pipeline/Stages.h"
#include "kerf/Raise/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/SourceMgr.h"

using namespace kerf;
using namespace mlir;

bool kerf::isGraph(llvm::StringRef path, llvm::StringRef text) {
  if (path.ends_with(".json") || text.ltrim().starts_with("{"))
    return false;
  return path.ends_with(".mlir") || text.contains("kerf.model");
}

int kerf::importGraph(std::unique_ptr<llvm::MemoryBuffer> buffer,
                      const GraphOptions &options,
                      llvm::function_ref<int(ModuleOp)> write) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module =
      parseModule(std::move(buffer), sources, context);
  if (!module)
    return 1;
  PassManager pm(&context);
  addContract(pm, Stage::Ingest);
  if (options.raises)
    pm.addPass(createRaisePass());
  if (options.rolls)
    pm.addPass(createRollPass());
  if (options.raises || options.rolls)
    addContract(pm, Stage::Ingest);
  if (failed(pm.run(*module)))
    return 1;
  return write(*module);
}
