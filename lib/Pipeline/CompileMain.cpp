//===- CompileMain.cpp - kerfc --------------------------------------------===//

#include "kerf/Artifact/Assemble.h"
#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Pipeline/Mains.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Plan/PlanFile.h"
#include "kerf/Support/Output.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace kerf;
namespace cl = llvm::cl;

static constexpr llvm::StringLiteral kOverview =
    R"(compiles a model, stage by stage

Stages: ingest (checks the model), differentiate (appends gradients and
updates), precision (gives every value its type), plan (decides what is cut),
recompute (what the backward pass makes again), partition (writes the program of
a rank), schedule (orders its calls), fuse (makes kernels), memory (places every
buffer), codegen (compiles the kernels). Any output of a stage can be edited and
resumed with --start-after. With -o NAME.kerf all stages run, and the compiled
file is written, for kerf-run.

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
      "stop-after",
      cl::desc("Last stage (default: precision; all with -o NAME.kerf)"),
      cl::value_desc("stage"), cl::cat(category)};
  cl::opt<std::string> startAfter{
      "start-after", cl::desc("The input is the output of this stage"),
      cl::value_desc("stage"), cl::cat(category)};
  cl::opt<std::string> precision{
      "precision", cl::desc("f32 (default) or bf16 with f32 masters"),
      cl::value_desc("type"), cl::init("f32"), cl::cat(category)};
  cl::list<std::string> recompute{
      "recompute",
      cl::desc("What the backward pass computes again: none, full, selective, "
               "or numbers of forward ops (default: as the plan says)"),
      cl::value_desc("values"), cl::CommaSeparated, cl::cat(category)};
  cl::opt<bool> fuse{"fuse", cl::desc("Join kernels (default: true)"),
                     cl::init(true), cl::cat(category)};
  cl::opt<int64_t> workers{
      "max-threads",
      cl::desc("Threads that workspaces are planned for (default: 8)"),
      cl::value_desc("number"), cl::init(8), cl::cat(category)};
  cl::opt<std::string> cpu{
      "cpu",
      cl::desc("CPU that kernels are made for: native (default), x86-64-v2, "
               "x86-64-v3 (AVX2), x86-64-v4 (AVX-512), or a name of LLVM's"),
      cl::value_desc("name"), cl::init("native"), cl::cat(category)};
  cl::opt<std::string> plan{
      "plan", cl::desc("How the step is distributed (JSON; default: one rank)"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> emit{
      "emit", cl::desc("ir (default), or plan: the completed plan as JSON"),
      cl::value_desc("what"), cl::init("ir"), cl::cat(category)};
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
  // The plan, as people write it, stays with the program into the artifact.
  std::string plan;
  if (stage == Stage::Partition)
    for (ModelOp model : module.getOps<ModelOp>())
      plan = savePlan(model);
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  addStage(pm, stage, options);
  if (failed(pm.run(module)))
    return failure();
  if (stage == Stage::Partition)
    for (auto program : module.getOps<spmd::ProgramOp>())
      program->setAttr("plan_json", StringAttr::get(module.getContext(), plan));
  return success();
}

/// 0: kerf, 1: spmd, 2: exec.
static int dialectAfter(Stage stage) {
  return (stage >= Stage::Partition) + (stage >= Stage::Memory);
}

/// The contracts of all stages up to `done`, which the input claims to meet.
/// Contracts of stages before a change of dialect hold no more.
static LogicalResult checkContracts(ModuleOp module, Stage done) {
  static constexpr llvm::StringLiteral programs[] = {
      "kerf.model", "spmd.program", "exec.program"};
  llvm::StringRef expected = programs[dialectAfter(done)];
  if (llvm::none_of(*module.getBody(), [&](Operation &op) {
        return op.getName().getStringRef() == expected;
      }))
    return module.emitError() << "is no output of stage '" << getStageName(done)
                              << "': expected '" << expected << "' in it";
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (Stage stage : kStages)
    if (stage <= done && dialectAfter(stage) == dialectAfter(done))
      addContract(pm, stage);
  return pm.run(module);
}

/// The completed plan of the one model as JSON.
static LogicalResult writePlan(ModuleOp module, llvm::StringRef path) {
  auto models = module.getOps<ModelOp>();
  if (!llvm::hasSingleElement(models)) {
    fail("expected one kerf.model to print the plan of");
    return failure();
  }
  std::string error, text = savePlan(*models.begin());
  if (succeeded(writeFileAtomically(
          path, [&](llvm::raw_ostream &os) { os << text; }, error)))
    return success();
  fail("cannot write '" + path + "': " + error);
  return failure();
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
  llvm::sys::path::append(path, (number < 10 ? "0" : "") +
                                    std::to_string(number) + "-" +
                                    getStageName(stage) + ".mlir");
  return writeModule(module, path);
}

/// Identifies what was compiled: the text of the last stage.
static uint64_t hashOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, OpPrintingFlags().assumeVerified());
  return llvm::xxh3_64bits(text);
}

