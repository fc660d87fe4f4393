//===- CompileMain.cpp - kerfc --------------------------------------------===//

#include "kerf/Pipeline/Mains.h"
#include "kerf/Pipeline/Stages.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace kerf;
namespace cl = llvm::cl;

static constexpr llvm::StringLiteral kOverview =
    R"(compiles a model, stage by stage

Stages: ingest (checks the model), differentiate (appends gradients and
updates), precision (gives every value its type). Any output of a stage can be
edited and resumed with --start-after.

Exit status: 0 done; 1 the input or the configuration is wrong, and nothing was
written; 128 or more when the program was killed.
)";

namespace {
struct CommandLine {
  cl::OptionCategory category{"Compiler options"};
  cl::opt<std::string> input{cl::Positional, cl::init("-"),
                             cl::desc("<model.mlir, or - for standard input>"),
                             cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Write to this file (default: -)"),
                              cl::value_desc("file"), cl::init("-"),
                              cl::cat(category)};
  cl::opt<std::string> stopAfter{
      "stop-after", cl::desc("Last stage (default: precision)"),
      cl::value_desc("stage"), cl::init("precision"), cl::cat(category)};
  cl::opt<std::string> startAfter{
      "start-after", cl::desc("The input is the output of this stage"),
      cl::value_desc("stage"), cl::cat(category)};
  cl::opt<std::string> precision{
      "precision", cl::desc("f32 (default) or bf16 with f32 masters"),
      cl::value_desc("type"), cl::init("f32"), cl::cat(category)};
  cl::opt<std::string> dump{
      "dump-stages-to",
      cl::desc("Write the IR after each stage to this folder"),
      cl::value_desc("folder"), cl::cat(category)};
  cl::list<std::string> plugins{
      "load-dialect-plugin",
      cl::desc("Shared object with a dialect of your own"),
      cl::value_desc("file"), cl::cat(category)};
};
} // namespace

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error() << message << '\n';
  return 1;
}

static std::string knownStages() {
  std::string names;
  for (Stage stage : kStages)
    names += (names.empty() ? "" : ", ") + getStageName(stage).str();
  return names;
}

/// Runs one stage; its contract is part of the pipeline.
static LogicalResult runStage(ModuleOp module, Stage stage,
                              const StageOptions &options) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  addStage(pm, stage, options);
  return pm.run(module);
}

/// The contracts of all stages up to `done`, which the input claims to meet.
static LogicalResult checkContracts(ModuleOp module, Stage done) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (Stage stage : kStages)
    if (stage <= done)
      addContract(pm, stage);
  return pm.run(module);
}

/// `DIR/02-differentiate.mlir`.
static LogicalResult dumpStage(ModuleOp module, Stage stage,
                               llvm::StringRef folder) {
  if (std::error_code code = llvm::sys::fs::create_directories(folder)) {
    fail("cannot make folder '" + folder + "': " + code.message());
    return failure();
  }
  llvm::SmallString<128> path(folder);
  unsigned number = static_cast<unsigned>(stage) + 1;
  llvm::sys::path::append(path, "0" + std::to_string(number) + "-" +
                                    getStageName(stage) + ".mlir");
  return writeModule(module, path);
}

int kerf::compileMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  dropLibraryOptions();
  CommandLine options;
  cl::HideUnrelatedOptions(options.category);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview))
    return 1;
  std::optional<Stage> last = parseStageName(options.stopAfter);
  if (!last)
    return fail("unknown stage '" + options.stopAfter +
                "', expected one of: " + knownStages());
  std::optional<Stage> done = parseStageName(options.startAfter);
  if (!options.startAfter.empty() && !done)
    return fail("unknown stage '" + options.startAfter +
                "', expected one of: " + knownStages());
  if (options.precision != "f32" && options.precision != "bf16")
    return fail("unknown precision '" + options.precision +
                "', expected f32 or bf16");

  InputModule input(options.input, options.plugins);
  ModuleOp module = input.get();
  if (!module)
    return 1;
  if (done && failed(checkContracts(module, *done)))
    return 1;
  for (Stage stage : kStages) {
    if ((done && stage <= *done) || stage > *last)
      continue;
    if (failed(runStage(module, stage, {options.precision})))
      return 1;
    if (!options.dump.empty() && failed(dumpStage(module, stage, options.dump)))
      return 1;
  }
  return failed(writeModule(module, options.output));
}
