//===- SearchBounds.cpp - what no plan of a shape can go below ------------===//
//
// Problem: there are a million nodes and a few hundred tables may be solved.
// Which nodes need not be looked at?
//
// Idea: the closed form with every open decision at its best case is a lower
// bound: layers at the tables' own bound, groups where their links carry most
// (innermost; on a torus perhaps further out, along several dimensions), the
// schedule with the least bubble, gradients scattered only, state sharded as
// far as pins allow. Memory: stage i of a 1F1B pipeline holds min(m, p - i)
// micro-batches, so it takes at most (capacity / (held x saved + state))
// layers; if all stages together take fewer than there are, nothing fits. Nor
// where some layer's programs need more by themselves.
//
// Cost: tens of nanoseconds per shape, and one look-up.
//
//===----------------------------------------------------------------------===//

#include "SearchBounds.h"

#include "kerf/Search/Pins.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search_detail;

/// No message between two ranks is faster, whichever tiers it crosses.
static AlphaBeta leastMessage(const Machine &machine, const Profile &profile) {
  AlphaBeta least = {HUGE_VAL, HUGE_VAL};
  for (size_t tier = 0; tier < machine.tiers.size(); ++tier) {
    if (machine.tiers[tier].size == 1)
      continue;
    AlphaBeta own = messageCost(machine, profile, tier);
    least.alpha = std::min(least.alpha, own.alpha);
    least.beta = std::min(least.beta, own.beta);
  }
  return least.alpha < HUGE_VAL ? least : AlphaBeta();
}

ShapeBounds::ShapeBounds(const SearchProblem &problem, GroupMemo &memo)
    : problem(problem), memo(memo) {
  TableList tables = tablesOf(problem, OuterChoice());
  for (const LayerTable *table : tables) {
    alone.emplace_back();
    if (table && !table->points.empty())
      alone.back() = table->points.front();
  }
  for (auto [kind, count] : problem.runs) {
    if (!alone[kind])
      continue;
    weightSec += static_cast<double>(count) * alone[kind]->weightGradientSec;
    TableKey key;
    key.kind = kind;
    otherSec += static_cast<double>(count) *
                std::max(0.0, problem.tables->lowerBoundSec(key) -
                                  alone[kind]->weightGradientSec);
    if (isLayer(problem, kind))
      boundaryBytes = std::min({boundaryBytes, alone[kind]->boundaryBytes,
                                alone[kind]->messageBytes()});
  }
  if (boundaryBytes == HUGE_VAL)
    boundaryBytes = 0;
  message = leastMessage(*problem.machine, problem.profile);
}

KindSize ShapeBounds::sizeOf(int kind) const {
  KindSize size;
  bool isKnown = static_cast<size_t>(kind) < problem.sizes.size();
  if (isKnown)
    size = problem.sizes[kind];
  else if (const std::optional<LayerPoint> &point = alone[kind]) {
    size.weightBytes = point->weightBytes;
    size.masterBytes = point->masterBytes;
    size.gradientBytes = point->gradientBytes;
    size.stateBytes = point->stateBytes;
    size.trainedShare = point->trainedShare;
    size.trainedWeightBytes = point->trainedWeightBytes;
    size.denseTrained = point->denseTrained;
    size.expertTrained = point->expertTrained;
  }
  // As in the price of a layer.
  if (problem.profile.gradientBytes != Profile().gradientBytes)
    size.gradientBytes = problem.profile.gradientBytes * size.trainedShare;
  return size;
}

/// Seconds per byte of the kinds of collectives, in large messages.
static std::array<double, 4> betasOf(const SearchProblem &problem,
                                     Group group) {
  GroupCosts costs = groupCosts(*problem.machine, problem.profile, group, 1e12);
  return {costs.allReduce.beta, costs.reduceScatter.beta, costs.allGather.beta,
          costs.allToAll.beta};
}

llvm::ArrayRef<Group> ShapeBounds::fastestGroups(int64_t size) {
  auto [it, isNew] = fastest.try_emplace(size);
  if (!isNew)
    return it->second;
  // In a switch no other stride has more members in a unit.
  it->second = {{size, 1}};
  bool hasTorus = llvm::any_of(problem.machine->tiers, [](const Tier &tier) {
    return tier.kind == TierKind::Torus;
  });
  if (size == 1 || !hasTorus)
    return it->second;
  std::vector<std::pair<std::array<double, 4>, Group>> known = {
      {betasOf(problem, {size, 1}), {size, 1}}};
  auto noSlower = [](const auto &a, const auto &b) {
    return llvm::all_of(llvm::zip_equal(a, b), [](auto pair) {
      return std::get<0>(pair) <= std::get<1>(pair) * (1 + 1e-12);
    });
  };
  int64_t most = problem.machine->describedDevices() / size;
  for (int64_t stride = 2; stride <= most; ++stride) {
    std::array<double, 4> own = betasOf(problem, {size, stride});
    if (llvm::any_of(known,
                     [&](auto &other) { return noSlower(other.first, own); }))
      continue;
    llvm::erase_if(known,
                   [&](auto &other) { return noSlower(own, other.first); });
    known.push_back({own, {size, stride}});
  }
  it->second.clear();
  for (auto &[betas, group] : known)
    it->second.push_back(group);
  return it->second;
}

