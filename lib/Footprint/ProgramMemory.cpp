//===- ProgramMemory.cpp - the arena of each stage's program --------------===//
//
// Which layers each stage has, as they are sharded, and how many micro-batches
// it holds; what its functions do to memory is in ProgramStage.cpp.
//
//===----------------------------------------------------------------------===//

#include "kerf/Footprint/ProgramMemory.h"

#include "ProgramStage.h"
#include "kerf/Search/Pricing.h"

#include <algorithm>
#include <climits>

using namespace kerf;
using namespace kerf::program_sketch;

//===----------------------------------------------------------------------===//
// All stages
//===----------------------------------------------------------------------===//

namespace {
/// What a stage's schedule says about memory.
struct Flight {
  std::vector<ByKept<int64_t>> slots; ///< micro-batches held at most; by chunk
  bool staysLong = false;             ///< see `StagePlan`
  bool isStaggered = false;           ///< see `StagePlan`
};
} // namespace

/// Where something that is kept begins and ends.
static std::pair<EventKind, EventKind> spanOf(Kept kept, bool putsOff) {
  EventKind last = putsOff ? EventKind::WeightGradient : EventKind::Backward;
  return {kept == Kept::Handed ? EventKind::Backward : EventKind::Forward,
          kept == Kept::Early ? EventKind::Backward : last};
}

static Flight flightOf(const OuterChoice &outer, int64_t stage) {
  Flight flight;
  flight.slots.resize(outer.chunks);
  std::vector<ByKept<int64_t>> held = flight.slots;
  std::vector<int64_t> left(outer.chunks, outer.microBatches);
  bool putsOff = splitsWeightGradient(outer.schedule);
  int64_t open = 0;
  for (const Task &task : stageOrder(outer.pipelining(), stage)) {
    for (Kept kept : kAllKept) {
      auto [first, last] = spanOf(kept, putsOff);
      int64_t &own = held[task.chunk][kept];
      int64_t &most = flight.slots[task.chunk][kept];
      if (task.kind == first)
        most = std::max(most, ++own);
      if (task.kind == last)
        --own;
    }
    open += task.kind == EventKind::Forward    ? 1
            : task.kind == EventKind::Backward ? -1
                                               : 0;
    flight.staysLong |= task.kind == EventKind::WeightGradient && open > 0;
    if (task.kind == EventKind::Backward)
      flight.isStaggered |= --left[task.chunk] > 0 && left.back() == 0;
  }
  return flight;
}

/// A kind, the layout and the recomputation point of its layers: those that
/// have these in common are sketched once.
using LayerKey = std::tuple<int, int, int>;
/// The keys of a plan's layers, and the tables that they are of: plans for
/// which these are equal have the same layers.
using LayerKeys = std::map<LayerKey, TableKey>;
/// What layers have of an outer choice: data ranks, stages, micro-batches,
/// ZeRO, the ranks that share state and the schedule.
using OuterKey = std::array<int64_t, 6>;

struct ProgramMemory::State {
  LayerContext context;
  int64_t workers = 1;
  bool sumsEarly = false;
  std::vector<LayerFacts> facts; ///< by kind
  int embedding = -1, head = -1; ///< kinds
  std::map<TableKey, double> least;
  WorkspaceMemo options; ///< for `least`

  using Layers = std::map<LayerKey, std::unique_ptr<SketchedLayer>>;
  std::map<std::pair<OuterKey, LayerKeys>, Layers> known;
  std::map<Pipelining, std::vector<Flight>> flights; ///< of each stage

  const std::vector<Flight> &flightsOf(const OuterChoice &outer);
  const Layers *layersOf(const PlanPoint &plan, LayoutOfPoint layoutOf);
  Layers sketch(const OuterChoice &outer,
                const std::map<LayerKey, LayerPoint> &points,
                LayoutOfPoint layoutOf) const;
  Chunk chunkOf(const Layers &layers, const PlacedChunk &placed,
                const ByKept<int64_t> &slots) const;
};

static LayerKey layerKeyOf(const PlacedLayers &layers) {
  return {layers.kind, layers.point.layout, layers.point.point};
}

