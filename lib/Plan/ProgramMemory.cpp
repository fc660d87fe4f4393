//===- ProgramMemory.cpp - the arena of each stage's program --------------===//
//
// Functions of a stage on one time line: the forward passes of its chunks, the
// backward passes (the head with them), put-off weight gradients, the update.
// One micro-batch stands for all: those beside it have their slots.
//
//===----------------------------------------------------------------------===//

#include "kerf/Plan/ProgramMemory.h"

#include "ProgramSketch.h"
#include "SearchDetail.h"

#include <algorithm>
#include <climits>
#include <cmath>

using namespace kerf;
using namespace kerf::program_sketch;

/// Buffers keep their places, so that an arena is larger than what lives at one
/// time: on training steps by up to 0.6 % of what comes and goes.
static constexpr double kPlacementLoss = 0.01;
/// Rate, number of the step, seed, loss, norm and the like.
static constexpr double kScalars = 1024;
/// Gradients of a layer that `kerf-bucket-gradients` sums alone.
static constexpr double kMessageBytes = 1 << 20;

namespace {
/// Equal layers that follow each other in a chunk: one loop.
struct Run {
  const SketchedLayer *layer = nullptr;
  int64_t count = 1;
  bool isLoop = true;
};

/// Layers of a chunk; embedding and head where it has them.
struct Chunk {
  const SketchedLayer *embedding = nullptr, *head = nullptr;
  std::vector<Run> runs;
  int64_t slots = 1;
};

/// What a stage's schedule says about memory.
struct Flight {
  std::vector<int64_t> slots; ///< micro-batches that are held at most; by chunk
  bool staysLong = false; ///< a micro-batch is before its backward pass when
                          ///< weight gradients of another are made
};

class StageSketch {
public:
  StageSketch(const OuterChoice &outer, std::vector<Chunk> chunks,
              bool staysLong, bool sumsEarly)
      : outer(outer), chunks(std::move(chunks)),
        sumsEarly(sumsEarly && outer.zero < 2), staysLong(staysLong) {
    rule.isSummed = outer.microBatches > 1;
    putsOff = outer.schedule == ScheduleKind::ZeroBubble;
    for (const Chunk &chunk : this->chunks)
      slotsStay |= chunk.slots > 1 || outer.chunks > 1;
  }

  StageMemory memory() {
    if (rule.isSummed)
      beginGradients();
    if (slotsStay) {
      double bytes[2] = {0, 0};
      for (const Chunk &chunk : chunks)
        for (bool isLate : {false, true})
          bytes[isLate] += double(chunk.slots) * slotBytes(chunk, isLate);
      for (bool isLate : {false, true})
        slots[isLate].push_back(line.begin(bytes[isLate], Held::Activations));
    }
    for (const Chunk &chunk : chunks)
      playForward(chunk);
    for (const Chunk &chunk : llvm::reverse(chunks))
      playBackward(chunk);
    if (!staysLong)
      endSlots(false);
    if (putsOff)
      for (const Chunk &chunk : chunks)
        playWeightGradients(chunk);
    if (staysLong)
      endSlots(false);
    endSlots(true);
    playUpdate();
    StageMemory memory = line.peak();
    memory.temporaries += std::ceil(kPlacementLoss * memory.total() + kScalars);
    addResting(memory);
    return memory;
  }

private:
  const OuterChoice &outer;
  std::vector<Chunk> chunks;
  bool sumsEarly; ///< over ranks, in the last backward pass
  GradientRule rule;
  bool putsOff = false, slotsStay = false;
  bool staysLong; ///< see `Flight`
  TimeLine line;
  std::vector<int> slots[2]; ///< pieces; the second: read late
  int headInput = -1;
  int carry = -1; ///< what a pass hands on outside of slots

  template <typename Fn> void forEachRun(Fn fn) const {
    for (const Chunk &chunk : chunks) {
      if (chunk.embedding)
        fn(Run{chunk.embedding, 1, false});
      for (const Run &run : chunk.runs)
        fn(run);
      if (chunk.head)
        fn(Run{chunk.head, 1, false});
    }
  }

  /// Gradients are cut as they come.
  bool isCut(const Run &run) const {
    return outer.zero >= 2 && (run.isLoop || rule.isSummed);
  }

