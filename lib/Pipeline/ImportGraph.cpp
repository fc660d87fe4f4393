#include "ImportGraph.h"

#include "kerf/Dialect/Kerf/Kerf.h"
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
  return path.ends_with(".mlir") || text.contains("kerf.model") ||
         isStablehlo(text);
}

/// The function's text as a model; null after messages.
static OwningOpRef<ModuleOp> readFunction(ModuleOp source,
                                          const GraphOptions &options) {
  OwningOpRef<ModuleOp> module = importStablehlo(source, options.stablehlo);
  if (!module)
    return {};
  for (ModelOp model : module->getOps<ModelOp>())
    if (failed(setGraphOptimizer(model, options.optimizer)))
      return {};
  return module;
}

static OwningOpRef<ModuleOp> read(std::unique_ptr<llvm::MemoryBuffer> buffer,
                                  llvm::SourceMgr &sources,
                                  MLIRContext &context,
                                  const GraphOptions &options) {
  llvm::StringRef text = buffer->getBuffer();
  if (!isStablehlo(text)) {
    OwningOpRef<ModuleOp> module =
        parseModule(std::move(buffer), sources, context);
    if (module)
      for (ModelOp model : module->getOps<ModelOp>())
        completeMuon(model);
    return module;
  }
  if (isPrettyStablehlo(text)) {
    emitError(
        FileLineColLoc::get(&context, buffer->getBufferIdentifier(), 1, 1))
        << "ops of StableHLO in their short form, expected the generic one; in "
           "Python: "
        << howToPrintStablehlo();
    return {};
  }
  context.getOrLoadDialect<KerfDialect>();
  context.allowUnregisteredDialects();
  // Column 0: its first line is no line of the user's to show.
  auto start =
      FileLineColLoc::get(&context, buffer->getBufferIdentifier(), 1, 0);
  OwningOpRef<ModuleOp> source =
      parseModule(std::move(buffer), sources, context);
  if (source) // JAX gives its module no place.
    (*source)->setLoc(start);
  return source ? readFunction(*source, options) : nullptr;
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
      read(std::move(buffer), sources, context, options);
  if (!module)
    return 1;
  PassManager pm(&context);
  addContract(pm, Stage::Ingest);
  if (options.raises)
    pm.addPass(createRaisePass({options.explains}));
  if (options.rolls)
    pm.addPass(createRollPass());
  if (options.raises || options.rolls)
    addContract(pm, Stage::Ingest);
  if (failed(pm.run(*module)))
    return 1;
  return write(*module);
}
