//===- InspectMain.cpp - kerf-inspect -------------------------------------===//

#include "Fail.h"
#include "Inspect.h"

#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Pipeline/Mains.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Support/Version.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
namespace cl = llvm::cl;

static constexpr llvm::StringLiteral kOverview =
    R"(looks at a model

  kerf-inspect params MODEL.mlir      parameters and flops per token
  kerf-inspect interpret MODEL.mlir   run it in the reference interpreter; the
                                      program of a step on all its ranks
  kerf-inspect gradcheck MODEL.mlir   gradients against central differences
  kerf-inspect verify CHECK.mlir      the programs of all ranks against the
                                      model, trained on the same data; CHECK is
                                      what kerfc --emit=verify writes

or at what was compiled from it

  kerf-inspect program MODEL.kerf     calls, and commands with their operands
  kerf-inspect memory MODEL.kerf      the arena, its classes and buffers
  kerf-inspect kernels MODEL.kerf     generated kernels
  kerf-inspect ptx MODEL.kerf         their PTX text, of target cuda
  kerf-inspect params MODEL.kerf      parameters with their layouts
  kerf-inspect plan MODEL.kerf        the plan that it was compiled by
  kerf-inspect time MODEL.kerf        how long its step runs on --cluster: the
                                      commands of all ranks, simulated
  kerf-inspect plan A B               what differs between two plans (JSON, or
                                      compiled files)
  kerf-inspect compare RUN PREDICTED  what kerf-run --trace measured beside what
                                      kerfc --trace predicted; or MODEL.kerf
                                      and --cluster, then op by op, too
  kerf-inspect cluster DESCRIBED      whether a cluster's description can be
                                      read, and what it is of
  kerf-inspect cluster DESCRIBED MEASURED
                                      what plans count on beside what kerf-run
                                      --calibrate -o MEASURED has found

Exit status: 0 done; 1 the input is wrong or a check failed; 128 or more when
the program was killed.
)";

namespace {
struct CommandLine {
  InspectOptions values;
  cl::OptionCategory category{"Inspection options"};
  cl::opt<std::string> command{
      cl::Positional, cl::Required,
      cl::desc("<params|interpret|gradcheck|verify|"
               "program|memory|kernels|ptx|plan|time|compare|cluster>"),
      cl::cat(category)};
  cl::opt<std::string> input{cl::Positional, cl::init("-"),
                             cl::desc("<model.mlir or model.kerf, or - for "
                                      "standard input>"),
                             cl::cat(category)};
  cl::opt<std::string> other{cl::Positional,
                             cl::desc("[plan, compare, cluster: second file]"),
                             cl::cat(category)};
  cl::opt<std::string> compute{
      "compute",
      cl::desc("interpret: f32 (the types as written, default) or "
               "f64"),
      cl::init("f32"), cl::cat(category)};
  cl::opt<int64_t, true> steps{
      "steps",
      cl::desc("Steps to run (interpret: default 1; verify: default 2, which "
               "shows what the optimizer keeps)"),
      cl::location(values.steps), cl::init(1), cl::cat(category)};
  cl::opt<int64_t, true> seed{"seed", cl::desc("Seed of parameters and inputs"),
                              cl::location(values.seed), cl::init(0),
                              cl::cat(category)};
  cl::opt<double, true> rate{
      "rate", cl::desc("interpret, verify: learning rate"),
      cl::location(values.rate), cl::init(0.01), cl::cat(category)};
  cl::opt<std::string, true> weights{
      "weights", cl::desc("interpret: initial parameters (safetensors)"),
      cl::value_desc("file"), cl::location(values.weights), cl::cat(category)};
  cl::opt<std::string, true> inputs{
      "inputs", cl::desc("interpret: inputs by role (safetensors)"),
      cl::value_desc("file"), cl::location(values.inputs), cl::cat(category)};
  cl::opt<std::string, true> save{
      "save",
      cl::desc("interpret: write parameters and gradients "
               "(safetensors)"),
      cl::value_desc("file"), cl::location(values.save), cl::cat(category)};
  cl::opt<double, true> tolerance{
      "tolerance", cl::desc("gradcheck: largest relative error"),
      cl::location(values.tolerance), cl::init(1e-6), cl::cat(category)};
  cl::opt<int64_t, true> samples{
      "samples", cl::desc("gradcheck: elements tried per parameter"),
      cl::location(values.samples), cl::init(8), cl::cat(category)};
  cl::opt<bool, true> json{"json", cl::desc("params, time: print JSON"),
                           cl::location(values.json), cl::cat(category)};
  cl::opt<std::string, true> cluster{
      "cluster",
      cl::desc("time: the described cluster, a YAML file or a name that kerfc "
               "--cluster=list prints"),
      cl::value_desc("file"), cl::location(values.cluster), cl::cat(category)};
  cl::opt<std::string, true> trace{
      "trace", cl::desc("time: write the step's timeline for Perfetto"),
      cl::value_desc("file"), cl::location(values.trace), cl::cat(category)};
  cl::list<std::string> plugins{
      "load-dialect-plugin",
      cl::desc("Shared object with a dialect of your own"),
      cl::value_desc("file"), cl::cat(category)};
};
} // namespace

