//===- SolvePlan.cpp - find a plan for a described cluster ----------------===//
//
// Brings the parts together: the step as data, the machine, tables of layers,
// the outer search. What cannot be done for a model is left out of the space
// and told by name.
//
//===----------------------------------------------------------------------===//

#include "kerf/Plan/SolvePlan.h"

#include "LayerPlaces.h"
#include "SolveExperts.h"
#include "SolveOrder.h"
#include "kerf/Dialect/Kerf/SplitBias.h"
#include "kerf/Footprint/ProgramBounds.h"
#include "kerf/Machine/Shipped.h"
#include "kerf/Plan/Passes.h"
#include "kerf/PlanIR/Passes.h"
#include "kerf/Report/Report.h"
#include "kerf/Search/Pins.h"
#include "kerf/Search/Relief.h"
#include "kerf/Sharding/Layout.h"
#include "kerf/Step/ReadStep.h"
#include "kerf/Support/Input.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/FileSystem.h"

#include <functional>
#include <numeric>

#define DEBUG_TYPE "plan"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_SOLVEPLANPASS
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf

//===----------------------------------------------------------------------===//
// The cluster
//===----------------------------------------------------------------------===//

/// The file, or the shipped description of that name.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
openCluster(llvm::StringRef path) {
  const ShippedCluster *shipped = findShippedCluster(path);
  if (shipped && !llvm::sys::fs::exists(path))
    return llvm::MemoryBuffer::getMemBuffer(shipped->text, path);
  return readFile(path);
}

FailureOr<Machine> kerf::readCluster(MLIRContext *context,
                                     llvm::StringRef path) {
  auto nowhere = UnknownLoc::get(context);
  auto buffer = openCluster(path);
  if (!buffer) {
    auto diagnostic = emitError(nowhere)
                      << "cannot read cluster '" << path
                      << "': " << toString(buffer.takeError());
    if (!path.contains('/') && !path.contains('.'))
      diagnostic.attachNote()
          << "--cluster=list names the descriptions that are shipped";
    return diagnostic;
  }
  std::vector<MachineDiagnostic> found;
  std::optional<Machine> machine = readMachine((*buffer)->getBuffer(), found);
  for (const MachineDiagnostic &one : found) {
    auto loc = FileLineColLoc::get(context, path, one.line, one.column);
    auto diagnostic = one.isError ? emitError(loc) : emitWarning(loc);
    diagnostic << one.message;
    for (const std::string &note : one.notes)
      diagnostic.attachNote() << note;
  }
  if (!machine)
    return failure();
  return *machine;
}

//===----------------------------------------------------------------------===//
// What programs can be written for
//===----------------------------------------------------------------------===//

/// True when state can rest in flat pieces: updates are made element by
/// element.
static bool updatesPieces(ModelOp model) {
  return llvm::none_of(model.getBody().getOps<UpdateOp>(), [](UpdateOp update) {
    return cast<OptimizerRuleInterface>(update.getRule()).mixesElements();
  });
}

/// Leaves out ZeRO, which would shard nothing.
static void keepStateWhole(Pins &pins, std::vector<std::string> &errors) {
  if (!allows(pins, "zero", pins.zero, 0))
    errors.push_back(
        "the pins ask for ZeRO, and this model's optimizer updates "
        "whole parameters; the nearest is zero=0");
  pins.zero = {0};
  pins.excluded.push_back(
      {"ZeRO (zero > 0)", "the optimizer's updates need whole parameters"});
}

/// True when the model means the same in micro-batches: tried on a copy, with
/// the fewest micro-batches that divide the batch.
static bool accumulates(ModelOp model, const StepModel &step) {
  int64_t parts = 2;
  while (parts < step.batch && step.batch % parts != 0)
    ++parts;
  if (parts > step.batch)
    return true;
  PlanPoint plan;
  plan.outer.microBatches = parts;
  OwningOpRef<ModelOp> copy(model.clone());
  ScopedDiagnosticHandler quiet(model.getContext(), [](Diagnostic &diagnostic) {
    LDBG() << "no micro-batches: " << diagnostic.getLocation() << ": "
           << diagnostic.str();
    return success();
  });
  auto nothing = [](int, const LayerPoint &) -> const LayerLayout * {
    return nullptr;
  };
  return succeeded(applyPlan(*copy, step, plan, nothing)) &&
         succeeded(propagatePlan(*copy));
}