  /// Over ranks, in the last backward pass.
  bool isSummedEarly(const SketchedLayer::Param &param) const {
    return sumsEarly && param.copies > 1 && param.param->trainable &&
           !param.isTied && !param.isAcross;
  }
  /// So, and each layer by itself.
  bool isSummedByLayer(const Run &run,
                       const SketchedLayer::Param &param) const {
    return run.isLoop && isSummedEarly(param) &&
           param.gradient * param.param->gradientBytes >= kMessageBytes;
  }

  double gradientBytes(const Run &run,
                       const SketchedLayer::Param &param) const {
    bool isPiece =
        (isCut(run) && param.ranks > 1 && !param.isAcross) ||
        (outer.zero == 1 && !rule.isSummed && isSummedByLayer(run, param));
    double elements = isPiece ? param.piece : param.gradient;
    return double(run.count) * elements * param.param->gradientBytes;
  }

  void beginGradients() {
    forEachRun([&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params)
        if (param.param->trainable && !param.isTied)
          line.begin(gradientBytes(run, param), Held::Gradients);
    });
  }

  //===--------------------------------------------------------------------===//
  // What is kept from forward to backward
  //===--------------------------------------------------------------------===//

  double stackBytes(const Run &run, bool isLate) const {
    double inputs = run.layer->keepsInput() && isLate
                        ? double(run.count + 1) * run.layer->boundaryBytes()
                        : 0;
    return double(run.count) * run.layer->keptBytes(isLate) + inputs;
  }

  /// Of one micro-batch; with `isLate` what put-off weight gradients read.
  double slotBytes(const Chunk &chunk, bool isLate) const {
    double bytes = chunk.embedding ? chunk.embedding->keptBytes(isLate) : 0;
    for (const Run &run : chunk.runs) {
      bytes += stackBytes(run, isLate);
      if (putsOff && isLate)
        bytes += double(run.count) * run.layer->putOffBytes();
    }
    return bytes + (chunk.head && !isLate ? chunk.head->boundaryBytes() : 0);
  }

  void beginSlot(double bytes, bool isLate) {
    if (!slotsStay)
      slots[isLate].push_back(line.begin(bytes, Held::Activations));
  }
  void endSlots(bool isLate) {
    for (int piece : slots[isLate])
      line.end(piece);
  }

  //===--------------------------------------------------------------------===//
  // Functions
  //===--------------------------------------------------------------------===//

  void setCarry(double bytes) {
    dropCarry();
    carry = line.begin(bytes, Held::Temporaries);
  }
  void dropCarry() {
    if (carry >= 0)
      line.end(carry);
    carry = -1;
  }

  void playForward(const Chunk &chunk) {
    SketchedLayer::Passes passes;
    passes.forward = true;
    if (chunk.embedding) {
      for (bool isLate : {false, true})
        beginSlot(slotBytes({chunk.embedding, nullptr, {}, 1}, isLate), isLate);
      passes.isLoop = false;
      line.play(chunk.embedding->lives(passes));
    } else {
      line.tick(); // Received where it is wanted.
    }
    passes.isLoop = true;
    for (const Run &run : chunk.runs) {
      for (bool isLate : {false, true})
        beginSlot(stackBytes(run, isLate), isLate);
      if (!run.layer->keepsInput())
        setCarry(run.layer->boundaryBytes());
      line.play(run.layer->lives(passes));
    }
    if (chunk.head && !slotsStay)
      headInput = line.begin(chunk.head->boundaryBytes(), Held::Activations);
    line.tick(); // Sent, or copied for the head.
    dropCarry();
  }

  SketchedLayer::Passes backwardOf(const Run &run) const {
    SketchedLayer::Passes passes;
    passes.inputGradients = true;
    passes.weightGradients = !putsOff || !run.isLoop;
    passes.isLoop = run.isLoop;
    passes.gradients = rule;
    passes.gradients.isCut = isCut(run);
    return passes;
  }