/// What is wrong with a number of the command line; a check with it would be
/// none.
static std::optional<std::string> wrongNumber(const InspectOptions &values) {
  if (values.samples < 1)
    return "expected --samples >= 1, found " + std::to_string(values.samples);
  if (!(values.tolerance > 0) || std::isinf(values.tolerance))
    return "expected --tolerance > 0, and a finite one";
  if (!(values.rate >= 0) || std::isinf(values.rate))
    return "expected --rate >= 0, and a finite one";
  return std::nullopt;
}

int kerf::inspectMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  dropLibraryOptions();
  showOwnVersion();
  CommandLine options;
  cl::HideUnrelatedOptions(options.category);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview))
    return 1;
  if (options.compute != "f32" && options.compute != "f64")
    return fail("unknown --compute '" + options.compute +
                "', expected f32 or f64");
  options.values.f64 = options.compute == "f64";
  if (auto wrong = wrongNumber(options.values))
    return fail(*wrong);
  bool isComparison = options.command == "compare";
  bool isCluster = options.command == "cluster";
  if (options.other.getNumOccurrences() && options.command != "plan" &&
      !isComparison && !isCluster)
    return fail("expected one input for '" + options.command + "', found '" +
                options.other + "', too");
  if (isComparison && !options.other.getNumOccurrences())
    return fail("expected two files for 'compare': the trace of a run, and the "
                "predicted one or the compiled file");
  if (isCluster)
    return inspectClusters(options.input, options.other);
  if (isComparison)
    return inspectTraces(options.input, options.other, options.values);
  if (options.other.getNumOccurrences())
    return inspectPlans(options.input, options.other);
  if (options.command == "time")
    return inspectTime(options.input, options.values);
  if (std::optional<int> status =
          inspectArtifact(options.command, options.input))
    return *status;
  if (options.command == "verify" && !options.steps.getNumOccurrences())
    options.values.steps = 2;
  using Command = LogicalResult (*)(ModuleOp, const InspectOptions &);
  Command command = llvm::StringSwitch<Command>(options.command)
                        .Case("params", inspectParams)
                        .Case("interpret", inspectInterpret)
                        .Case("gradcheck", inspectGradients)
                        .Case("verify", inspectVerify)
                        .Default(nullptr);
  if (!command)
    return fail("unknown command '" + options.command +
                "', expected params, interpret, gradcheck, verify, program, "
                "memory, kernels, ptx, plan, time, compare or cluster");
  InputModule input(options.input, options.plugins);
  ModuleOp module = input.get();
  if (!module)
    return 1;
  bool isProgram = options.command == "interpret" &&
                   !module.getOps<spmd::ProgramOp>().empty();
  if (module.getOps<ModelOp>().empty() && !isProgram)
    return fail("'" + options.input + "' holds no kerf.model");
  return failed(command(module, options.values));
}
