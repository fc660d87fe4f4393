//===- CompileMain.cpp - kerfc --------------------------------------------===//

#include "ArenaRoom.h"
#include "CheckTwin.h"
#include "CompilerOptions.h"
#include "Fail.h"
#include "Survivors.h"
#include "WriteArtifact.h"

#include "kerf/Codegen/Codegen.h"
#include "kerf/Dialect/Kerf/ModelFlops.h"
#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Pipeline/Mains.h"
#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Report/Explain.h"
#include "kerf/Report/Report.h"
#include "kerf/Support/Counts.h"
#include "kerf/Support/Input.h"
#include "kerf/Support/Version.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"

#include <set>

using namespace mlir;
using namespace kerf;
namespace cl = llvm::cl;

static constexpr llvm::StringLiteral kOverview =
    R"(compiles a model, stage by stage

Stages: ingest (checks the model), differentiate (appends gradients and
updates), precision (gives every value its type), plan (decides what is
sharded), recompute (what the backward pass recomputes), partition (writes the
program of a rank), schedule (orders its calls), fuse (makes kernels), memory
(places every buffer), codegen (compiles the kernels). Any output of a stage can
be edited and resumed with --start-after. With -o NAME.kerf all stages run, and
the compiled file is written, for kerf-run.

With --cluster the stage plan searches the fastest way to distribute the step over
the devices of a described cluster; --explain shows it. Without -o, --emit or
--stop-after nothing else is printed then. With --plan, too, that plan is explained
and what it leaves open is searched.

Exit status: 0 done; 1 the input or the configuration is wrong, and nothing was
written; 128 or more when the program was killed.
)";

static std::string knownStages() {
  std::string names;
  for (Stage stage : kStages)
    names += (names.empty() ? "" : ", ") + getStageName(stage).str();
  return names;
}

namespace {
/// What the command line asks for, checked. The linker that codegen calls
/// resets all options of the process, so nothing refers to them.
struct Job {
  StageOptions stages;
  PlanTask task;
  std::optional<Stage> done; ///< the input is its output
  Stage last = Stage::Precision;
  std::string output, dump;
  std::string target, gpu; ///< as given, empty: as the cluster says
  double reserveBytes = 0; ///< of a rank, besides its arena; 0: not known
  std::optional<CheckedPlan> checked; ///< once the plan was tried
  std::optional<json::Value> priced;  ///< where devices are known
  std::string planned; ///< layout, step and memory in one line; or ""
  std::shared_ptr<Solution> solution; ///< until the plan on the IR is complete
  std::optional<ArenaRoom> room;      ///< where devices are known
  bool emitsPlan = false, emitsCheck = false, isArtifact = false;
  bool emitsTwin = false, emitsStep = false, emitsSampler = false;
  bool addsSampler = false;
  std::string sampler; ///< its compiled file, once it is there
  PlanCheck check = PlanCheck::Twin;
  bool writes = true;        ///< IR, a plan or a compiled file
  bool hasPrecision = false; ///< given, or of the input
  bool hasCpu = false;       ///< given
  int64_t survive = 0;       ///< computers that may be lost
  int64_t ranks = 0;         ///< of the plan, once there is one
  double stepSec = 0;        ///< of it
};
} // namespace