  void playBackward(const Chunk &chunk) {
    if (chunk.head) {
      SketchedLayer::Passes passes = backwardOf({chunk.head, 1, false});
      passes.forward = true;
      passes.keeps = false;
      line.play(chunk.head->lives(passes));
      playSums({chunk.head, 1, false});
      if (headInput >= 0)
        line.end(headInput);
    }
    if (!chunk.runs.empty())
      setCarry(chunk.runs.back().layer->gradientBoundaryBytes());
    line.tick(); // Received, where there is no head.
    for (const Run &run : llvm::reverse(chunk.runs)) {
      if (putsOff)
        beginSlot(double(run.count) * run.layer->putOffBytes(), true);
      playLoop(run, backwardOf(run));
    }
    if (chunk.embedding) {
      line.play(
          chunk.embedding->lives(backwardOf({chunk.embedding, 1, false})));
      playSums({chunk.embedding, 1, false});
    }
    line.tick(); // Sent.
    line.endLasting(Lasts::Call);
    dropCarry();
  }

  /// A backward loop with the stacks of gradients that it makes.
  void playLoop(const Run &run, const SketchedLayer::Passes &passes) {
    std::vector<int> stacks;
    for (const SketchedLayer::Param &param : run.layer->params) {
      bool isStacked =
          !rule.isSummed || !param.isProduct || (isCut(run) && param.ranks > 1);
      if (!passes.weightGradients || !param.param->trainable || !isStacked)
        continue;
      int stack = line.begin(gradientBytes(run, param), Held::Gradients);
      if (rule.isSummed)
        stacks.push_back(stack);
    }
    if (passes.weightGradients)
      llvm::append_range(stacks, beginSums(run));
    line.play(run.layer->lives(passes));
    line.tick(); // Added to the sums.
    for (int stack : stacks)
      line.end(stack);
  }

  /// What sums over ranks in the last backward pass need besides the gradients.
  /// Of layers one by one: pieces beside the whole, and, until the sums are
  /// made, parts that are added up and sent (alone an all-reduce runs in the
  /// place of the gradient). Of others the largest piece: the next takes the
  /// place of what was summed. Gives what goes when the sums are made.
  std::vector<int> beginSums(const Run &run) {
    double most = 0;
    for (const SketchedLayer::Param &param : run.layer->params) {
      if (!isSummedEarly(param))
        continue;
      bool isCut = outer.zero == 1;
      double count = double(run.count), bytes = param.param->gradientBytes;
      double piece = isCut ? param.piece : 0, padded = piece * param.ranks;
      double part = bytes * std::max(param.gradient, padded);
      if (!isSummedByLayer(run, param)) {
        bool pads = padded > param.gradient;
        most = std::max(most, count * (bytes * piece + (pads ? part : 0)));
        continue;
      }
      if (rule.isSummed)
        line.begin(count * bytes * piece, Held::Gradients);
      // The last part, its sum, and one that is under way.
      most = std::max(most, part * (rule.isSummed ? 3 : isCut ? 2 : 0));
    }
    if (most == 0)
      return {};
    return {line.begin(most, Held::Gradients)};
  }

  void playSums(const Run &run) {
    std::vector<int> parts = beginSums(run);
    line.tick();
    for (int part : parts)
      line.end(part);
  }

  void playWeightGradients(const Chunk &chunk) {
    for (const Run &run : chunk.runs) {
      SketchedLayer::Passes passes = backwardOf(run);
      passes.inputGradients = false;
      passes.weightGradients = true;
      playLoop(run, passes);
    }
  }

  /// Gradients are summed over their copies one by one, each into a place of
  /// its own, which takes over; updated pieces are put together.
  void playUpdate() {
    double most = 0;
    forEachRun([&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params) {
        double bytes = double(run.count) * param.param->gradientBytes *
                       (outer.zero >= 1 ? param.piece : param.elements);
        if (param.copies > 1 && param.param->trainable && !param.isTied)
          most = std::max(most, bytes);
      }
    });
    int piece = line.begin(most, Held::Communication);
    line.tick();
    line.end(piece);
  }

  //===--------------------------------------------------------------------===//
  // What always lives
  //===--------------------------------------------------------------------===//

  void addResting(StageMemory &memory) const {
    forEachRun([&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params) {
        if (param.isTied)
          continue;
        auto count = double(run.count);
        double weight = outer.zero >= 3   ? param.piece
                        : outer.zero >= 1 ? param.piece * param.ranks
                                          : param.elements;
        double state = outer.zero >= 1 ? param.piece : param.elements;
        const LayerParam &facts = *param.param;
        memory.weights += roundedBytes(count * weight * facts.weightBytes);
        if (!facts.trainable)
          continue;
        memory.masters += roundedBytes(count * state * facts.masterBytes);
        memory.optimizer += roundedBytes(count * state * facts.stateBytes);
      }
    });
    for (const Chunk &chunk : chunks)
      for (const SketchedLayer *layer : {chunk.embedding, chunk.head})
        if (layer)
          memory.temporaries += layer->inputBytes();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// All stages