/// True when two loops read the parameters of one layer: stages store those of
/// their own loop.
static bool sharesLayers(ModelOp model) {
  llvm::StringMap<llvm::SmallVector<RepeatOp, 1>> readers;
  bool shares = false;
  model.getBody().walk([&](ParamOp param) {
    auto loop = param->getParentOfType<RepeatOp>();
    PhaseAttr phase = getPhase(param);
    if (!loop || !param.isPerIteration() ||
        (phase && phase.getKind() != PhaseKind::Forward))
      return;
    auto &known = readers[param.getName()];
    shares |= llvm::any_of(known, [&](RepeatOp other) {
      return other != loop && other.getStart() < loop.getEnd() &&
             loop.getStart() < other.getEnd();
    });
    known.push_back(loop);
  });
  return shares;
}

/// Leaves out pipelines.
static void keepOneStage(Pins &pins, std::vector<std::string> &errors) {
  if (!allows(pins, "pp", pins.pp, 1))
    errors.push_back("the pins ask for pipeline stages, and two loops of this "
                     "model read the parameters of one layer; the nearest is "
                     "pp=1");
  pins.pp = {1};
  pins.excluded.push_back({"pipeline stages (pp > 1)",
                           "two loops read the parameters of one layer"});
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

const LayerLayout *Solution::layoutOf(int kind, const LayerPoint &point) const {
  if (!result.best || !tables || point.layout < 0)
    return nullptr;
  return &tables->layoutOf(keyOf(result.best->outer, kind), point);
}

TiedShards Solution::tiedShardsOf(const OuterChoice &outer,
                                  const LayerPoint &embedding,
                                  const LayerPoint &head) const {
  if (!tables || embedding.layout < 0 || head.layout < 0)
    return {};
  int first = step.embedding(), last = step.head();
  return kerf::tiedShards(
      step.kinds[first], tables->layoutOf(keyOf(outer, first), embedding),
      step.kinds[last], tables->layoutOf(keyOf(outer, last), head));
}

ExplainInput Solution::explainInput(double tokens) const {
  ExplainInput input;
  input.step = &step;
  input.machine = &machine;
  input.devices = devices;
  input.perUnit = perUnit;
  input.filledSec = filledSec;
  input.profile = profile;
  input.result = &result;
  input.layoutOf = [this](int kind, const LayerPoint &point) {
    return layoutOf(kind, point);
  };
  input.collectivesOf = [this](int kind, const LayerPoint &point) {
    return !tables || point.layout < 0
               ? std::vector<LayerCollective>()
               : tables->collectivesOf(keyOf(result.best->outer, kind), point);
  };
  input.buffersOf = [this](const OuterChoice &outer, int kind,
                           const LayerPoint &point) {
    constexpr size_t most = 5;
    return !tables || point.layout < 0
               ? std::vector<LayerBuffer>()
               : tables->buffersOf(keyOf(outer, kind), point, most);
  };
  input.tiedShards = [this](const OuterChoice &outer,
                            const LayerPoint &embedding,
                            const LayerPoint &head) {
    return tiedShardsOf(outer, embedding, head);
  };
  input.asked = &asked;
  input.excluded = pins.excluded;
  input.tokens = tokens;
  return input;
}

/// Attention heads, or 1: more tensor ranks than these leave some without work
/// in the op that is hardest to shard otherwise.
static int64_t headsOf(const StepModel &step) {
  double most = 1;
  for (const LayerKind &kind : step.kinds)
    for (const LayerOp &op : kind.ops)
      if (op.scores > 0)
        most = std::max(most, op.scores / (double(step.batch) * step.sequence *
                                           step.sequence));
  return static_cast<int64_t>(most);
}

static int64_t expertsOf(const StepModel &step) {
  int64_t most = 1;
  for (const LayerKind &kind : step.kinds)
    for (const LayerOp &op : kind.ops)
      for (const LayerFactor &factor : op.factors)
        if (factor.index == IndexClass::Expert)
          most = std::max(most, factor.factor.size);
  return most;
}

/// True when, of what elements take, more than a thousandth is not the mean.
static bool differ(const LayerKind &kind, double LayerParam::*bytes,
                   double mean, bool onlyTrained) {
  double off = 0, all = 0;
  for (const LayerParam &param : kind.params) {
    if (param.shared)
      continue;
    double each = onlyTrained && !param.trainable ? 0 : param.*bytes;
    off += param.elements * std::abs(each - mean);
    all += param.elements * mean;
  }
  return off > 1e-3 * all;
}

/// What a kind's parameters take before they are sharded. Tied ones count where
/// they are read first.
static KindSize sizeOf(const LayerKind &kind) {
  KindSize size;
  double elements = 0, trainedWeights = 0;
  size.trainedShare = 0;
  for (const LayerParam &param : kind.params) {
    if (param.shared)
      continue;
    (param.expert ? size.expertElements : size.denseElements) += param.elements;
    elements += param.elements;
    size.weightBytes += param.elements * param.weightBytes;
    if (!param.trainable)
      continue;
    size.trainedShare += param.elements;
    ++(param.expert ? size.expertTrained : size.denseTrained);
    trainedWeights += param.elements * param.weightBytes;
    size.masterBytes += param.elements * param.masterBytes;
    size.gradientBytes += param.elements * param.gradientBytes;
    size.stateBytes += param.elements * param.stateBytes;
  }
  if (size.trainedShare > 0)
    size.trainedWeightBytes = trainedWeights / size.trainedShare;
  for (double *part :
       {&size.weightBytes, &size.masterBytes, &size.gradientBytes,
        &size.stateBytes, &size.trainedShare})
    *part = elements > 0 ? *part / elements : 0;
  size.tableCost = static_cast<double>(kind.ops.size()) / 100;
  size.isMixed =
      differ(kind, &LayerParam::weightBytes, size.weightBytes, false) ||
      differ(kind, &LayerParam::masterBytes, size.masterBytes, true) ||
      differ(kind, &LayerParam::gradientBytes, size.gradientBytes, true) ||
      differ(kind, &LayerParam::stateBytes, size.stateBytes, true);
  return size;
}

/// A tier that is filled in part describes more devices than there are: then
/// the ranks are bounded.
static void boundRanks(Pins &pins, const Machine &machine, int64_t devices) {
  if (machine.describedDevices() <= devices)
    return;
  std::vector<int64_t> ranks;
  for (int64_t n = 1; n <= devices; ++n)
    if (allows(pins, "devices", pins.devices, n))
      ranks.push_back(n);
  if (!ranks.empty())
    pins.devices = ranks;
}

/// Whether programs of a plan sum gradients in the last backward pass, unless
/// the request says so. CPUs communicate with the cores that they compute with:
/// nothing is hidden.
static bool sumsEarly(const Machine &machine, const OuterChoice &outer) {
  return machine.device.target != BackendTarget::Cpu &&
         outer.sumsBesideBackward();
}

static SearchProblem problemOf(const Solution &solution,
                               const SolveRequest &request) {
  /// Fewer tokens of a sequence per rank leave matmuls too small to be worth a
  /// split: a tile of the smallest tensor-core kernels has 64 rows, twice that
  /// for overlap.
  constexpr int64_t leastTokens = 128;
  const StepModel &step = solution.step;
  SearchProblem problem;
  problem.machine = &solution.machine;
  problem.profile = solution.profile;
  problem.tables =
      solution.given ? solution.given.get() : solution.tables.get();
  for (const LayerRun &run : step.runs)
    problem.runs.push_back({run.kind, run.count});
  problem.hasEmbedding = step.embedding() >= 0;
  problem.hasHead = step.head() >= 0;
  for (const LayerKind &kind : step.kinds)
    problem.sizes.push_back(sizeOf(kind));
  problem.vocabulary = step.vocabulary;
  problem.batch = step.batch;
  problem.sequence = step.sequence;
  problem.flopsPerStep = step.stepFlops();
  problem.type = step.type;
  problem.maxTensor = headsOf(step);
  problem.maxContext = std::max<int64_t>(1, step.sequence / leastTokens);
  problem.maxExpert = expertsOf(step);
  problem.exchangesRows = step.moeBuffer > 0;
  problem.pins = solution.pins;
  boundRanks(problem.pins, solution.machine, solution.devices);
  problem.budget = request.budget;
  problem.prove = request.prove;
  problem.isQuick = request.isQuick;
  problem.hopeless = request.hopeless;
  problem.roomyHeadroom = request.roomyHeadroom;
  problem.tiedShards = std::bind_front(&Solution::tiedShardsOf, &solution);
  // Nothing is written for other devices, or by another runtime.
  if (solution.machine.device.target == BackendTarget::None ||
      solution.profile.name != Profile().name)
    return problem;
  auto programsThat = [&](bool sumEarly) {
    return std::make_shared<ProgramMemory>(
        LayerContext{&solution.step, &solution.machine, solution.profile},
        request.workers, sumEarly);
  };
  auto programs = programsThat(false), early = programsThat(true);
  problem.measure = [&solution, programs, early,
                     asked = request.sumsEarly](const PlanPoint &plan) {
    bool isEarly = asked.value_or(sumsEarly(solution.machine, plan.outer));
    return (isEarly ? early : programs)
        ->of(plan, [&](int kind, const LayerPoint &point) {
          return &solution.tables->layoutOf(keyOf(plan.outer, kind), point);
        });
  };
  problem.measureLeast = [programs](const TableKey &key) {
    return programs->leastOf(key);
  };
  auto bounds = std::make_shared<ProgramBounds>(
      LayerContext{&solution.step, &solution.machine, solution.profile},
      request.workers);
  auto measure =
      [&solution,
       bounds](bool withWork, const OuterChoice &outer,
               const std::vector<std::vector<const LayerPoint *>> &points) {
        std::vector<KindPoints> kinds;
        for (auto [kind, own] : llvm::enumerate(points)) {
          if (own.empty())
            continue;
          TableKey key = solution.tables->alike(keyOf(outer, int(kind)));
          KindPoints &all =
              kinds.emplace_back(KindPoints{int(kind), key, own, {}});
          for (const LayerPoint *point : own)
            all.layouts.push_back(&solution.tables->layoutOf(key, *point));
        }
        return bounds->of(outer, kinds, withWork);
      };
  problem.measureLayers = std::bind_front(measure, true);
  problem.measureLasting = std::bind_front(measure, false);
  return problem;
}

namespace {
/// What a plan is searched for.
struct Subject {
  const StepModel &step;
  ModelOp given; ///< a model whose plan is to be kept, or null
  MLIRContext *context;
  std::function<InFlightDiagnostic()> error; ///< begins one, at its place
};
} // namespace

/// What is asked for is no part of the model: errors have no place in its file.
static LogicalResult refuse(const Subject &subject,
                            llvm::ArrayRef<std::string> errors) {
  for (const std::string &error : errors)
    emitError(UnknownLoc::get(subject.context)) << error;
  return failure(!errors.empty());
}

/// A profile as far as programs for the machine go: on CPUs ranks communicate
/// with the cores that they compute with, so nothing is hidden. What the
/// cluster's description states goes first.
static Profile profileFor(const Machine &machine, Profile profile) {
  if (machine.device.target == BackendTarget::Cpu)
    profile.tensorOverlap = profile.gradientOverlap = profile.weightOverlap =
        profile.updatedOverlap = 0;
  const HiddenTraffic &hidden = machine.device.hidden;
  profile.tensorOverlap = hidden.layers.value_or(profile.tensorOverlap);
  profile.gradientOverlap = hidden.gradients.value_or(profile.gradientOverlap);
  profile.weightOverlap = hidden.weights.value_or(profile.weightOverlap);
  return profile;
}

/// Tokens are dropped by their order, which is so not to be changed.
static bool dropsByOrder(ModelOp model) {
  return model.getBody()
      .walk([](AssignSlotsOp op) {
        return op.getCapacity() ? WalkResult::interrupt()
                                : WalkResult::advance();
      })
      .wasInterrupted();
}

FailureOr<StepModel> kerf::plannedStep(ModelOp model) {
  auto step = readStep(model);
  if (failed(step))
    return failure();
  step->keepsOrder = dropsByOrder(model);
  step->updatesPieces = updatesPieces(model);
  step->sharesLayers = sharesLayers(model);
  step->accumulates =
      model->hasAttr(kPlanAttrName) || accumulates(model, *step);
  return step;
}

/// The pin `layers` counts layers; what stands between two loops is a place
/// of its own to the search, and goes with the layer behind it.
static void countBetween(const StepModel &step, Pins &pins,
                         std::vector<std::string> &errors) {
  if (pins.stageLayers.empty())
    return;
  int64_t sum = std::accumulate(pins.stageLayers.begin(),
                                pins.stageLayers.end(), int64_t(0));
  if (sum != step.layers()) {
    errors.push_back("layers: the stages have " + std::to_string(sum) +
                     " layers, expected " + std::to_string(step.layers()));
    pins.stageLayers.clear();
    return;
  }
  size_t stage = 0;
  int64_t left = pins.stageLayers.front();
  std::vector<int64_t> counts(pins.stageLayers.size(), 0);
  auto next = [&] {
    while (left == 0 && stage + 1 < counts.size())
      left = pins.stageLayers[++stage];
  };
  for (const LayerRun &run : step.runs) {
    if (run.kind == step.embedding() || run.kind == step.head())
      continue;
    for (int64_t i = 0; i < run.count; ++i) {
      next();
      ++counts[stage];
      left -= run.repeat >= 0;
    }
  }
  pins.stageLayers = std::move(counts);
}

/// Leaves out of the space what cannot be done for a step, and tells it.
static void excludeFor(const StepModel &step, Pins &pins,
                       std::vector<std::string> &errors) {
  if (!step.updatesPieces)
    keepStateWhole(pins, errors);
  if (step.sharesLayers)
    keepOneStage(pins, errors);
  if (step.accumulates)
    return;
  if (!allows(pins, "m", pins.microBatches, 1))
    errors.push_back("the pins ask for micro-batches, and this model combines "
                     "values of the whole batch; the nearest is m=1");
  pins.microBatches = {1};
  pins.excluded.push_back({"micro-batches (m > 1)",
                           "the model combines values of the whole batch"});
}

/// The fastest plan on devices placed so that takes less than `enoughSec`.
static FailureOr<std::unique_ptr<Solution>> solveOn(const Subject &subject,
                                                    const SolveRequest &request,
                                                    const Placement &placement,
                                                    double enoughSec);

/// A plan on another number of devices, if one is soon found.
static std::optional<PlanPoint> tryDevices(const Subject &subject,
                                           const SolveRequest &request,
                                           int64_t devices) {
  SolveRequest other = request;
  other.budget = kReliefTables;
  other.hopeless = kReliefNodes;
  other.isQuick = true;
  other.prove = false;
  other.roomyHeadroom = 0;
  ScopedDiagnosticHandler quiet(subject.context,
                                [](Diagnostic &) { return success(); });
  // Any step will do; where there is none, nobody asks why.
  auto found = solveOn(subject, other,
                       {request.machine.withDevices(devices), devices, 0},
                       std::numeric_limits<double>::max());
  return succeeded(found) ? (*found)->result.best : std::nullopt;
}

static FailureOr<std::unique_ptr<Solution>> solveOn(const Subject &subject,
                                                    const SolveRequest &request,
                                                    const Placement &placement,
                                                    double enoughSec) {
  auto solution = std::make_unique<Solution>();
  solution->machine = placement.machine;
  solution->devices = placement.devices;
  solution->perUnit = placement.perUnit;
  solution->profile = profileFor(solution->machine, request.profile);
  solution->pins = solution->asked = request.pins;
  ModelOp given = subject.given;
  solution->step = subject.step;
  solution->step.moeBuffer = moeBufferOf(given, request);
  solution->step.plainOrder = request.pins.cpOrder == "plain" ||
                              subject.step.keepsOrder ||
                              (given && getPlan(given).getPlainOrder());
  std::vector<std::string> errors = request.pinErrors;
  if (request.pins.cpOrder == "zigzag" && solution->step.plainOrder)
    errors.push_back("the pins ask for cp_order=zigzag, and this model or its "
                     "plan needs tokens in their order; the nearest is "
                     "cp_order=plain");
  OptionFilter planned, ordered;
  if (given) {
    planned = pinPlan(given, solution->step, solution->pins, errors);
    keepWhole(given, solution->step);
  } else {
    countBetween(solution->step, solution->pins, errors);
    excludeFor(subject.step, solution->pins, errors);
    ordered = orderOptions(solution->step);
  }
  LayerContext context{&solution->step, &solution->machine, solution->profile};
  auto find = [&](bool holdAllExperts) -> LogicalResult {
    OptionFilter filter = expertOptions(given, solution->pins, holdAllExperts);
    solution->tables = std::make_unique<SolvedTables>(
        context, allOf(filter, ordered), planned);
    if (solution->pins.recompute == "selective")
      solution->tables->offerSelective();
    if (given)
      solution->given =
          pinRecomputation(getPlan(given), solution->step, *solution->tables);
    SearchProblem problem = problemOf(*solution, request);
    for (const std::string &wrong : problem.check())
      errors.push_back(wrong);
    if (failed(refuse(subject, errors)))
      return failure();
    problem.enoughSec = enoughSec;
    problem.tryDevices = [&](int64_t devices) {
      return tryDevices(subject, request, devices);
    };
    solution->result = search(problem);
    return success();
  };
  bool mayHoldAll = mayHoldAllExperts(given, solution->pins);
  if (failed(find(/*holdAllExperts=*/given && mayHoldAll)))
    return failure();
  bool foundNone = !solution->result.best && enoughSec == HUGE_VAL;
  if (!given && mayHoldAll && foundNone &&
      failed(find(/*holdAllExperts=*/true)))
    return failure();
  const std::optional<PlanPoint> &best = solution->result.best;
  solution->sumsEarly = request.sumsEarly.value_or(
      best && sumsEarly(solution->machine, best->outer));
  return solution;
}

/// Takes what is faster on devices placed in another way. What was proven holds
/// for all placements.
static void tryPlacement(const Subject &subject, const SolveRequest &request,
                         const Placement &placement,
                         std::unique_ptr<Solution> &best) {
  ScopedDiagnosticHandler quiet(subject.context,
                                [](Diagnostic &) { return success(); });
  Certificate known = best->result.certificate;
  double enough = HUGE_VAL;
  if (best->result.best)
    enough = best->result.best->stepSec;
  auto other = solveOn(subject, request, placement, enough);
  if (failed(other))
    return;
  Certificate own = (*other)->result.certificate;
  const std::optional<PlanPoint> &plan = (*other)->result.best;
  LDBG() << "placement of " << placement.devices << " devices: "
         << (plan ? report::seconds(plan->stepSec) : "nothing faster");
  bool isFaster =
      plan && (!best->result.best ||
               plan->stepSec < best->result.best->stepSec * (1 - 1e-9));
  double filledSec = best->filledSec;
  if (isFaster && best->result.best && filledSec == 0)
    filledSec = best->result.best->stepSec;
  if (isFaster)
    best = std::move(*other);
  best->filledSec = filledSec;
  Certificate &certificate = best->result.certificate;
  if (known.boundSec > 0 && own.boundSec > 0)
    certificate.boundSec = std::min(known.boundSec, own.boundSec);
  certificate.complete = known.complete && own.complete;
  certificate.allLayouts = known.allLayouts && own.allLayouts;
}

/// A plan that is given has as many ranks as its mesh.
static LogicalResult checkMesh(const Subject &subject, int64_t devices) {
  if (!subject.given)
    return success();
  MeshAttr mesh = getPlan(subject.given).getMesh();
  int64_t ranks = llvm::product_of(mesh.getSizes());
  if (ranks <= devices)
    return success();
  std::string axes;
  for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes()))
    axes +=
        (axes.empty() ? "" : ", ") + name.str() + " " + std::to_string(size);
  InFlightDiagnostic error = subject.error();
  error << "the plan's mesh (" << axes << ") needs " << ranks
        << " devices, found " << devices;
  error.attachNote() << "give --devices=" << ranks
                     << ", or plan again for --devices=" << devices
                     << " without the plan's file";
  return error;
}