/// The least that a layer takes under the groups of a shape.
double ShapeBounds::layerSecOf(TableKey key, const Shape &shape) {
  double least = HUGE_VAL;
  for (Group tensor : fastestGroups(shape.tp))
    for (Group context : fastestGroups(shape.cp))
      for (Group experts : fastestGroups(shape.ep)) {
        key.groups = {tensor, context, experts};
        least = std::min(least, problem.tables->lowerBoundSec(key));
      }
  return least;
}

const ShapeBounds::Layers &ShapeBounds::layersOfShape(const Shape &shape) {
  uint64_t key = (uint64_t(shape.tp) << 48) ^ (uint64_t(shape.cp) << 36) ^
                 (uint64_t(shape.ep) << 20) ^ uint64_t(shape.microBatch);
  auto [it, isNew] = known.try_emplace(key);
  Layers &layers = it->second;
  if (!isNew)
    return layers;
  layers.savedBytes = layers.layerSec = HUGE_VAL;
  for (auto [kind, count] : problem.runs) {
    TableKey table;
    table.kind = kind;
    table.microBatch = shape.microBatch;
    table.groups = {Group{shape.tp, 1}, Group{shape.cp, 1}, Group{shape.ep, 1}};
    double sec = layerSecOf(table, shape);
    layers.sec += static_cast<double>(count) * sec;
    if (problem.measureLeast)
      layers.programBytes =
          std::max(layers.programBytes, problem.measureLeast(table));
    if (!isLayer(problem, kind))
      continue;
    layers.layerSec = std::min(layers.layerSec, sec);
    layers.savedBytes = std::min(layers.savedBytes,
                                 problem.tables->lowerBoundSavedBytes(table));
  }
  return layers;
}

bool ShapeBounds::wants(ScheduleKind kind) const {
  const std::vector<ScheduleKind> &pinned = problem.pins.schedules;
  return pinned.empty() || llvm::is_contained(pinned, kind);
}

/// The best case of the schedules that are allowed: layers take `slowestSec` on
/// the slowest stage and `sumSec` on all, messages go over the fastest links,
/// and `tailSec` comes after the last backward.
double ShapeBounds::scheduleSec(const Shape &shape, double slowestSec,
                                double sumSec, double tailSec) const {
  PipelineFacts facts;
  facts.stages = shape.pp;
  facts.microBatches = shape.microBatches;
  facts.bubble = problem.profile.bubble;
  facts.mostForward = 0.5; // or the backward is
  double part = static_cast<double>(shape.microBatch) /
                static_cast<double>(shape.tp * shape.cp);
  facts.setSends(std::vector<double>(static_cast<size_t>(shape.pp),
                                     message(boundaryBytes * part)));
  double best = HUGE_VAL;
  auto with = [&](ScheduleKind schedule, double deferredSec) {
    if (shape.pp > 1 && !wants(schedule))
      return;
    facts.schedule = schedule;
    facts.deferredSec = deferredSec;
    best = std::min(best, pipelineBoundSec(facts, slowestSec, sumSec, tailSec,
                                           BoundOver::Slower));
  };
  with(ScheduleKind::OneFOneB, 0);
  if (shape.pp == 1)
    return best;
  with(ScheduleKind::GPipe, 0);
  if (shape.microBatches % shape.pp == 0)
    with(ScheduleKind::Interleaved, 0);
  facts.mostForward = 1;
  with(ScheduleKind::ZeroBubble, std::max(0.0, sumSec - otherSec * part));
  return best;
}

/// Gradients must at least be scattered, and the update done once by someone.
double ShapeBounds::trafficSec(const Shape &shape) {
  int64_t ranks = shape.dp * shape.cp;
  double gradientBytes = 0, elements = 0;
  for (auto [kind, count] : problem.runs) {
    if (static_cast<size_t>(kind) >= problem.sizes.size())
      continue;
    const KindSize &size = problem.sizes[kind];
    elements += static_cast<double>(count) * size.denseElements;
    gradientBytes +=
        static_cast<double>(count) * size.denseElements * size.gradientBytes;
  }
  if (elements <= 0 || ranks == 1)
    return 0;
  double shards = static_cast<double>(shape.tp * shape.pp);
  double bytes = gradientBytes / shards;
  double beta = HUGE_VAL;
  for (Group group : fastestGroups(ranks))
    beta = std::min(beta, memo.of(group, bytes).reduceScatter.beta);
  return (1 - problem.profile.gradientOverlap) * bytes * beta;
}

