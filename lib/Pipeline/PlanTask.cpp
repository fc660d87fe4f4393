#include "PlanTask.h"

#include "Fail.h"

#include "kerf/Machine/Shipped.h"
#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Report/Report.h"
#include "kerf/Report/Sweep.h"
#include "kerf/Search/Pins.h"
#include "kerf/Step/StepFile.h"
#include "kerf/Support/Counts.h"
#include "kerf/Support/Gpus.h"
#include "kerf/Support/Input.h"
#include "kerf/Support/Quantities.h"
#include "kerf/Support/Schedules.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
namespace cl = llvm::cl;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Of --pin; the command line keeps no copy.
static const std::string kPinHelp =
    "Decisions that are given: KEY=VALUE, KEY=2|4, KEY=2..8, KEY!=4; several "
    "by "
    "commas\n"
    "  tp cp ep pp dp  ranks of tensor, context, expert, pipeline and data "
    "parallelism\n"
    "  mb              sequences of a micro-batch on a data rank\n"
    "  m               micro-batches of a step\n"
    "  v               chunks per stage\n"
    "  defer           micro-batches whose weight gradients wait at most "
    "(zb-h1)\n"
    "  zero            0, 1 (optimizer state is sharded), 2 (gradients), 3 "
    "(weights)\n"
    "  shard           ranks that share the state\n"
    "  devices         ranks in all\n"
    "  schedule        " +
    scheduleNames() +
    "\n"
    "  recompute       none, selective, full\n"
    "  order           axes, innermost first: tp.cp.dp.pp\n"
    "  layers          of each stage: 11.12.12.11\n"
    "  moe             gather (ranks of experts get all tokens), all_to_all "
    "(rows are exchanged)\n"
    "  cp_order        zigzag (causal ranks have equal work; where it is "
    "possible), plain";

PlanOptions::PlanOptions(cl::OptionCategory &category)
    : clusters("cluster",
               cl::desc("Plan for this described cluster: a YAML file, or a "
                        "name that --cluster=list prints; several with "
                        "--sweep"),
               cl::value_desc("file"), cl::CommaSeparated, cl::cat(category)),
      devices("devices",
              cl::desc("Devices of the cluster, such as 64 or 1Ki (default: "
                       "as many as it describes)"),
              cl::value_desc("number"), cl::cat(category)),
      pins("pin", cl::desc(kPinHelp), cl::value_desc("pins"),
           cl::cat(category)),
      moeBuffer("moe-buffer",
                cl::desc("Room for rows that ranks of experts exchange, in "
                         "even shares (1.25); a step that needs more ends "
                         "before its update. Default: tokens are gathered, or "
                         "there is room for all rows"),
                cl::value_desc("number"), cl::cat(category)),
      prove("prove",
            cl::desc("Solve every table of layers that may matter, however "
                     "long it takes; the certificate tells what gap is left"),
            cl::cat(category)),
      explain(
          "explain", cl::ValueOptional,
          cl::desc("Print the plan and why it is the best: short (the default: "
                   "layout, step, memory, next best, what to doubt), full "
                   "(layouts of layers, memory and time by part, alternatives, "
                   "the run, and what all this rests on) or json (all of it, "
                   "as --explain-json=-)"),
          cl::value_desc("size"), cl::cat(category)),
      explainJson("explain-json", cl::desc("The whole explanation as JSON"),
                  cl::value_desc("file"), cl::cat(category)),
      html("html",
           cl::desc("Write the whole explanation as one page for a browser"),
           cl::value_desc("file"), cl::cat(category)),
      searchSensitivity(
          "search-sensitivity",
          cl::desc("Search again with each assumed figure at both ends of its "
                   "range, about 16 times: what --explain then says of the "
                   "figures rests on more plans"),
          cl::cat(category)),
      tokens("tokens",
             cl::desc("Tokens of the run that is explained, such as 300B or 1T "
                      "(default: 20 per parameter, of experts those that a "
                      "token chooses)"),
             cl::value_desc("number"), cl::cat(category)),
      price("price",
            cl::desc("Price of a device-hour, instead of the cluster's, in its "
                     "currency; ranks that share a device, as on CPUs, share "
                     "it"),
            cl::value_desc("amount"), cl::cat(category)),
      within("within",
             cl::desc("With --sweep: what the run may take, such as 30d; the "
                      "cheapest row that meets it is marked"),
             cl::value_desc("time"), cl::cat(category)),
      budget("budget",
             cl::desc("With --sweep: what the run may cost, such as 500k, in "
                      "the currency of the cluster"),
             cl::value_desc("number"), cl::cat(category)),
      versus("versus",
             cl::desc("Plan with these pins, too, or cost the plan of this "
                      "FILE.json, and print what differs"),
             cl::value_desc("pins"), cl::cat(category)),
      trace("trace",
            cl::desc("Write one step's timeline for Perfetto to this file"),
            cl::value_desc("file"), cl::cat(category)),
      svg("svg",
          cl::desc("Draw the schedule of a step, or with --sweep its charts"),
          cl::value_desc("file"), cl::cat(category)),
      sweep(
          "sweep",
          cl::desc("Plan with many numbers of devices: 8,16,24, 1..8 (all, or "
                   "doubled when there are more than 16), "
                   "8..1024x2 or 8..64+8"),
          cl::value_desc("devices=RANGE"), cl::cat(category)) {}