static FailureOr<std::unique_ptr<Solution>> solve(const Subject &subject,
                                                  const SolveRequest &request) {
  constexpr int64_t mostDevices = 1 << 20; // that a mesh may have
  int64_t devices =
      request.devices ? *request.devices : request.machine.describedDevices();
  if (devices < 1 || devices > mostDevices)
    return emitError(UnknownLoc::get(subject.context))
           << "expected 1 to " << mostDevices << " devices, found " << devices;
  if (failed(checkMesh(subject, devices)))
    return failure();
  std::vector<Placement> placements = placementsOf(request.machine, devices);
  auto solution =
      solveOn(subject, request, placements.front(), request.enoughSec);
  if (failed(solution))
    return failure();
  for (const Placement &placement : llvm::drop_begin(placements))
    tryPlacement(subject, request, placement, *solution);
  (*solution)->devices = devices;
  return solution;
}

/// The model as it was before its plan: sums that are split have their bias
/// again, which the search prices with them.
static OwningOpRef<ModelOp> withBiases(ModelOp model) {
  OwningOpRef<ModelOp> copy(model.clone());
  llvm::SmallVector<Operation *> matmuls;
  copy->getBody().walk([&](Operation *op) {
    if (isCall(op, LibraryCall::Matmul))
      matmuls.push_back(op);
  });
  llvm::for_each(matmuls, mergeBias);
  return copy;
}

