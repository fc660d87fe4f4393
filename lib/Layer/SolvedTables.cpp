//===- SolvedTables.cpp - tables for the outer search ---------------------===//
//
// For one key: layouts under a few prices of memory (none; then prices at which
// the bytes of a layer cost 10 % and 200 % of its time; then gradients count
// as ops make them, whole where they are sums over ranks; at last, where sums
// or updates once per step weigh, for a step of one micro-batch), each with its
// recomputation points. Of collectives that part counts which compute does not
// hide. What comes before and after the layers takes the borders that the
// layers ask for when memory is free, and their price of a byte.
//
//===----------------------------------------------------------------------===//

#include "LayerBounds.h"

#include "llvm/Support/DebugLog.h"

#include <algorithm>
#include <map>
#include <optional>

#define DEBUG_TYPE "layer"

using namespace kerf;

namespace {

struct MemoryPrice {
  double part; ///< of the layer's time that its bytes cost
  bool gradientsAsMade;
};
/// The last one is for where memory is scarcest: layouts whose gradients are
/// whole on each rank are the faster ones, and mostly fit.
constexpr MemoryPrice kPrices[] = {
    {0, false}, {0.1, false}, {2, false}, {2, true}};
/// Micro-batches over which the solver spreads costs once per step.
constexpr int64_t kTypicalMicroBatches = 8;
/// Costs once per step that are a larger part of a layer's time are worth a
/// solve for steps of one micro-batch.
constexpr double kWorthOnce = 0.01;
/// Where a layer's time is its launches, what is done meanwhile is nearly free:
/// updates, which come after them, count so much more.
constexpr double kBehindLaunches = 16;
/// Bytes of weights, gradients and optimizer state for each element.
constexpr double kHeldBytes = 16;

struct Entry {
  LayerTable table;
  std::vector<LayerLayout> layouts; ///< by the points' position
  /// Points that were asked for by name, not in the table.
  std::vector<std::pair<LayerPoint, LayerLayout>> asked;
};

} // namespace

struct SolvedTables::State {
  LayerContext context;
  OptionFilter filter, given;
  OptionFilter both;
  int mainKind = 0;
  std::vector<LayerFacts> facts;
  std::vector<bool> repeats; ///< by kind
  std::map<TableKey, Entry> entries;
  /// Borders of the layers and their seconds per byte, by key of the main kind.
  struct Border {
    std::array<AxisState, kInnerAxes> input, outputGradient;
    double secPerByte = 0;
  };
  std::map<TableKey, Border> borders;
  std::optional<LayerBounds> bounds;
  /// Groups that stand for others, by size and stride.
  std::map<std::pair<int64_t, int64_t>, Group> groups;
  /// Groups of several axes: by what each costs those that were seen, and for
  /// each key the one that stands for it.
  std::map<TableKey, std::vector<TableKey>> several;
  std::map<TableKey, TableKey> moving;
  /// What was found for groups that cost the same on each axis, by everything
  /// else that the layouts of a key depend on.
  std::map<std::vector<double>, LayerRounds> rounds;
  int64_t solved = 0;

  TableKey movingAlike(const TableKey &key, TableKey other);
  bool divides(const TableKey &key) const {
    int64_t local = key.microBatch * key.groups[2].size;
    return local > 0 && context.step->batch % local == 0;
  }
  /// Of unlike layers, bounds of heads use the state of those that take most.
  bool isPriced(int kind) const { return !repeats[kind] || kind == mainKind; }
  LayerQuery queryOf(const TableKey &key);
  LayerSolution solutionOf(const LayerTerms &terms, bool isOnlyGiven);
  void solve(const TableKey &key, Entry &entry);
  void solveUnder(const OptionFilter &options, const TableKey &key,
                  Entry &entry);
  bool isGiven(int kind, const LayerLayout &layout) const;
  Entry &entryOf(const TableKey &key);
  double priceOfByte(const TableKey &key, const LayerPoint &point);
  Border borderOf(TableKey key);
  void noteBorder(const TableKey &key, const LayerSolution &solution);
  void add(const LayerTerms &terms, const LayerSolution &solution,
           Entry &entry);
  bool offersSelective = false;
};