/// The first option in use that means nothing without a cluster.
static std::string needsCluster(const PlanOptions &options) {
  std::string found;
  auto look = [&](const cl::Option &option) {
    if (found.empty() && option.getNumOccurrences())
      found = option.ArgStr.str();
  };
  look(options.devices);
  look(options.pins);
  look(options.prove);
  look(options.explain);
  look(options.explainJson);
  look(options.html);
  look(options.searchSensitivity);
  look(options.tokens);
  look(options.price);
  look(options.within);
  look(options.budget);
  look(options.versus);
  look(options.trace);
  look(options.svg);
  look(options.sweep);
  return found;
}

/// Reads an amount into `value` where it is given.
static LogicalResult readAmount(const cl::opt<std::string> &option,
                                std::optional<double> (*read)(llvm::StringRef),
                                llvm::StringRef expected, double &value) {
  if (!option.getNumOccurrences())
    return success();
  std::optional<double> found = read(option);
  if (!found)
    return fail("expected " + expected + " as --" + option.ArgStr +
                ", found '" + option + "'");
  value = *found;
  return success();
}

static LogicalResult readAmounts(const PlanOptions &options, PlanTask &task) {
  if (failed(readAmount(options.tokens, readCount,
                        "a number of tokens (20000000000, 300B, 1T)",
                        task.tokens)) ||
      failed(readAmount(options.within, readDuration, "a time (36h, 30d, 2w)",
                        task.limits.seconds)) ||
      failed(readAmount(options.budget, readCount, "an amount (50000, 1.5M)",
                        task.limits.price)))
    return failure();
  if (task.tokens > 0 && task.tokens < 1)
    return fail("expected at least one token as --tokens, found '" +
                options.tokens + "'");
  double price = 1;
  bool isZero =
      !llvm::StringRef(options.price).getAsDouble(price) && price == 0;
  if (!isZero && // which `readCount` refuses
      failed(readAmount(options.price, readCount, "an amount (2.5, 0)", price)))
    return failure();
  constexpr double kMostPrice = 1e6; // as in a cluster's description
  if (price > kMostPrice)
    return fail("expected at most 1000000 as --price, found '" + options.price +
                "'");
  if (options.price.getNumOccurrences())
    task.price = price;
  if (task.limits.any() && task.sweep.empty())
    return fail("--within and --budget choose a row of --sweep");
  return success();
}

static std::optional<ExplainSize>
explainSizeOf(const cl::opt<std::string> &option) {
  if (!option.getNumOccurrences())
    return ExplainSize::None;
  return llvm::StringSwitch<std::optional<ExplainSize>>(option)
      .Cases({"", "short"}, ExplainSize::Short)
      .Case("full", ExplainSize::Full)
      .Case("json", ExplainSize::Json)
      .Default(std::nullopt);
}