/// Takes the target from the devices. Fails with a message if programs cannot
/// be compiled for them, or the command line asks for others.
static LogicalResult chooseTarget(const Machine &machine, Job &job) {
  const Device &device = machine.device;
  auto refuse = [&](const llvm::Twine &why) {
    fail("cluster '" + machine.name + "': " + why);
    return failure();
  };
  if (device.target == BackendTarget::None)
    return refuse("no programs can be compiled for its devices; --emit=plan or "
                  "--explain need none");
  llvm::StringRef own = device.target == BackendTarget::Cuda ? "cuda" : "cpu";
  if (!job.target.empty() && job.target != own)
    return refuse("its devices are of target " + own + ", not " + job.target +
                  "; for other devices write the plan with --emit=plan and "
                  "compile it with --plan");
  if (own == "cpu" && !job.gpu.empty())
    return refuse("--gpu is for target cuda, its devices are of target cpu");
  if (own == "cuda" && job.hasCpu)
    return refuse("--cpu is for target cpu, its devices are of target cuda");
  job.stages.target = own.str();
  std::string error;
  if (own == "cuda" && job.gpu.empty()) {
    job.stages.gpu = device.arch;
    if (failed(resolveGpu(device.arch, error)))
      return refuse(error);
  }
  if (own == "cuda" && job.stages.precision == "fp8" &&
      failed(checkFloat8(job.stages.gpu, error)))
    return refuse(error);
  return success();
}

/// Finds a plan and writes it on the model, or costs the one it has; shows what
/// is asked for. Sets the stages' options that follow from the devices.
static LogicalResult planAndShow(ModuleOp module, Job &job) {
  auto models = module.getOps<ModelOp>();
  bool given = !models.empty() && (*models.begin())->hasAttr(kPlanAttrName);
  auto solution = solveTask(module, job.task);
  if (failed(solution))
    return failure();
  auto shown = showTask(module, job.task, **solution);
  if (failed(shown))
    return failure();
  const Machine &machine = (*solution)->machine;
  job.stages.bucketGradients = (*solution)->sumsEarly;
  const std::optional<PlanPoint> &best = (*solution)->result.best;
  if (best) {
    job.ranks = best->outer.ranks();
    job.stepSec = shown->time.stepSec;
  }
  if (best && job.isArtifact) {
    job.room.emplace(machine, *best);
    job.priced = pricedStep(**solution);
    job.planned = printLine(*shown);
  }
  if (best && machine.device.target == BackendTarget::Cuda)
    job.reserveBytes = best->stages.front().memory.reserved;
  // What the stage fuse makes depends on the target, but is there for all.
  bool hasTarget = machine.device.target != BackendTarget::None;
  if (job.last >= (hasTarget ? Stage::Fuse : Stage::Memory) &&
      failed(chooseTarget(machine, job)))
    return failure();
  job.solution = std::move(*solution);
  return given ? success() : applySolution(*models.begin(), *job.solution);
}

/// What was priced is what the completed plan says. The search is over then.
static LogicalResult checkSolution(ModuleOp module, Job &job) {
  std::shared_ptr<Solution> solution = std::move(job.solution);
  return solution ? verifySolution(*module.getOps<ModelOp>().begin(), *solution)
                  : success();
}

/// Gives the plans of a module the room that the command line asks for.
static void setMoeBuffer(ModuleOp module, const PlanTask &task) {
  for (ModelOp model : module.getOps<ModelOp>())
    if (auto plan = model->getAttrOfType<PlanAttr>(kPlanAttrName)) {
      int64_t axis = plan.getMesh().find("ep");
      if (!task.plans()) // Who plans has been told.
        warnOfMoeBuffer(hasExperts(model),
                        axis < 0 ? 1 : plan.getMesh().getSizes()[axis]);
      model->setAttr(kPlanAttrName,
                     PlanAttr::get(module.getContext(), plan.getMesh(),
                                   plan.getMicroBatches(), plan.getSchedule(),
                                   plan.getRecomputeAll(), plan.getRecompute(),
                                   plan.getChunks(), plan.getDefer(),
                                   plan.getZero(), plan.getShardGroup(),
                                   plan.getStages(), task.moeBuffer,
                                   plan.getPlainOrder()));
    }
}

/// The attribute of a model, and of the first program of its step, with the
/// plan as people write it.
static constexpr llvm::StringLiteral kPlanTextName = "plan_json";