OptionFilter kerf::allOf(OptionFilter a, OptionFilter b) {
  if (!a || !b)
    return a ? a : b;
  return [=](const LayerOp &op, InnerAxis axis, const OpOption &option) {
    return a(op, axis, option) && b(op, axis, option);
  };
}

SolvedTables::SolvedTables(LayerContext context, OptionFilter filter,
                           OptionFilter given)
    : state(std::make_unique<State>()) {
  state->context = context;
  state->both = allOf(filter, given);
  state->filter = std::move(filter);
  state->given = std::move(given);
  for (size_t k = 0; k < context.step->kinds.size(); ++k) {
    const LayerKind &kind = context.step->kinds[k];
    state->facts.emplace_back(kind);
  }
  state->repeats.assign(context.step->kinds.size(), false);
  for (const LayerRun &run : context.step->runs)
    if (run.repeat >= 0)
      state->repeats[run.kind] = true;
  std::vector<double> flops(context.step->kinds.size(), -1);
  for (const LayerRun &run : context.step->runs)
    if (run.repeat >= 0)
      flops[run.kind] =
          std::max(flops[run.kind], 0.0) +
          context.step->kinds[run.kind].forwardFlops() * double(run.count);
  state->mainKind = static_cast<int>(llvm::max_element(flops) - flops.begin());
  state->bounds.emplace(state->context, state->both, state->facts);
}

SolvedTables::~SolvedTables() = default;

/// Whether collectives in two groups of one size cost the same: they cross the
/// tiers in the same way.
static bool costsSame(const Machine &machine, Group a, Group b) {
  auto same = [](const GroupTier &x, const GroupTier &y) {
    auto tie = [](const GroupTier &t) {
      return std::tie(t.tier, t.fanOut, t.membersIn, t.bytesPerSec,
                      t.latencySec, t.ringSteps);
    };
    return tie(x) == tie(y);
  };
  return a.size == b.size &&
         llvm::equal(tiersOf(machine, a), tiersOf(machine, b), same);
}

TableKey SolvedTables::alike(const TableKey &key) {
  TableKey other = key;
  for (Group &group : other.groups) {
    if (group.size == 1)
      continue;
    auto [it, isNew] =
        state->groups.try_emplace({group.size, group.stride}, group);
    if (isNew)
      for (const auto &[sizes, known] : state->groups)
        if (sizes != it->first &&
            costsSame(*state->context.machine, known, group)) {
          it->second = known;
          break;
        }
    group = it->second;
  }
  return state->movingAlike(key, other);
}

/// Which axis is the outer one, and what their ranks are together, counts where
/// values move over several.
static bool movesAlike(const Machine &machine, const TableKey &a,
                       const TableKey &b) {
  for (int one = 0; one < kInnerAxes; ++one)
    for (int two = 0; two < one; ++two)
      if (a.groups[one].size > 1 && a.groups[two].size > 1 &&
          (a.groups[one].stride < a.groups[two].stride) !=
              (b.groups[one].stride < b.groups[two].stride))
        return false;
  for (unsigned axes = 0; axes < 1U << kInnerAxes; ++axes) {
    auto own = jointGroup(a, axes), other = jointGroup(b, axes);
    if (own.has_value() != other.has_value() ||
        (own && !costsSame(machine, *own, *other)))
      return false;
  }
  return true;
}