FailureOr<std::unique_ptr<Solution>>
kerf::solvePlan(ModelOp model, const SolveRequest &request) {
  bool isGiven = model->hasAttr(kPlanAttrName);
  OwningOpRef<ModelOp> given = isGiven ? withBiases(model) : nullptr;
  auto step = plannedStep(isGiven ? *given : model);
  if (failed(step))
    return failure();
  return solve({*step, isGiven ? *given : ModelOp(), model.getContext(),
                [&] { return model.emitError(); }},
               request);
}

FailureOr<std::unique_ptr<Solution>>
kerf::solveStep(const StepModel &step, const SolveRequest &request,
                MLIRContext *context) {
  auto nowhere = UnknownLoc::get(context);
  return solve({step, ModelOp(), context, [=] { return emitError(nowhere); }},
               request);
}

LogicalResult kerf::refuseSolution(InFlightDiagnostic diagnostic,
                                   const Solution &solution) {
  Refusal refusal = refusalOf(explain(solution.explainInput()));
  diagnostic << refusal.message;
  for (const std::string &note : refusal.notes)
    diagnostic.attachNote() << note;
  return diagnostic;
}

LogicalResult kerf::applySolution(ModelOp model, const Solution &solution) {
  if (!solution.result.best)
    return refuseSolution(model.emitError(), solution);
  return applyPlan(model, solution.step, *solution.result.best,
                   [&](int kind, const LayerPoint &point) {
                     return solution.layoutOf(kind, point);
                   });
}

namespace {
struct SolvePlanPass : public kerf::impl::SolvePlanPassBase<SolvePlanPass> {
  using SolvePlanPassBase::SolvePlanPassBase;

  void runOnOperation() override {
    auto machine = readCluster(&getContext(), cluster);
    if (failed(machine))
      return signalPassFailure();
    SolveRequest request;
    request.machine = *machine;
    if (devices.hasValue())
      request.devices = devices;
    request.prove = prove;
    request.pins = parsePins(pins, request.pinErrors);
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      auto solution = solvePlan(model, request);
      if (failed(solution) || failed(applySolution(model, **solution)))
        return signalPassFailure();
    }
  }
};
} // namespace

json::Value kerf::pricedStep(const Solution &solution) {
  json::Value value = json::Value::makeObject();
  const PlanPoint &plan = *solution.result.best;
  value.set("cluster", json::Value::fromString(solution.machine.name));
  if (solution.perUnit > 0)
    value.set("per_unit", json::Value::fromInteger(solution.perUnit));
  value.set("step_sec", report::numberOf(plan.stepSec));
  value.set("collectives",
            report::jsonOf(priceCollectives(solution.explainInput(), plan)));
  return value;
}