/// What a plan that is given says of its price; nothing where it says nothing.
static std::optional<json::Value> pricedIn(llvm::StringRef path) {
  auto text = readFile(path);
  if (!text) {
    consumeError(text.takeError());
    return std::nullopt;
  }
  auto plan = json::parse((*text)->getBuffer(),
                          [](json::Position, const llvm::Twine &) {});
  const json::Value *priced = failed(plan) ? nullptr : plan->find("priced");
  return priced ? std::optional(*priced) : std::nullopt;
}

/// Before the stage recompute, which adds ops: rules number the ops of the step
/// that a plan is made for. A plan that is not priced anew keeps its price.
static void keepPlanText(ModelOp model, const Job &job) {
  const CheckedPlan *checked = job.checked ? &*job.checked : nullptr;
  std::optional<json::Value> priced = job.priced;
  if (!priced && !job.stages.plan.empty())
    priced = pricedIn(job.stages.plan);
  model->setAttr(kPlanTextName,
                 StringAttr::get(model.getContext(),
                                 savePlan(model, job.reserveBytes, checked,
                                          priced ? &*priced : nullptr)));
}

static bool hasOneModel(ModuleOp module) {
  return llvm::hasSingleElement(module.getOps<ModelOp>());
}

/// Tells when a number type was chosen that makes no step faster on the CPU
/// that kernels are made for.
static void warnOfPrecision(const Job &job) {
  llvm::StringRef precision = job.stages.precision;
  if (job.stages.target != "cpu" || (job.done && *job.done >= Stage::Precision))
    return;
  std::string error;
  FailureOr<CpuTarget> cpu = resolveCpu(job.stages.cpu, error);
  std::string why = succeeded(cpu) ? cpu->whyNotFaster(precision) : "";
  if (why.empty())
    return;
  llvm::WithColor::warning()
      << "--precision=" << precision << ": " << why
      << ", so matmuls are computed in f32: expect 0.9 to 1 times the speed "
         "of --precision=f32\n";
  llvm::WithColor::note() << "--precision=f32 rounds less; " << precision
                          << " takes less memory\n";
  if (precision != "f16" && llvm::StringRef(cpu->name).starts_with("x86-64"))
    llvm::WithColor::note() << "where the file is run, matmuls use AMX or "
                               "AVX-512 bf16 if the processor has it\n";
}