FailureOr<PlanTask> kerf::planTaskOf(const PlanOptions &options) {
  PlanTask task;
  task.clusters.assign(options.clusters.begin(), options.clusters.end());
  if (std::string option = needsCluster(options);
      !task.plans() && !option.empty())
    return fail("--" + llvm::Twine(option) + " needs --cluster=FILE");
  if (options.devices.getNumOccurrences()) {
    task.devices = readWhole(options.devices.getValue());
    if (!task.devices)
      return fail("expected a whole number such as 512 or 1Ki (1024) as "
                  "--devices, found '" +
                  options.devices + "'");
  }
  task.pins = llvm::join(options.pins, ",");
  task.moeBuffer = options.moeBuffer;
  if (std::string wrong = PlanAttr::checkMoeBuffer(task.moeBuffer);
      !wrong.empty() ||
      (options.moeBuffer.getNumOccurrences() && !(task.moeBuffer > 0)))
    return fail("expected 1 (an even share) or more as --moe-buffer, found " +
                llvm::Twine(std::to_string(task.moeBuffer)));
  task.prove = options.prove;
  auto size = explainSizeOf(options.explain);
  if (!size)
    return fail("expected short, full or json as --explain, found '" +
                options.explain + "'");
  task.explain = *size;
  task.explainJson = options.explainJson;
  task.html = options.html;
  task.searchSensitivity = options.searchSensitivity;
  task.versus = options.versus;
  task.trace = options.trace;
  task.svg = options.svg;
  task.sweep = options.sweep;
  if (failed(readAmounts(options, task)))
    return failure();
  if (task.clusters.size() > 1 && task.sweep.empty())
    return fail("expected one --cluster, found " +
                llvm::Twine(task.clusters.size()) +
                "; several are compared with --sweep");
  if (!task.sweep.empty() && task.devices)
    return fail("expected --devices or --sweep, found both");
  llvm::StringRef ofOne = task.explain != ExplainSize::None ? "explain"
                          : !task.versus.empty()            ? "versus"
                          : !task.trace.empty()             ? "trace"
                                                            : "";
  if (!task.sweep.empty() && !ofOne.empty())
    return fail("--" + ofOne + " shows one plan, found --sweep, too");
  return task;
}

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

LogicalResult kerf::readClusters(MLIRContext *context, PlanTask &task) {
  for (const std::string &cluster : task.clusters) {
    auto machine = readCluster(context, cluster);
    if (failed(machine))
      return failure();
    if (task.price && !machine->price)
      return fail("--price: '" + cluster +
                  "' states no currency; add 'price: "
                  "{device_hour: 1, currency: USD}' to it");
    if (task.price) {
      machine->price->deviceHour = *task.price;
      machine->price->isGiven = true;
    }
    task.machines.push_back(*machine);
  }
  return success();
}

bool kerf::computesInBf16(const PlanTask &task) {
  return llvm::all_of(task.machines, [](const Machine &machine) {
    const Device &device = machine.device;
    return device.target == BackendTarget::Cuda
               ? capabilityOf(device.arch) >= 80
               : device.target == BackendTarget::None &&
                     device.peak.count("bf16");
  });
}

/// What the programs of a device are compiled for.
static std::string backendOf(const Device &device) {
  if (device.target == BackendTarget::Cpu)
    return "cpu";
  const GpuFacts *gpu = findGpu(device.arch);
  return gpu && gpu->ptx ? "cuda " + device.arch : "plans only";
}

void kerf::listClusters(llvm::raw_ostream &os) {
  report::Table table{"lrrlll", 0, {}};
  table.rows.push_back(
      {"cluster", "devices", "GB", "device", "programs", "network"});
  for (const ShippedCluster &shipped : shippedClusters()) {
    std::vector<MachineDiagnostic> ignored; // tests read them all
    std::optional<Machine> machine = readMachine(shipped.text, ignored);
    if (!machine)
      continue;
    std::vector<std::string> tiers;
    for (const Tier &tier : machine->tiers)
      tiers.push_back(tier.name + (tier.size > 1
                                       ? " of " + std::to_string(tier.size)
                                       : ""));
    table.rows.push_back({shipped.name.str(),
                          report::grouped(machine->describedDevices()),
                          report::fixed(machine->device.memoryBytes / 1e9, 0),
                          machine->device.name, backendOf(machine->device),
                          llvm::join(tiers, ", ")});
  }
  os << table.print();
}

//===----------------------------------------------------------------------===//
// One plan
//===----------------------------------------------------------------------===//

static FailureOr<ModelOp> modelOf(ModuleOp module) {
  auto models = module.getOps<ModelOp>();
  if (!llvm::hasSingleElement(models))
    return fail("expected one kerf.model to plan");
  return *models.begin();
}

static SolveRequest requestOf(const PlanTask &task, const Machine &machine) {
  SolveRequest request;
  request.machine = machine;
  request.devices = task.devices;
  request.pins = parsePins(task.pins, request.pinErrors);
  for (std::string &error : request.pinErrors)
    error = "--pin: " + error;
  request.moeBuffer = task.moeBuffer;
  request.prove = task.prove;
  request.workers = task.workers;
  request.sumsEarly = task.sumsEarly;
  return request;
}

/// A plan for a step, or for the one model of a module.
static FailureOr<std::unique_ptr<Solution>>
solveInput(const PlanInput &input, const SolveRequest &request) {
  if (input.step)
    return solveStep(*input.step, request, input.context);
  auto model = modelOf(input.module);
  if (failed(model))
    return failure();
  return solvePlan(*model, request);
}