/// All points that a plan has. Layers of one kind may differ in what they make
/// again: those that differ have loops of their own.
static std::map<LayerKey, LayerPoint> pointsOf(const PlanPoint &plan) {
  std::map<LayerKey, LayerPoint> points;
  for (const PlacedStage &stage : plan.stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        points.try_emplace(layerKeyOf(layers), layers.point);
  return points;
}

ProgramMemory::State::Layers
ProgramMemory::State::sketch(const OuterChoice &outer,
                             const std::map<LayerKey, LayerPoint> &points,
                             LayoutOfPoint layoutOf) const {
  Layers layers;
  for (auto &[key, point] : points) {
    int kind = std::get<0>(key);
    const LayerLayout *layout = layoutOf(kind, point);
    if (!layout)
      return {};
    layers[key] = std::make_unique<SketchedLayer>(
        context, outer, kind, facts[kind], *layout, workers);
  }
  // Points of a kind do not differ in what they hand on.
  auto find = [&](int kind) {
    auto at = layers.lower_bound({kind, INT_MIN, INT_MIN});
    bool isFound = at != layers.end() && std::get<0>(at->first) == kind;
    return isFound ? at->second.get() : nullptr;
  };
  const std::vector<LayerRun> &runs = context.step->runs;
  auto isEnd = [&](int kind) { return kind == embedding || kind == head; };
  for (auto &[key, layer] : layers)
    if (!isEnd(std::get<0>(key)))
      layer->setBoundary(find(embedding), find(head));
  for (auto &[key, layer] : layers) {
    int kind = std::get<0>(key);
    if (!isEnd(kind))
      continue;
    int beside = runs[kind == embedding ? 1 : runs.size() - 2].kind;
    if (isEnd(beside))
      layer->setBoundary(find(embedding), find(head));
    else
      layer->setBoundary(*find(beside));
  }
  if (find(embedding) && find(head))
    find(head)->tie(*find(embedding));
  return layers;
}

const std::vector<Flight> &
ProgramMemory::State::flightsOf(const OuterChoice &outer) {
  auto [at, isNew] = flights.try_emplace(outer.pipelining());
  if (isNew)
    for (int64_t stage = 0; stage < outer.pp; ++stage)
      at->second.push_back(flightOf(outer, stage));
  return at->second;
}

/// The layers of a plan; null where a layout is not known.
const ProgramMemory::State::Layers *
ProgramMemory::State::layersOf(const PlanPoint &plan, LayoutOfPoint layoutOf) {
  // A few hundred kilobytes each.
  constexpr size_t kMost = 1000;
  if (known.size() > kMost)
    known.clear();
  const OuterChoice &outer = plan.outer;
  std::map<LayerKey, LayerPoint> points = pointsOf(plan);
  LayerKeys keys;
  for (auto &[key, point] : points)
    keys[key] = keyOf(outer, std::get<0>(key));
  OuterKey key = {outer.dp,   outer.pp,         outer.microBatches,
                  outer.zero, outer.shardGroup, int64_t(outer.schedule)};
  auto [at, isNew] = known.try_emplace({key, keys});
  if (isNew)
    at->second = sketch(outer, points, layoutOf);
  return at->second.empty() ? nullptr : &at->second;
}

Chunk ProgramMemory::State::chunkOf(const Layers &layers,
                                    const PlacedChunk &placed,
                                    const ByKept<int64_t> &slots) const {
  Chunk chunk;
  chunk.slots = slots;
  for (const PlacedLayers &own : placed.layers) {
    const SketchedLayer *layer = layers.at(layerKeyOf(own)).get();
    if (own.kind == embedding)
      chunk.embedding = layer;
    else if (own.kind == head)
      chunk.head = layer;
    else if (!chunk.runs.empty() && chunk.runs.back().layer == layer)
      chunk.runs.back().count += own.count;
    else if (own.count > 0)
      chunk.runs.push_back({layer, own.count, true});
  }
  return chunk;
}

ProgramMemory::ProgramMemory(LayerContext context, int64_t workers,
                             bool sumsEarly)
    : state(std::make_unique<State>()) {
  state->context = context;
  state->workers = workers;
  state->sumsEarly = sumsEarly;
  for (const LayerKind &kind : context.step->kinds)
    state->facts.emplace_back(kind);
  state->embedding = context.step->embedding();
  state->head = context.step->head();
}

ProgramMemory::~ProgramMemory() = default;

std::vector<StageMemory> ProgramMemory::of(const PlanPoint &plan,
                                           LayoutOfPoint layoutOf) {
  std::vector<StageMemory> all;
  const State::Layers *layers = state->layersOf(plan, layoutOf);
  if (!layers)
    return all;
  for (auto [stage, flight] :
       llvm::zip(plan.stages, state->flightsOf(plan.outer))) {
    std::vector<Chunk> chunks;
    for (auto [placed, count] : llvm::zip(stage.chunks, flight.slots))
      chunks.push_back(state->chunkOf(*layers, placed, count));
    all.push_back(memoryOf({plan.outer, std::move(chunks), flight.staysLong,
                            flight.isStaggered, state->sumsEarly}));
  }
  return all;
}

double ProgramMemory::leastOf(const TableKey &key) {
  auto [at, isNew] = state->least.try_emplace(key, 0);
  if (isNew) {
    LayerQuery query;
    query.key = key;
    LayerTerms terms(state->context, query,
                     state->context.step->kinds[key.kind],
                     state->facts[key.kind]);
    at->second = leastWorkspace(terms, state->workers, state->options);
  }
  return at->second;
}