/// Of keys whose axes cost the same each, the first that moves values over
/// several as `key` does.
TableKey SolvedTables::State::movingAlike(const TableKey &key, TableKey other) {
  if (llvm::count_if(key.groups, [](Group own) { return own.size > 1; }) < 2)
    return other;
  TableKey own, costs;
  own.groups = key.groups;
  costs.groups = other.groups;
  auto [it, isNew] = moving.try_emplace(own, own);
  if (isNew) {
    std::vector<TableKey> &known = several[costs];
    auto found = llvm::find_if(known, [&](const TableKey &first) {
      return movesAlike(*context.machine, first, own);
    });
    if (found != known.end())
      it->second = *found;
    else
      known.push_back(own);
  }
  other.groups = it->second.groups;
  return other;
}
int64_t SolvedTables::solved() const { return state->solved; }

static double heldBytes(const LayerPoint &point) {
  return point.savedBytes +
         kHeldBytes * (point.denseElements + point.expertElements);
}

static double secPerByte(const LayerPoint &point) {
  return (point.forward.computeSec() + point.backward.computeSec()) /
         std::max(heldBytes(point), 1.0);
}

/// Remembers what the layers ask for when memory is free.
void SolvedTables::State::noteBorder(const TableKey &key,
                                     const LayerSolution &solution) {
  const LayerLayout &layout = solution.layout;
  Border border;
  border.input.fill(-1);
  border.outputGradient.fill(-1);
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (key.groups[axis].size > 1) {
      border.input[axis] = layout.axes[axis].input;
      border.outputGradient[axis] = layout.axes[axis].outputGradient;
    }
  border.secPerByte = secPerByte(solution.cost.point);
  borders[key] = border;
}

SolvedTables::State::Border SolvedTables::State::borderOf(TableKey key) {
  key.kind = mainKind;
  entryOf(key);
  auto found = borders.find(key);
  if (found != borders.end())
    return found->second;
  Border free;
  free.input.fill(-1);
  free.outputGradient.fill(-1);
  return free;
}

Entry &SolvedTables::State::entryOf(const TableKey &key) {
  auto [it, isNew] = entries.try_emplace(key);
  if (isNew)
    solve(key, it->second);
  return it->second;
}

/// Whether some op brings rows of experts to their owners and back.
static bool exchangesRows(const LayerKind &kind, const LayerLayout &layout) {
  return llvm::any_of(layout.axes, [&](const AxisLayout &axis) {
    return llvm::any_of(llvm::enumerate(axis.ops), [&](auto op) {
      int variant = op.value().variant;
      return variant >= 0 && kind.ops[op.index()].variants[variant].exchanges;
    });
  });
}

void SolvedTables::offerSelective() { state->offersSelective = true; }

/// The point of a layout that recomputes attention and nothing else; none where
/// there is no attention.
static std::optional<std::pair<LayerLayout, LayerCost>>
selectivePoint(const LayerTerms &terms, const LayerLayout &layout) {
  llvm::SmallVector<int64_t> numbers;
  for (const LayerOp &op : terms.kind.ops)
    if (op.phase == LayerPhase::Forward && op.work.attentionFlops > 0)
      numbers.push_back(op.number);
  if (numbers.empty())
    return std::nullopt;
  auto point = recomputationPointOf(terms, layout, numbers);
  point.second.point.isSelective = true;
  return point;
}

void SolvedTables::State::add(const LayerTerms &terms,
                              const LayerSolution &solution, Entry &entry) {
  int layout = entry.table.layouts++;
  int number = 0;
  auto points = recomputationPointsWith(terms, solution.layout);
  // What a step recomputes is in the reverse of a repeat.
  if (!repeats[terms.query.key.kind])
    points.resize(1);
  else if (offersSelective)
    if (auto point = selectivePoint(terms, solution.layout))
      points.push_back(std::move(*point));
  for (auto &[own, cost] : points) {
    LayerPoint point = cost.point;
    point.layout = layout;
    point.point = number++;
    point.exchangesRows =
        exchangesRows(context.step->kinds[terms.query.key.kind], own);
    entry.table.points.push_back(point);
    entry.layouts.push_back(own);
  }
}