void kerf::takeDevices(ModuleOp module, PlanTask &task) {
  for (ModelOp model : module.getOps<ModelOp>())
    if (auto plan = model->getAttrOfType<PlanAttr>(kPlanAttrName))
      if (!task.devices)
        task.devices = llvm::product_of(plan.getMesh().getSizes());
}

FailureOr<std::unique_ptr<Solution>> kerf::solveTask(const PlanInput &input,
                                                     const PlanTask &task) {
  SolveRequest request = requestOf(task, task.machines.front());
  if (task.explains())
    request.roomyHeadroom = kRoomyHeadroom;
  return solveInput(input, request);
}

/// Writes a file that may not be asked for.
static LogicalResult writeAsked(llvm::StringRef path, llvm::StringRef text) {
  return path.empty() ? success() : writeText(path, text);
}

/// A plan of a file on a copy of the step, costed.
static FailureOr<std::unique_ptr<Solution>>
solveFile(ModuleOp module, const PlanTask &task, llvm::StringRef path) {
  auto text = readFile(path);
  if (!text)
    return fail("cannot read '" + path + "': " + toString(text.takeError()));
  OwningOpRef<ModuleOp> copy(module.clone());
  auto model = modelOf(*copy);
  if (failed(model))
    return failure();
  (*model)->removeAttr(kPlanAttrName);
  (*model)->walk([](Operation *op) { op->removeAttr(kAssignAttrName); });
  if (failed(loadPlan(*model, (*text)->getBuffer(), path)))
    return failure();
  return solveTask(*copy, task);
}

/// Whether the input has a plan, which is kept.
static bool hasPlan(const PlanInput &input) {
  if (input.step)
    return false;
  auto model = modelOf(input.module);
  return succeeded(model) && (*model)->hasAttr(kPlanAttrName);
}

/// The fastest plan with other pins, or the plan of a file, beside this one.
static LogicalResult showVersus(const PlanInput &input, const PlanTask &task,
                                const Explanation &own) {
  PlanTask other = task;
  bool isFile = llvm::StringRef(task.versus).ends_with(".json");
  if (isFile && input.step)
    return fail("--versus=" + llvm::Twine(task.versus) +
                " assigns ops of a model, and a step has none; compare with "
                "pins, or give the model");
  other.pins = isFile ? "" : task.versus;
  auto solution = isFile ? solveFile(input.module, other, task.versus)
                         : solveTask(input, other);
  if (failed(solution))
    return failure();
  Explanation explanation = explain((*solution)->explainInput(task.tokens));
  if (!explanation.feasible)
    return fail("with --versus=" + llvm::Twine(task.versus) + " " +
                refusalOf(explanation).message);
  bool color = llvm::outs().has_colors();
  std::string name = !task.pins.empty() ? "--pin " + task.pins
                     : hasPlan(input)   ? "the plan that was given"
                                        : "the plan found";
  llvm::outs() << printText(difference(own, explanation), name, task.versus,
                            color);
  return success();
}

/// Tells what clashes, at the model where there is one.
static LogicalResult refuse(const PlanInput &input, const Solution &solution) {
  ModuleOp module = input.module;
  return refuseSolution(input.step
                            ? emitError(UnknownLoc::get(input.context))
                            : (*module.getOps<ModelOp>().begin()).emitError(),
                        solution);
}

static void printScreen(const PlanTask &task, const Explanation &explanation) {
  bool mayCompile = !task.compiles && explanation.trust.notCompiled.empty();
  bool color = llvm::outs().has_colors();
  if (task.explain == ExplainSize::Short)
    llvm::outs() << printShort(explanation, color)
                 << "\n  more: --explain=full, --html=FILE"
                 << (mayCompile ? "; -o FILE.kerf compiles it" : "") << '\n';
  if (task.explain == ExplainSize::Full)
    llvm::outs() << printText(explanation, color);
}

static bool routesTokens(const StepModel &step) {
  return llvm::any_of(step.kinds, [](const LayerKind &kind) {
    return llvm::any_of(kind.ops, [](const LayerOp &op) {
      return llvm::any_of(op.variants, [](const FactorVariant &variant) {
        return variant.exchanges;
      });
    });
  });
}

/// Warns of what the plan is, where no screen does, and of what was given for
/// nothing.
static void warnOf(const PlanTask &task, const Solution &solution,
                   const Explanation &explanation) {
  bool isOnScreen =
      task.explain == ExplainSize::Short || task.explain == ExplainSize::Full;
  if (!isOnScreen)
    for (const std::string &warning : report::warningsOf(explanation))
      llvm::errs() << warning << '\n';
  if (task.moeBuffer > 0)
    warnOfMoeBuffer(routesTokens(solution.step),
                    solution.result.best->outer.ep);
}

