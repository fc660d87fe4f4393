#include "Plugins.h"

#include "kerf/Pipeline/Mains.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Support/Log.h"
#include "kerf/Support/Output.h"
#include "kerf/Support/Version.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"

using namespace mlir;
using namespace kerf;

int kerf::optMain(int argc, char **argv) {
  DialectRegistry registry;
  registerDialects(registry);
  registerPasses();
  showOwnVersion();
  std::string aboutLog = describeLogOption(), error;
  llvm::cl::list<std::string> log{"log", llvm::cl::CommaSeparated,
                                  llvm::cl::desc(aboutLog),
                                  llvm::cl::value_desc("names")};
  if (failed(readPlugins({argv, static_cast<size_t>(argc)})))
    return 1;
  auto [inputPath, outputPath] =
      registerAndParseCLIOptions(argc, argv, "runs Kerf passes\n", registry);
  llvm::InitLLVM init(argc, argv);
  if (!enableLogs(log, error)) {
    llvm::errs() << "error: " << error << '\n';
    return 1;
  }
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return failed(MlirOptMain(argc, argv, inputPath, outputPath, registry));
  auto buffer = readInput(inputPath, error);
  if (!buffer) {
    llvm::errs() << "error: " << error << '\n';
    return 1;
  }
  if (auto unsafe = findUnsafeText(buffer->getBuffer())) {
    llvm::errs() << buffer->getBufferIdentifier() << ':' << *unsafe << '\n';
    return 1;
  }
  if (outputPath == "-")
    return failed(
        MlirOptMain(llvm::outs(), std::move(buffer), registry, config));
  // A failure must leave the output as it was.
  std::string text;
  llvm::raw_string_ostream os(text);
  if (failed(MlirOptMain(os, std::move(buffer), registry, config)))
    return 1;
  if (succeeded(writeFileAtomically(
          outputPath, [&](llvm::raw_ostream &file) { file << text; }, error)))
    return 0;
  llvm::errs() << "error: cannot write '" << outputPath << "': " << error
               << '\n';
  return 1;
}

int kerf::lspMain(int argc, char **argv) {
  showOwnVersion();
  DialectRegistry registry;
  registerDialects(registry);
  return failed(MlirLspServerMain(argc, argv, registry));
}