/// Equal in all that the outer search sees.
static bool sameCosts(const LayerPoint &a, const LayerPoint &b) {
  auto total = [](const TimeParts &parts) {
    return parts.computeSec() + parts.allCommSec();
  };
  auto near = [](double x, double y) {
    return std::abs(x - y) <= 1e-9 * std::max(x, y);
  };
  return near(total(a.forward), total(b.forward)) &&
         near(total(a.backward), total(b.backward)) &&
         near(a.savedBytes, b.savedBytes) && near(a.updateSec, b.updateSec) &&
         near(a.denseElements, b.denseElements) &&
         near(a.expertElements, b.expertElements) &&
         a.expertsWhole == b.expertsWhole &&
         near(a.denseExcessBytes, b.denseExcessBytes) &&
         near(a.expertExcessBytes, b.expertExcessBytes);
}

/// Gradients are so much larger than their weights that others are worth a
/// solve: of most experts' layers they are not.
static bool hasExcess(const LayerPoint &point) {
  constexpr double kWorth = 0.05;
  return point.denseExcessBytes + point.expertExcessBytes >
         kWorth * heldBytes(point);
}

static double secondsOf(const LayerPoint &point) {
  double sum = 0;
  for (const TimeParts *parts :
       {&point.forward, &point.backward, &point.recompute})
    sum += parts->computeSec() + parts->allCommSec();
  return sum;
}

/// Of the optimizer, for each element.
static double updateSec(const LayerContext &context) {
  const Device &device = context.machine->device;
  return context.profile.updateBytes /
         (device.memoryBytesPerSec * device.efficiency.memory);
}

/// The part of that which ranks do besides what is their own: they hold more.
static double doubledUpdateSec(const LayerTerms &terms,
                               const LayerPoint &point) {
  double elements = point.denseElements + point.expertElements, own = 0;
  for (const LayerParam &param : terms.kind.params)
    own += param.elements;
  for (Group group : terms.query.key.groups)
    own /= double(group.size);
  return updateSec(terms.context) * (elements - own);
}

static bool isLaunches(const LayerContext &context, const LayerPoint &point) {
  return point.kernels * context.machine->device.launchSec > secondsOf(point);
}

/// True for seconds per step that are so large a part of a layer's that a step
/// of one micro-batch may be faster with another layout.
static bool weighsOnce(double sec, const LayerPoint &point) {
  return sec > kWorthOnce * secondsOf(point);
}

/// The points by their seconds.
static Entry sorted(Entry entry) {
  std::vector<size_t> order(entry.table.points.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  auto seconds = [&](size_t i) { return secondsOf(entry.table.points[i]); };
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::make_pair(seconds(a), a) < std::make_pair(seconds(b), b);
  });
  Entry own;
  own.table.layouts = entry.table.layouts;
  for (size_t i : order) {
    own.table.points.push_back(entry.table.points[i]);
    own.layouts.push_back(std::move(entry.layouts[i]));
  }
  return own;
}

LayerQuery SolvedTables::State::queryOf(const TableKey &key) {
  LayerQuery query;
  query.key = key;
  query.microBatches = kTypicalMicroBatches;
  query.restFree = false;
  query.commWeight = 1 - context.profile.tensorOverlap;
  if (key.kind != mainKind) {
    Border border = borderOf(key);
    query.input = border.input;
    query.outputGradient = border.outputGradient;
  }
  return query;
}

