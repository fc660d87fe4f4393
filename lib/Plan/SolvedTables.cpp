//===- SolvedTables.cpp - tables for the outer search ---------------------===//
//
// For one key: layouts under a few prices of memory (none; then prices at which
// the bytes of a layer cost 5 % and 30 % of its time), each with its
// recomputation points. What comes before and after the layers takes the
// borders that the layers ask for when memory is free.
//
//===----------------------------------------------------------------------===//

#include "LayerTerms.h"

#include "kerf/Cost/Kernels.h"

#include <algorithm>
#include <map>

using namespace kerf;

namespace {

constexpr double kPrices[] = {0, 0.05, 0.3};
/// Micro-batches over which the solver spreads costs once per step.
constexpr int64_t kTypicalMicroBatches = 8;

struct Entry {
  LayerTable table;
  std::vector<LayerLayout> layouts; ///< by the points' position
};

/// What no layout can beat, per whole batch on one device.
struct Floor {
  double seconds = 0;    ///< forward and backward
  double inputBytes = 0; ///< of the layer's input
};

} // namespace

struct SolvedTables::State {
  LayerContext context;
  OptionFilter filter;
  int mainKind = 0;
  std::vector<LayerFacts> facts;
  std::vector<Floor> floors;
  std::map<TableKey, Entry> entries;
  /// Borders of the layers, by key of the main kind.
  struct Border {
    std::array<AxisState, kInnerAxes> input, outputGradient;
  };
  std::map<TableKey, Border> borders;
  /// Seconds per sequence that no layout on one axis can beat.
  std::map<std::tuple<int, int, int64_t, int64_t>, double> idealSec;
  int64_t solved = 0;

  bool divides(const TableKey &key) const {
    int64_t local = key.microBatch * key.groups[2].size;
    return local > 0 && context.step->batch % local == 0;
  }
  void solve(const TableKey &key, Entry &entry);
  Entry &entryOf(const TableKey &key);
  Border borderOf(TableKey key);
  void noteBorder(const TableKey &key, const LayerLayout &layout);
  double ideal(int kind, int axis, Group group);
  void add(const LayerTerms &terms, const LayerSolution &solution,
           Entry &entry);
};

/// Products at the best rate and rows at full bandwidth, cut over everything.
static Floor floorOf(const LayerContext &context, const LayerKind &kind,
                     const LayerFacts &facts) {
  Device device = context.machine->perRank().device;
  const Profile &profile = context.profile;
  Floor floor;
  for (const LayerOp &op : kind.ops) {
    if (op.view)
      continue;
    if (op.work.matmulFlops > 0) {
      MatmulShape huge{1, 1 << 17, 1 << 17, 1 << 17};
      double rate = huge.flops() / matmulSec(device, profile, huge, op.type, 2);
      floor.seconds += op.work.matmulFlops / rate;
    } else if (op.work.attentionFlops > 0) {
      floor.seconds +=
          attentionSec(device, profile, op.work.attentionFlops, 0, op.headSize,
                       op.scores, op.type, op.phase != LayerPhase::Forward);
    } else {
      double bytes = 0;
      for (int value : op.results)
        if (!facts.fusedAway[value] && kind.values[value].gradientOf < 0)
          bytes += kind.values[value].bytes();
      floor.seconds += rowSec(device, profile, bytes, 0);
    }
  }
  if (kind.input >= 0)
    floor.inputBytes = kind.values[kind.input].bytes();
  return floor;
}

SolvedTables::SolvedTables(LayerContext context, OptionFilter filter)
    : state(std::make_unique<State>()) {
  state->context = context;
  state->filter = std::move(filter);
  double most = -1;
  for (size_t k = 0; k < context.step->kinds.size(); ++k) {
    const LayerKind &kind = context.step->kinds[k];
    state->facts.emplace_back(kind);
    state->floors.push_back(floorOf(context, kind, state->facts.back()));
  }
  for (const LayerRun &run : context.step->runs)
    if (run.repeat >= 0 &&
        context.step->kinds[run.kind].forwardFlops() * double(run.count) >
            most) {
      most = context.step->kinds[run.kind].forwardFlops() * double(run.count);
      state->mainKind = run.kind;
    }
}

SolvedTables::~SolvedTables() = default;
int64_t SolvedTables::solved() const { return state->solved; }