LowerBound ShapeBounds::pipelineBound(const Shape &shape, double sumSec,
                                      double layerSec, double tailSec) const {
  // Some stage has the mean, and some at least so many whole layers.
  int64_t most = (layersOf(problem) + shape.pp - 1) / shape.pp;
  double slowest = std::max(sumSec / static_cast<double>(shape.pp),
                            static_cast<double>(most) * layerSec);
  // The first stage, which ends the step, may have next to no layers.
  double tail = shape.pp == 1 ? tailSec : 0;
  LowerBound bound;
  bound.sec =
      scheduleSec(shape, slowest, sumSec, tail) + problem.profile.stepSec;
  bound.layerSec = static_cast<double>(shape.microBatches) * slowest;
  bound.dataSec = tail;
  bound.traffic = shape.tp * shape.cp * shape.ep > 1;
  return bound;
}

LowerBound ShapeBounds::boundOf(const Shape &shape) {
  const Layers &layers = layersOfShape(shape);
  return pipelineBound(shape, layers.sec, layers.layerSec, trafficSec(shape));
}

double ShapeBounds::secondsOf(const Shape &shape,
                              const std::vector<MeshAxis> &order) {
  OuterChoice outer = shape.outer();
  outer.order = order;
  double sum = 0, layerSec = HUGE_VAL;
  for (auto [kind, count] : problem.runs) {
    double sec = problem.tables->lowerBoundSec(keyOf(outer, kind));
    sum += static_cast<double>(count) * sec;
    if (isLayer(problem, kind))
      layerSec = std::min(layerSec, sec);
  }
  return pipelineBound(shape, sum, layerSec, trafficSec(shape)).sec;
}

/// Bytes of a layer's state, sharded as far as the pins allow.
double ShapeBounds::stateOf(const Shape &shape, int kind) const {
  const KindSize size = sizeOf(kind);
  const Pins &pins = problem.pins;
  auto mayShardFrom = [&](int level) {
    for (int zero = level; zero <= 3; ++zero)
      if (allows(pins, "zero", pins.zero, zero))
        return true;
    return false;
  };
  auto ranks = static_cast<double>(shape.dp * shape.cp);
  // Programs need not have gradients of one micro-batch all at once, nor those
  // of chunks that end one by one (`OuterChoice::endsByChunk`).
  bool mayEnd = shape.microBatches == 1 || (shape.microBatches <= shape.pp &&
                                            wants(ScheduleKind::Interleaved));
  double gradient = problem.measureLayers && mayEnd ? 0 : size.gradientBytes;
  auto bytesOf = [&](double elements, double shards) {
    double fraction = 1 / shards;
    return elements * (size.weightBytes * (mayShardFrom(3) ? fraction : 1) +
                       gradient * (mayShardFrom(2) ? fraction : 1) +
                       (size.masterBytes + size.stateBytes) *
                           (mayShardFrom(1) ? fraction : 1));
  };
  auto tp = static_cast<double>(shape.tp), ep = static_cast<double>(shape.ep);
  return bytesOf(size.denseElements / tp, ranks) +
         bytesOf(size.expertElements / (tp * ep), ranks / ep);
}

bool ShapeBounds::mayFit(const Shape &shape) {
  const Layers &least = layersOfShape(shape);
  double room = capacityBytes(problem) - reservedOf(problem, shape.outer());
  if (least.programBytes > room * (1 + 1e-12))
    return false;
  double state = HUGE_VAL;
  for (auto [kind, count] : problem.runs)
    if (isLayer(problem, kind))
      state = std::min(state, stateOf(shape, kind));
  int64_t taken = 0, layers = layersOf(problem);
  for (int64_t stage = shape.pp - 1; stage >= 0 && taken < layers; --stage) {
    double own = room;
    if (stage == 0 && problem.hasEmbedding)
      own -= stateOf(shape, embeddingOf(problem));
    if (stage + 1 == shape.pp && problem.hasHead && shape.pp > 1)
      own -= stateOf(shape, headOf(problem));
    auto held =
        static_cast<double>(std::min(shape.microBatches, shape.pp - stage));
    double each = held * least.savedBytes + state;
    double count = each > 0 ? std::floor(own / each * (1 + 1e-12)) : layers;
    if (count < 1)
      return false;
    taken += static_cast<int64_t>(std::min<double>(count, layers));
  }
  return taken >= layers;
}

double ShapeBounds::layerBytesOf(const Shape &shape) {
  const Layers &least = layersOfShape(shape);
  double state = 0;
  for (auto [kind, count] : problem.runs)
    state += static_cast<double>(count) * stateOf(shape, kind);
  auto layers = static_cast<double>(layersOf(problem));
  return (state + layers * least.savedBytes) / static_cast<double>(shape.pp) +
         reservedOf(problem, shape.outer());
}

double ShapeBounds::bytesOf(const Shape &shape) {
  return std::max(layerBytesOf(shape), layersOfShape(shape).programBytes +
                                           reservedOf(problem, shape.outer()));
}