LayerSolution SolvedTables::State::solutionOf(const LayerTerms &terms,
                                              bool isOnlyGiven) {
  const LayerQuery &query = terms.query;
  // Only of several axes others can cost the same on each.
  if (llvm::count_if(query.key.groups,
                     [](Group group) { return group.size > 1; }) < 2)
    return solveWith(terms);
  std::vector<double> what = {double(query.key.kind),
                              double(query.key.microBatch),
                              query.keptPrice,
                              query.statePrice,
                              double(query.gradientsAsMade),
                              double(query.microBatches),
                              double(isOnlyGiven)};
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    Group group = query.key.groups[axis];
    if (auto known = groups.find({group.size, group.stride});
        known != groups.end())
      group = known->second;
    what.insert(what.end(), {double(group.size), double(group.stride),
                             double(query.input[axis]),
                             double(query.outputGradient[axis])});
  }
  return solveWith(terms, rounds[what]);
}

/// Seconds per byte held. What comes before and after the layers moves its
/// bytes once per step as they do, however little it computes (an embedding
/// next to nothing): a byte is worth as much there. Frozen ones do not move.
double SolvedTables::State::priceOfByte(const TableKey &key,
                                        const LayerPoint &point) {
  return point.trainedShare > 0 ? borderOf(key).secPerByte : secPerByte(point);
}

void SolvedTables::State::solveUnder(const OptionFilter &options,
                                     const TableKey &key, Entry &entry) {
  LayerQuery query = queryOf(key);
  query.filter = options;
  const LayerKind &kind = context.step->kinds[key.kind];
  std::vector<LayerPoint> seen;
  double perByte = 0;
  auto axes = llvm::count_if(key.groups,
                             [](const Group &group) { return group.size > 1; });
  LayerTerms terms(context, query, kind, facts[key.kind]);
  auto solveOnce = [&] {
    LayerSolution solution = solutionOf(terms, &options == &both);
    if (!solution.possible())
      return false;
    const LayerPoint &point = solution.cost.point;
    if (seen.empty() && key.kind == mainKind)
      noteBorder(key, solution);
    bool known = llvm::any_of(
        seen, [&](const LayerPoint &other) { return sameCosts(other, point); });
    if (!known)
      add(terms, solution, entry);
    seen.push_back(point);
    return true;
  };
  // For steps of one micro-batch.
  auto solveForOne = [&] {
    const LayerPoint first = seen.front();
    query.keptPrice = query.statePrice = 0;
    query.gradientsAsMade = false;
    query.microBatches = 1;
    if (weighsOnce(first.tensorSyncSec, first))
      solveOnce();
    query.statePrice = updateSec(context) / kHeldBytes *
                       (isLaunches(context, first) ? kBehindLaunches : 1);
    if (weighsOnce(doubledUpdateSec(terms, first), first))
      solveOnce();
  };
  for (const MemoryPrice &price : kPrices) {
    // Where gradients are hardly larger than their weights both count the same.
    if (price.gradientsAsMade && !hasExcess(seen.back()))
      break;
    query.keptPrice = query.statePrice = price.part * perByte;
    query.gradientsAsMade = price.gradientsAsMade;
    if (!solveOnce())
      return;
    if (seen.size() == 1)
      perByte = priceOfByte(key, seen.front());
    if (axes == 0)
      break;
  }
  // Of several axes the price knows less of what a layout for it would move.
  if (axes == 1)
    solveForOne();
  entry = sorted(std::move(entry));
}

/// Whether the plan that is given says what a layout does.
bool SolvedTables::State::isGiven(int kind, const LayerLayout &layout) const {
  const std::vector<LayerOp> &ops = context.step->kinds[kind].ops;
  for (auto [axis, own] : llvm::enumerate(layout.axes))
    for (auto [op, option] : llvm::zip(ops, own.ops))
      if (!given(op, static_cast<InnerAxis>(axis), option))
        return false;
  return true;
}

/// "kind 1, 2 sequences, tp 4 x 1, cp 2 x 4": ranks and their stride.
static std::string textOf(const TableKey &key) {
  std::string text = "kind " + std::to_string(key.kind) + ", " +
                     std::to_string(key.microBatch) + " sequences";
  for (auto [axis, group] : llvm::enumerate(key.groups))
    if (group.size > 1)
      text += ", " + axisName(static_cast<InnerAxis>(axis)).str() + " " +
              std::to_string(group.size) + " x " + std::to_string(group.stride);
  return text;
}