/// Writes the compiled file of the only program of a module.
static LogicalResult writeArtifactOf(ModuleOp module, llvm::StringRef path) {
  llvm::SmallVector<exec::ProgramOp> programs(module.getOps<exec::ProgramOp>());
  if (programs.size() != 1)
    return module.emitError()
           << "expected one program, found " << programs.size();
  FailureOr<ArtifactData> data =
      assembleArtifact(programs.front(), hashOf(module));
  if (failed(data))
    return failure();
  std::string bytes, error;
  llvm::raw_string_ostream os(bytes);
  if (failed(writeArtifact(*data, os, error)))
    return programs.front().emitError() << "makes no sound file: " << error;
  if (succeeded(writeFileAtomically(
          path, [&](llvm::raw_ostream &out) { out << bytes; }, error)))
    return success();
  fail("cannot write '" + path + "': " + error);
  return failure();
}

int kerf::compileMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  dropLibraryOptions();
  CommandLine options;
  cl::HideUnrelatedOptions(options.category);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview))
    return 1;
  bool isArtifact = options.stopAfter.empty() &&
                    llvm::StringRef(options.output).ends_with(".kerf");
  if (options.stopAfter.empty())
    options.stopAfter = isArtifact ? "codegen" : "precision";
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

  constexpr int64_t mostWorkers = 4096; // that a file may ask for
  if (options.workers < 1 || options.workers > mostWorkers)
    return fail("expected 1 to " + llvm::Twine(mostWorkers) +
                " as --max-threads, found " + llvm::Twine(options.workers));

  // The linker that codegen calls resets all options of the process.
  const std::string output = options.output, dump = options.dump;
  StageOptions stageOptions;
  stageOptions.precision = options.precision;
  stageOptions.plan = options.plan;
  const bool emitsPlan = options.emit == "plan";
  if (!emitsPlan && options.emit != "ir")
    return fail("unknown --emit '" + options.emit + "', expected ir or plan");
  if (emitsPlan)
    last = Stage::Plan;
  stageOptions.recompute.assign(options.recompute.begin(),
                                options.recompute.end());
  stageOptions.fuse = options.fuse;
  stageOptions.workers = options.workers;
  stageOptions.cpu = options.cpu;
  InputModule input(options.input, options.plugins);
  ModuleOp module = input.get();
  if (!module)
    return 1;
  if (done && failed(checkContracts(module, *done)))
    return 1;
  for (Stage stage : kStages) {
    if ((done && stage <= *done) || stage > *last)
      continue;
    if (failed(runStage(module, stage, stageOptions)))
      return 1;
    if (!dump.empty() && failed(dumpStage(module, stage, dump)))
      return 1;
  }
  if (emitsPlan)
    return failed(writePlan(module, output));
  if (isArtifact)
    return failed(writeArtifactOf(module, output));
  return failed(writeModule(module, output));
}