/// Runs one stage; its contract is part of the pipeline.
static LogicalResult runStage(ModuleOp module, Stage stage, Job &job) {
  // The plan, as people write it, stays with the program into the artifact, and
  // so do the model's flops, its title, its config and what an adapter is.
  if (stage == Stage::Recompute)
    for (ModelOp model : module.getOps<ModelOp>())
      keepPlanText(model, job);
  std::vector<NamedAttribute> kept;
  double modelFlops = 0;
  if (stage == Stage::Partition)
    for (ModelOp model : module.getOps<ModelOp>()) {
      for (llvm::StringRef name :
           {llvm::StringRef(kPlanTextName), llvm::StringRef(kAdapterAttrName),
            llvm::StringRef(kConfigAttrName), llvm::StringRef(kTitleAttrName)})
        if (Attribute value = model->getAttr(name))
          kept.emplace_back(name, value);
      modelFlops = countModelFlops(model);
      if (job.room && failed(job.room->note(model)))
        return failure();
    }
  // A plan that is given is costed when it is complete.
  bool plans = stage == Stage::Plan && job.task.plans();
  bool given = !job.stages.plan.empty();
  if (plans && !given && failed(planAndShow(module, job)))
    return failure();
  if (stage == Stage::Codegen)
    warnOfPrecision(job);
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  addStage(pm, stage, job.stages);
  if (failed(pm.run(module)))
    return failure();
  if (stage == Stage::Plan && job.task.moeBuffer > 0)
    setMoeBuffer(module, job.task);
  if (plans && given)
    takeDevices(module, job.task);
  if (plans && given && failed(planAndShow(module, job)))
    return failure();
  if (plans && failed(checkSolution(module, job)))
    return failure();
  if (stage == Stage::Memory && job.room && failed(job.room->check(module)))
    return failure();
  // Facts of the whole step: they stand in the first program.
  auto programs = module.getOps<spmd::ProgramOp>();
  if (stage != Stage::Partition || programs.empty())
    return success();
  spmd::ProgramOp first = *programs.begin();
  for (NamedAttribute fact : kept)
    first->setAttr(fact.getName(), fact.getValue());
  first->setAttr(kModelFlopsAttrName,
                 Builder(module.getContext()).getF64FloatAttr(modelFlops));
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

/// How a plan was tried, in few words.
static std::string checkWords(const std::optional<CheckedPlan> &checked) {
  if (!checked || checked->twin.empty())
    return "not tried against one rank";
  bool isTwin = llvm::StringRef(checked->twin).starts_with("a twin");
  std::string error = checked->largestError > 0
                          ? llvm::formatv("{0:e0}", checked->largestError).str()
                          : "the bit";
  return (isTwin ? "its twin" : "the step") +
         (" trains as on one rank (to " + error + ")");
}

/// Writes the compiled file, and a line of what was compiled, unless a screen
/// has it: the plan for a cluster, where it is long in two lines, else the
/// model, its ranks and their memory. The status.
static int finishArtifact(ModuleOp module, const Job &job) {
  FailureOr<std::string> words = writeArtifact(module, job.sampler, job.output);
  if (failed(words))
    return 1;
  if (job.task.fillsOutput())
    return 0;
  std::string own = job.planned.empty() ? *words : job.planned;
  std::string what =
      "wrote '" + job.output + (job.task.shows() ? "';" : "': " + own + ";");
  std::string check = checkWords(job.checked);
  bool isLong =
      !job.planned.empty() && what.size() + 1 + check.size() > report::kColumns;
  llvm::outs() << what << (isLong ? "\n  " : " ") << check << '\n';
  return 0;
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

/// The stages to run. 1 after an error.
static int readStages(const CompilerOptions &options, Job &job) {
  if (!llvm::is_contained({"ir", "plan", "step", "sampler", "verify", "twin"},
                          options.emit))
    return fail("unknown --emit '" + options.emit +
                "', expected ir, plan, step, sampler, verify or twin");
  auto check = llvm::StringSwitch<std::optional<PlanCheck>>(options.check)
                   .Case("off", PlanCheck::Off)
                   .Case("twin", PlanCheck::Twin)
                   .Case("full", PlanCheck::Full)
                   .Default(std::nullopt);
  if (!check)
    return fail("unknown --check '" + options.check +
                "', expected twin, full or off");
  job.check = *check;
  job.emitsPlan = options.emit == "plan";
  job.emitsCheck = options.emit == "verify";
  job.emitsTwin = options.emit == "twin";
  job.emitsStep = options.emit == "step";
  job.emitsSampler = options.emit == "sampler";
  job.addsSampler = options.sampler;
  job.isArtifact = options.stopAfter.empty() &&
                   llvm::StringRef(options.output).ends_with(".kerf");
  job.task.compiles = job.isArtifact;
  bool asksForOutput =
      options.output.getNumOccurrences() || options.emit.getNumOccurrences() ||
      options.dump.getNumOccurrences() || !options.stopAfter.empty();
  job.writes = !job.task.shows() || asksForOutput;
  Stage usual = job.isArtifact     ? Stage::Codegen
                : job.task.plans() ? Stage::Plan
                                   : Stage::Precision;
  std::optional<Stage> last =
      options.stopAfter.empty() ? usual : parseStageName(options.stopAfter);
  if (!last)
    return fail("unknown stage '" + options.stopAfter +
                "', expected one of: " + knownStages());
  job.last = job.emitsSampler                 ? Stage::Ingest
             : job.emitsStep                  ? Stage::Precision
             : job.emitsPlan || job.emitsTwin ? Stage::Plan
             : job.emitsCheck                 ? Stage::Schedule
                                              : *last;
  job.done = parseStageName(options.startAfter);
  if (!options.startAfter.empty() && !job.done)
    return fail("unknown stage '" + options.startAfter +
                "', expected one of: " + knownStages());
  if (job.done && !options.stopAfter.empty() && *last < *job.done)
    return fail("--stop-after=" + options.stopAfter +
                " is before --start-after=" + options.startAfter +
                ", expected that stage or a later one");
  if (job.emitsCheck && job.done && *job.done >= Stage::Plan)
    return fail("--emit=verify compares with the step before the stage plan, "
                "which --start-after=" +
                options.startAfter + " leaves behind");
  return 0;
}

/// A sampler is made of the model, before its plan changes it.
static int checkSampler(const Job &job) {
  if (!job.addsSampler && !job.emitsSampler)
    return 0;
  if (job.done && *job.done >= Stage::Recompute)
    return fail("a sampler is made of the model, which --start-after=" +
                getStageName(*job.done) + " leaves behind");
  if (job.addsSampler && !job.isArtifact)
    return fail("--sampler is a part of a compiled file: say -o NAME.kerf");
  return 0;
}

/// Planning happens in the stage plan, and shows on standard output.
static int checkTask(const CompilerOptions &options, const Job &job) {
  if (!job.task.plans())
    return 0;
  if (job.done && *job.done >= Stage::Plan)
    return fail("--cluster plans in the stage plan, which --start-after=" +
                options.startAfter + " leaves behind");
  if (job.emitsStep)
    return fail(
        "--emit=step is of the model alone, whatever the devices: leave "
        "out --cluster, and say --precision=bf16 where it would");
  if (job.last < Stage::Plan)
    return fail("--cluster plans in the stage plan, which --stop-after=" +
                options.stopAfter + " does not reach");
  if (!job.task.sweep.empty() && job.writes &&
      options.output.getNumOccurrences())
    return fail("--sweep makes many plans and writes no output, found -o");
  bool prints =
      job.task.explain != ExplainSize::None || !job.task.versus.empty();
  if (prints && job.writes && job.output == "-")
    return fail("the explanation goes to standard output; say with -o where "
                "the rest is to go");
  return 0;
}

/// Reads what the program is compiled for. 1 after an error.
static int readTarget(const CompilerOptions &options, Job &job) {
  job.target = options.target;
  job.gpu = options.gpu;
  job.hasCpu = options.cpu.getNumOccurrences();
  job.stages.cpu = options.cpu;
  if (!job.target.empty() && job.target != "cpu" && job.target != "cuda")
    return fail("unknown target '" + job.target + "', expected cpu or cuda");
  if (job.target == "cuda" && options.cpu.getNumOccurrences())
    return fail("--cpu is for target cpu; --gpu names the processor of target "
                "cuda");
  if (job.target == "cpu" && !job.gpu.empty())
    return fail("--gpu is for target cuda");
  if (!job.gpu.empty() && job.target.empty() && job.task.clusters.empty())
    job.target = "cuda";
  if (!job.target.empty())
    job.stages.target = job.target;
  if (!job.gpu.empty())
    job.stages.gpu = job.gpu;
  std::string error;
  if (!job.gpu.empty() && failed(resolveGpu(job.gpu, error)))
    return fail("--gpu: " + error);
  if (job.stages.precision == "fp8" && !job.gpu.empty() &&
      failed(checkFloat8(job.gpu, error)))
    return fail("--precision=fp8: " + error);
  return 0;
}

/// Of jobs that compile for a cluster.
static std::string refuseSurvivors(const Job &job) {
  if (job.survive < 0)
    return "expected 0 or more as --survive, found " +
           std::to_string(job.survive);
  if (job.survive == 0)
    return "";
  if (!job.isArtifact || !job.task.plans() || job.output == "-")
    return "--survive compiles for parts of a cluster: it needs --cluster=FILE "
           "and -o NAME.kerf";
  if (!job.stages.plan.empty())
    return "'--survive' has no effect: --plan gives one plan; leave one of "
           "them out";
  return "";
}

/// Reads the command line. 1 after an error.
static int readJob(const CompilerOptions &options, Job &job) {
  auto task = planTaskOf(options.planner);
  if (failed(task))
    return 1;
  for (const std::string &wrong :
       {checkNewCluster(options.newCluster), findIdleOption(options),
        findMissingFile(options)})
    if (!wrong.empty())
      return fail(wrong);
  noteIr(options);
  job.task = *task;
  job.output = options.output;
  job.dump = options.dump;
  if (readStages(options, job) || checkSampler(job) || checkTask(options, job))
    return 1;
  if (!llvm::is_contained({"f32", "bf16", "f16", "fp8"}, options.precision))
    return fail("unknown precision '" + options.precision +
                "', expected f32, bf16, f16 or fp8");
  constexpr int64_t mostWorkers = 4096; // that a file may ask for
  if (options.workers < 1 || options.workers > mostWorkers)
    return fail("expected 1 to " + llvm::Twine(mostWorkers) +
                " as --max-threads, found " + llvm::Twine(options.workers));
  job.stages.precision = options.precision;
  job.hasPrecision = options.precision.getNumOccurrences() ||
                     (job.done && *job.done >= Stage::Precision);
  job.stages.plan = options.plan;
  job.stages.recompute.assign(options.recompute.begin(),
                              options.recompute.end());
  job.stages.fuse = options.fuse;
  job.stages.overlap = options.overlap;
  if (options.bucketGradients != cl::BOU_UNSET)
    job.stages.bucketGradients = options.bucketGradients == cl::BOU_TRUE;
  job.task.sumsEarly = job.stages.bucketGradients;
  job.stages.workers = job.task.workers = options.workers;
  job.survive = options.survive;
  if (std::string wrong = refuseSurvivors(job); !wrong.empty())
    return fail(wrong);
  if (readTarget(options, job))
    return 1;
  job.stages.own.assign(options.own.begin(), options.own.end());
  registerPasses();
  if (failed(loadPassPlugins(options.passPlugins)))
    return 1;
  std::string error;
  if (failed(checkOwnPasses(job.stages.own, error)))
    return fail("--run-after: " + llvm::StringRef(error).rtrim());
  warnOfUnreached(job.stages.own, job.done, job.last);
  warnOfStages({job.done, job.last, job.task.plans(), job.emitsTwin});
  return 0;
}

/// Tries the plan before programs are made of it.
static LogicalResult check(ModuleOp module, Job &job) {
  if (job.emitsCheck || job.check == PlanCheck::Off || !hasOneModel(module))
    return success();
  FailureOr<CheckedPlan> checked = checkPlan(module, job.stages, job.check);
  if (failed(checked))
    return failure();
  job.checked = std::move(*checked);
  return success();
}

/// Compiles the sampler of a model that was read, where one is asked for.
static LogicalResult addSampler(ModuleOp module, Job &job) {
  if (!job.addsSampler || !job.sampler.empty())
    return success();
  FailureOr<std::string> bytes = compileSampler(module, job.stages);
  if (succeeded(bytes))
    job.sampler = std::move(*bytes);
  return success(succeeded(bytes));
}

/// Runs the stages from `done` to `last`. What the stage plan finds out about
/// the devices is for the stages behind it.
static LogicalResult runStages(ModuleOp module, Job &job, Stage last) {
  for (Stage stage : kStages) {
    if ((job.done && stage <= *job.done) || stage > last)
      continue;
    if ((stage != Stage::Ingest && failed(addSampler(module, job))) ||
        (stage == Stage::Recompute && failed(check(module, job))) ||
        failed(runStage(module, stage, job)) ||
        (!job.dump.empty() && failed(dumpStage(module, stage, job.dump))))
      return failure();
  }
  return success();
}

/// What is there of a cluster, and what is lost.
struct Fewer {
  int64_t devices, lost;
};

/// Plans and compiles `source` for fewer devices, and says what the loss costs.
/// `whole` is the job of all; `written` are ranks that there is a file for.
static int compileFewer(ModuleOp source, const Job &begun, const Job &whole,
                        Fewer fewer, std::set<int64_t> &written) {
  Job job = begun;
  job.task.devices = fewer.devices;
  job.task.explain = ExplainSize::None;
  for (std::string *shown : {&job.task.explainJson, &job.task.html,
                             &job.task.versus, &job.task.trace, &job.task.svg})
    shown->clear();
  job.sampler = whole.sampler;
  OwningOpRef<ModuleOp> module(source.clone());
  if (failed(runStages(*module, job, job.last)))
    return fail("--survive: nothing was compiled for " +
                llvm::Twine(fewer.devices) + " devices, " +
                llvm::Twine(fewer.lost) + " less; '" + whole.output +
                "' is there");
  job.output = job.ranks == whole.ranks ? whole.output
                                        : survivorName(whole.output, job.ranks);
  bool isNew = written.insert(job.ranks).second;
  if (isNew && finishArtifact(*module, job))
    return 1;
  llvm::outs() << "  with " << countOf(fewer.lost, "device") << " less '"
               << job.output << "' runs: a step takes "
               << llvm::format("%.2f", job.stepSec / whole.stepSec)
               << " times as long\n";
  return 0;
}

/// Devices of a job, and how many of them are lost at once.
static std::pair<int64_t, int64_t> devicesOf(const Job &job) {
  const Machine &machine = job.task.machines.front();
  int64_t devices = job.task.devices.value_or(machine.describedDevices());
  return {devices, lostAtOnce(machine, devices)};
}

/// Whether something is left of a cluster that was read.
static int checkSurvivors(const Job &job) {
  if (!job.survive)
    return 0;
  auto [devices, unit] = devicesOf(job);
  return unit <= (devices - 1) / job.survive
             ? 0
             : fail("--survive=" + llvm::Twine(job.survive) +
                    ": nothing is left of " + llvm::Twine(devices) +
                    " devices, of which " + llvm::Twine(unit) +
                    " are lost at once; at most " +
                    llvm::Twine((devices - 1) / unit));
}

/// Compiles for one computer less, two less and so on. `begun` is the job as it
/// was before its first stage.
static int compileSurvivors(ModuleOp source, const Job &begun,
                            const Job &whole) {
  auto [devices, unit] = devicesOf(begun);
  std::set<int64_t> written = {whole.ranks};
  for (int64_t lost = unit; lost <= unit * begun.survive; lost += unit)
    if (compileFewer(source, begun, whole, {devices - lost, lost}, written))
      return 1;
  return 0;
}

/// Runs the stages to the schedule and writes the step, as it is before the
/// plan, beside the programs that it became.
static LogicalResult writeCheck(ModuleOp module, Job &job) {
  if (failed(runStages(module, job, Stage::Precision)))
    return failure();
  OwningOpRef<ModuleOp> step(module.clone());
  Job rest = job;
  rest.done = std::max(job.done.value_or(Stage::Precision), Stage::Precision);
  if (failed(runStages(module, rest, job.last)))
    return failure();
  for (ModelOp model : llvm::make_early_inc_range(step->getOps<ModelOp>())) {
    model->moveBefore(&module.getBody()->front());
    model.setSymName((model.getSymName() + ".step").str()); // programs have it
  }
  return writeModule(module, job.output);
}

/// Writes the twin of the planned step beside the programs of its ranks.
static LogicalResult writeTwin(ModuleOp module, const Job &job) {
  if (!hasOneModel(module)) {
    fail("expected one kerf.model to make the twin of");
    return failure();
  }
  FailureOr<OwningOpRef<ModuleOp>> twin =
      makeTwinPrograms(*module.getOps<ModelOp>().begin(), job.stages);
  return failed(twin) ? failure() : writeModule(**twin, job.output);
}

/// What needs no planned IR: a sweep, or a search that is only shown.
static LogicalResult showOnly(const PlanInput &input, Job &job) {
  if (input.module && failed(runStages(input.module, job, Stage::Precision)))
    return failure();
  if (!job.task.sweep.empty())
    return runSweep(input, job.task);
  auto solution = solveTask(input, job.task);
  return success(succeeded(solution) &&
                 succeeded(showTask(input, job.task, **solution)));
}

/// Plans a step without its model, of which nothing can be compiled.
static int showStep(InputModule &input, Job &job) {
  if (!job.task.plans())
    return fail("a step has no model to compile: it is planned, for "
                "--cluster=FILE");
  if (std::string option = findModelOption(); !option.empty())
    return fail("a step has no model, which " + option +
                " needs; its matmuls are of type " + input.step()->type);
  if (!job.task.shows())
    return fail(
        "a step has no model to compile; say what to show of its plan: "
        "--explain, --explain-json, --html, --versus, --trace, --svg or "
        "--sweep");
  if (failed(readClusters(input.getContext(), job.task)))
    return 1;
  return failed(showOnly(PlanInput(*input.step(), input.getContext()), job));
}

/// Reads the clusters, from which the number type follows where none is given.
static LogicalResult readMachines(MLIRContext *context, Job &job) {
  if (failed(readClusters(context, job.task)))
    return failure();
  if (!job.task.plans() || job.hasPrecision)
    return success();
  job.stages.precision = computesInBf16(job.task) ? "bf16" : "f32";
  job.task.typeNote = "--precision was not given";
  if (job.stages.precision != "f32" &&
      job.task.explain == ExplainSize::None) // The screen says it.
    llvm::WithColor::note() << job.task.typeNote << ": bf16, which the devices "
                            << "of the cluster have\n";
  return success();
}

/// True for a call without arguments that would wait for a person to type IR.
static bool asksForUsage(int argc) {
  return argc == 1 && llvm::sys::Process::StandardInIsUserInput();
}

int kerf::compileMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  dropLibraryOptions();
  showOwnVersion();
  CompilerOptions options;
  cl::HideUnrelatedOptions({&options.category, &options.planCategory});
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview))
    return 1;
  if (asksForUsage(argc)) {
    cl::PrintHelpMessage();
    return 1;
  }
  if (llvm::is_contained(options.planner.clusters, "list")) {
    listClusters(llvm::outs());
    return 0;
  }
  if (options.newCluster.wanted) {
    std::string wrong = findIdleOption(options);
    return wrong.empty() ? writeNewCluster(options.newCluster, options.output)
                         : fail(wrong);
  }
  std::string unknown;
  if (!enableLogs(options.log, unknown))
    return fail(unknown);
  Job job;
  if (readJob(options, job))
    return 1;
  InputModule input(options.input, options.plugins, /*takesSteps=*/true);
  if (input.step())
    return showStep(input, job);
  ModuleOp module = input.get();
  if (!module || (job.done && failed(checkContracts(module, *job.done))) ||
      failed(readMachines(module.getContext(), job)) || checkSurvivors(job))
    return 1;
  if (!job.task.sweep.empty() || (!job.writes && job.stages.plan.empty()))
    return failed(showOnly(module, job));
  if (job.emitsCheck)
    return failed(writeCheck(module, job));
  const Job begun = job;
  OwningOpRef<ModuleOp> source(job.survive ? module.clone() : ModuleOp());
  if (failed(runStages(module, job, job.last)))
    return 1;
  if (!job.writes)
    return 0;
  if (job.emitsStep)
    return failed(writeStep(module, job.output));
  if (job.emitsPlan)
    return failed(writePlan(module, job.output));
  if (job.emitsTwin)
    return failed(writeTwin(module, job));
  if (job.emitsSampler)
    return failed(writeSampler(module, job.output));
  if (job.isArtifact)
    return finishArtifact(module, job) ||
           (job.survive && compileSurvivors(*source, begun, job));
  return failed(writeModule(module, job.output));
}