void SolvedTables::State::solve(const TableKey &key, Entry &entry) {
  if (!divides(key))
    return;
  ++solved;
  solveUnder(filter, key, entry);
  LDBG() << textOf(key) << ": " << entry.table.layouts << " layouts, "
         << entry.table.points.size() << " points";
  if (!given)
    return;
  Entry all = std::move(entry);
  entry = {};
  entry.table.layouts = all.table.layouts;
  for (auto [point, layout] : llvm::zip_equal(all.table.points, all.layouts))
    if (isGiven(key.kind, layout)) {
      entry.table.points.push_back(point);
      entry.layouts.push_back(std::move(layout));
    }
  if (!entry.layouts.empty())
    return;
  entry = {};
  solveUnder(both, key, entry);
}

const LayerTable &SolvedTables::get(const TableKey &key) {
  return state->entryOf(alike(key)).table;
}

double SolvedTables::lowerBoundSec(const TableKey &key) {
  return state->bounds->seconds(alike(key));
}

double SolvedTables::lowerBoundSavedBytes(const TableKey &key) {
  return state->bounds->savedBytes(alike(key));
}

KeptCurve SolvedTables::lowerBoundKept(const TableKey &key) {
  return state->bounds->kept(alike(key));
}

double SolvedTables::lowerBoundDeferredBytes(const TableKey &key) {
  return state->bounds->deferredBytes(key);
}

StateBound SolvedTables::lowerBoundState(const TableKey &key) {
  return state->bounds->parameters(alike(key), state->isPriced(key.kind));
}

/// True for one point: layouts and points are numbered within a table.
static bool isSame(const LayerPoint &a, const LayerPoint &b) {
  return a.layout == b.layout && a.point == b.point;
}

const LayerLayout &SolvedTables::layoutOf(const TableKey &key,
                                          const LayerPoint &point) {
  const Entry &entry = state->entryOf(alike(key));
  for (const auto &[asked, layout] : entry.asked)
    if (isSame(asked, point))
      return layout;
  for (auto [own, layout] : llvm::zip(entry.table.points, entry.layouts))
    if (isSame(own, point))
      return layout;
  return entry.layouts.front();
}

LayerPoint SolvedTables::recomputing(const TableKey &key,
                                     const LayerPoint &point,
                                     llvm::ArrayRef<int64_t> numbers) {
  TableKey own = alike(key);
  LayerQuery query = state->queryOf(own);
  LayerTerms terms(state->context, query, state->context.step->kinds[key.kind],
                   state->facts[key.kind]);
  auto [layout, cost] =
      recomputationPointOf(terms, layoutOf(key, point), numbers);
  Entry &entry = state->entryOf(own);
  cost.point.layout = point.layout;
  cost.point.exchangesRows = point.exchangesRows;
  cost.point.point = entry.table.points.size() + entry.asked.size();
  entry.asked.push_back({cost.point, std::move(layout)});
  return cost.point;
}

std::vector<LayerCollective>
SolvedTables::collectivesOf(const TableKey &key, const LayerPoint &point) {
  TableKey own = alike(key);
  LayerQuery query = state->queryOf(own);
  LayerTerms terms(state->context, query, state->context.step->kinds[key.kind],
                   state->facts[key.kind]);
  std::vector<LayerCollective> account;
  sumCosts(terms, layoutOf(key, point), &account);
  return account;
}

std::vector<LayerBuffer> SolvedTables::buffersOf(const TableKey &key,
                                                 const LayerPoint &point,
                                                 size_t count) {
  LayerQuery query = state->queryOf(alike(key));
  LayerTerms terms(state->context, query, state->context.step->kinds[key.kind],
                   state->facts[key.kind]);
  return largestBuffers(terms, layoutOf(key, point), count);
}