/// Remembers the borders that the layers ask for when memory is free.
void SolvedTables::State::noteBorder(const TableKey &key,
                                     const LayerLayout &layout) {
  Border border;
  border.input.fill(-1);
  border.outputGradient.fill(-1);
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (key.groups[axis].size > 1) {
      border.input[axis] = layout.axes[axis].input;
      border.outputGradient[axis] = layout.axes[axis].outputGradient;
    }
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

void SolvedTables::State::add(const LayerTerms &terms,
                              const LayerSolution &solution, Entry &entry) {
  int layout = entry.table.layouts++;
  int number = 0;
  for (auto &[own, cost] : recomputationPointsWith(terms, solution.layout)) {
    LayerPoint point = cost.point;
    point.layout = layout;
    point.point = number++;
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
         near(a.savedBytes, b.savedBytes) &&
         near(a.denseElements, b.denseElements) &&
         near(a.expertElements, b.expertElements);
}

void SolvedTables::State::solve(const TableKey &key, Entry &entry) {
  if (!divides(key))
    return;
  ++solved;
  LayerQuery query;
  query.key = key;
  query.microBatches = kTypicalMicroBatches;
  query.restFree = false;
  query.filter = filter;
  if (key.kind != mainKind) {
    Border border = borderOf(key);
    query.input = border.input;
    query.outputGradient = border.outputGradient;
  }
  const LayerKind &kind = context.step->kinds[key.kind];
  std::vector<LayerPoint> seen;
  double perByte = 0;
  LayerTerms terms(context, query, kind, facts[key.kind]);
  for (double price : kPrices) {
    query.keptPrice = query.statePrice = price * perByte;
    LayerSolution solution = solveWith(terms);
    if (!solution.possible())
      return;
    const LayerPoint &point = solution.cost.point;
    if (price == 0) {
      if (key.kind == mainKind)
        noteBorder(key, solution.layout);
      double bytes =
          point.savedBytes + 16 * (point.denseElements + point.expertElements);
      perByte = (point.forward.computeSec() + point.backward.computeSec()) /
                std::max(bytes, 1.0);
    }
    bool known = llvm::any_of(
        seen, [&](const LayerPoint &other) { return sameCosts(other, point); });
    if (known)
      continue;
    seen.push_back(point);
    add(terms, solution, entry);
    bool single = true;
    for (const Group &group : key.groups)
      single &= group.size == 1;
    if (single)
      break;
  }
  std::vector<size_t> order(entry.table.points.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  auto seconds = [&](size_t i) {
    const LayerPoint &p = entry.table.points[i];
    double sum = 0;
    for (const TimeParts *parts : {&p.forward, &p.backward, &p.recompute})
      sum += parts->computeSec() + parts->allCommSec();
    return sum;
  };
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::make_pair(seconds(a), a) < std::make_pair(seconds(b), b);
  });
  Entry sorted;
  sorted.table.layouts = entry.table.layouts;
  for (size_t i : order) {
    sorted.table.points.push_back(entry.table.points[i]);
    sorted.layouts.push_back(entry.layouts[i]);
  }
  entry = std::move(sorted);
}

const LayerTable &SolvedTables::get(const TableKey &key) {
  return state->entryOf(key).table;
}

/// Ranks that share a layer and the part of the batch that they work on.
static double partOf(const TableKey &key, int64_t batch) {
  double local = double(key.microBatch * key.groups[2].size) / double(batch);
  for (const Group &group : key.groups)
    local /= double(group.size);
  return local;
}

/// One axis alone, without latencies and shapes: linear in the micro-batch, so
/// one sequence tells all.
double SolvedTables::State::ideal(int kind, int axis, Group group) {
  auto [it, isNew] = idealSec.try_emplace(
      std::make_tuple(kind, axis, group.size, group.stride), 0.0);
  if (!isNew)
    return it->second;
  LayerQuery query;
  query.key.kind = kind;
  query.key.groups[axis] = group;
  query.microBatches = int64_t(1) << 40;
  query.restFree = false;
  query.ideal = true;
  query.filter = filter;
  if (!divides(query.key))
    return 0;
  LayerTerms terms(context, query, context.step->kinds[kind], facts[kind]);
  LayerSolution solution = solveIdeal(terms, axis);
  return it->second =
             solution.possible() ? double(solution.picoseconds) * 1e-12 : 1e12;
}

double SolvedTables::lowerBoundSec(const TableKey &key) {
  double bound =
      state->floors[key.kind].seconds * partOf(key, state->context.step->batch);
  int64_t ranks = 1;
  for (const Group &group : key.groups)
    ranks *= group.size;
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    Group group = key.groups[axis];
    if (group.size == 1)
      continue;
    double others = double(ranks / group.size);
    // Expert ranks bring sequences of their own.
    if (axis != static_cast<int>(InnerAxis::Expert))
      others /= double(key.groups[static_cast<int>(InnerAxis::Expert)].size);
    bound = std::max(bound, state->ideal(key.kind, axis, group) *
                                double(key.microBatch) / others);
  }
  return bound;
}

double SolvedTables::lowerBoundSavedBytes(const TableKey &key) {
  return state->floors[key.kind].inputBytes *
         partOf(key, state->context.step->batch);
}

const LayerLayout &SolvedTables::layoutOf(const TableKey &key,
                                          const LayerPoint &point) {
  const Entry &entry = state->entryOf(key);
  for (size_t i = 0; i < entry.layouts.size(); ++i)
    if (entry.table.points[i].layout == point.layout &&
        entry.table.points[i].point == point.point)
      return entry.layouts[i];
  return entry.layouts.front();
}
