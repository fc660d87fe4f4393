#include "kerf/Pipeline/Mains.h"
#include "kerf/Pipeline/Stages.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"
#include "mlir/Support/FileUtilities.h"

using namespace mlir;
using namespace kerf;

int kerf::optMain(int argc, char **argv) {
  DialectRegistry registry;
  registerDialects(registry);
  registerPasses();
  auto [inputPath, outputPath] =
      registerAndParseCLIOptions(argc, argv, "runs Kerf passes\n", registry);
  llvm::InitLLVM init(argc, argv);
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return failed(MlirOptMain(argc, argv, inputPath, outputPath, registry));
  std::string error;
  auto buffer = readInput(inputPath, error);
  if (!buffer) {
    llvm::errs() << "error: " << error << '\n';
    return 1;
  }
  if (auto unsafe = findUnsafeText(buffer->getBuffer())) {
    llvm::errs() << inputPath << ':' << *unsafe << '\n';
    return 1;
  }
  auto output = openOutputFile(outputPath, &error);
  if (!output) {
    llvm::errs() << "error: " << error << '\n';
    return 1;
  }
  if (failed(MlirOptMain(output->os(), std::move(buffer), registry, config)))
    return 1;
  output->keep();
  return 0;
}

int kerf::lspMain(int argc, char **argv) {
  DialectRegistry registry;
  registerDialects(registry);
  return failed(MlirLspServerMain(argc, argv, registry));
}