//===----------------------------------------------------------------------===//

static Flight flightOf(const OuterChoice &outer, int64_t stage) {
  Flight flight;
  std::vector<int64_t> held(outer.chunks, 0);
  flight.slots = held;
  bool putsOff = outer.schedule == ScheduleKind::ZeroBubble;
  int64_t open = 0;
  for (const Task &task : stageOrder(outer.schedule, outer.pp, stage,
                                     outer.microBatches, outer.chunks)) {
    int64_t &own = held[task.chunk], &most = flight.slots[task.chunk];
    if (task.kind == EventKind::Forward)
      most = std::max(most, ++own);
    else if (!putsOff || task.kind == EventKind::WeightGradient)
      --own;
    open += task.kind == EventKind::Forward    ? 1
            : task.kind == EventKind::Backward ? -1
                                               : 0;
    flight.staysLong |= task.kind == EventKind::WeightGradient && open > 0;
  }
  return flight;
}

/// A kind, the layout and the recomputation point of its layers: those that
/// have these in common are sketched once.
using LayerKey = std::tuple<int, int, int>;
/// The keys of a plan's layers, and the tables that they are of: plans for
/// which these are equal have the same layers.
using LayerKeys = std::map<LayerKey, TableKey>;
/// What layers have of an outer choice: data ranks, stages, micro-batches, ZeRO
/// and the ranks that share state.
using OuterKey = std::array<int64_t, 5>;

struct ProgramMemory::State {
  LayerContext context;
  int64_t workers = 1;
  bool sumsEarly = false;
  std::vector<LayerFacts> facts; ///< by kind
  int embedding = -1, head = -1; ///< kinds
  std::map<TableKey, double> least;

  using Layers = std::map<LayerKey, std::unique_ptr<SketchedLayer>>;
  std::map<std::pair<OuterKey, LayerKeys>, Layers> known;
  /// By schedule, stages, micro-batches and chunks; of each stage.
  std::map<std::array<int64_t, 4>, std::vector<Flight>> flights;

  const std::vector<Flight> &flightsOf(const OuterChoice &outer);
  const Layers *layersOf(const PlanPoint &plan, LayoutOfPoint layoutOf);
  Layers sketch(const OuterChoice &outer,
                const std::map<LayerKey, LayerPoint> &points,
                LayoutOfPoint layoutOf) const;
  Chunk chunkOf(const Layers &layers, const PlacedChunk &placed,
                int64_t slots) const;
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
  auto [at, isNew] =
      flights.try_emplace({static_cast<int64_t>(outer.schedule), outer.pp,
                           outer.microBatches, outer.chunks});
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
  OuterKey key = {outer.dp, outer.pp, outer.microBatches, outer.zero,
                  outer.shardGroup};
  auto [at, isNew] = known.try_emplace({key, keys});
  if (isNew)
    at->second = sketch(outer, points, layoutOf);
  return at->second.empty() ? nullptr : &at->second;
}

Chunk ProgramMemory::State::chunkOf(const Layers &layers,
                                    const PlacedChunk &placed,
                                    int64_t slots) const {
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
  const std::vector<LayerRun> &runs = context.step->runs;
  if (runs.size() > 1 && runs.front().repeat < 0)
    state->embedding = runs.front().kind;
  if (runs.size() > 1 && runs.back().repeat < 0)
    state->head = runs.back().kind;
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
    all.push_back(StageSketch(plan.outer, std::move(chunks), flight.staysLong,
                              state->sumsEarly)
                      .memory());
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
    at->second = leastWorkspace(terms, state->workers);
  }
  return at->second;
}