FailureOr<Explanation> kerf::showTask(const PlanInput &input,
                                      const PlanTask &task,
                                      const Solution &solution) {
  ExplainInput facts = solution.explainInput(task.tokens);
  if (task.explains()) {
    facts.withSensitivity = true;
    facts.searchesSensitivity = task.searchSensitivity;
    if (task.searchSensitivity && !hasPlan(input))
      facts.challengers = findChallengers(
          requestOf(task, task.machines.front()), solution, input.context);
    facts.roomyHeadroom = kRoomyHeadroom;
  }
  Explanation explanation = explain(facts);
  explanation.plan.typeNote = task.typeNote;
  if (failed(writeAsked(task.explainJson, printJson(explanation))))
    return failure();
  if (task.explain == ExplainSize::Json)
    llvm::outs() << printJson(explanation);
  if (!solution.result.best)
    return refuse(input, solution);
  printScreen(task, explanation);
  warnOf(task, solution, explanation);
  Timeline timeline;
  if (!task.trace.empty() || !task.svg.empty() || !task.html.empty())
    timeline = simulate(solution.result.best->work, /*keepEvents=*/true);
  if (!task.trace.empty() && failed(writeText(task.trace, traceOf(timeline))))
    return failure();
  std::string title =
      solution.step.name + ", " + shortLayout(solution.result.best->outer);
  std::string picture =
      task.svg.empty() && task.html.empty()
          ? ""
          : svgOf(timeline, title, scheduleWords(explanation));
  if (failed(writeAsked(task.svg, picture)) ||
      (!task.html.empty() &&
       failed(writeText(task.html, printHtml(explanation, picture)))))
    return failure();
  if (!task.versus.empty() && failed(showVersus(input, task, explanation)))
    return failure();
  return explanation;
}

//===----------------------------------------------------------------------===//
// Many plans
//===----------------------------------------------------------------------===//

/// The step of an input, as the planner knows it.
static FailureOr<StepModel> stepOf(const PlanInput &input) {
  if (input.step)
    return *input.step;
  auto model = modelOf(input.module);
  if (failed(model))
    return failure();
  return plannedStep(*model);
}

LogicalResult kerf::writeStep(ModuleOp module, llvm::StringRef path) {
  auto step = stepOf(module);
  return failed(step) ? failure() : writeText(path, printStepFile(*step));
}

/// As `solveInput`, with errors as text: what one number of devices cannot
/// have, others may.
static FailureOr<std::unique_ptr<Solution>>
solveQuietly(const PlanInput &input, const SolveRequest &request,
             std::string &error) {
  ScopedDiagnosticHandler handler(input.context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    error += (error.empty() ? "" : "; ") + diagnostic.str();
    for (Diagnostic &note : diagnostic.getNotes())
      error += "; " + note.str();
    return success();
  });
  return solveInput(input, request);
}

LogicalResult kerf::runSweep(const PlanInput &source, const PlanTask &task) {
  auto step = stepOf(source);
  if (failed(step))
    return failure();
  std::string error;
  auto counts = parseDeviceCounts(task.sweep, error);
  if (!counts)
    return fail("--sweep: " + error);
  SweepInput input;
  input.step = &*step;
  input.devices = *counts;
  input.tokens = task.tokens;
  input.limits = task.limits;
  input.machines = task.machines;
  if (task.moeBuffer > 0 && !routesTokens(*step))
    warnOfMoeBuffer(/*hasExperts=*/false, /*expertRanks=*/1);
  SolveRequest request = requestOf(task, task.machines.front());
  std::vector<std::string> wrong;
  Sweep found = sweep(input, [&](const Machine &machine, int64_t devices) {
    request.machine = machine;
    request.devices = devices;
    std::string error;
    auto solution = solveQuietly(source, request, error);
    if (succeeded(solution))
      return (*solution)->result;
    SearchResult none;
    none.infeasible.reasons = {error};
    wrong.push_back(error);
    return none;
  });
  if (wrong.size() == found.points.size())
    return fail(wrong.front());
  for (SweepPoint &point : found.points)
    point.isBarred |= !point.fits && llvm::is_contained(wrong, point.reason);
  llvm::outs() << printText(found, llvm::outs().has_colors());
  if (failed(writeAsked(task.explainJson, printJson(found))))
    return failure();
  if (!task.html.empty() && failed(writeText(task.html, printHtml(found))))
    return failure();
  return task.svg.empty() ? success() : writeText(task.svg, svgOf(found));
}
