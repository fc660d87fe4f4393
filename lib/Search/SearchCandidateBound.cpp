//===- SearchCandidateBound.cpp - what a candidate plan takes at least ----===//
//
// Problem: the layers of a candidate plan have their points, but lie on no
// stage yet. What does its step take at least on the timeline?
//
// Idea: `pipelineBoundSec`, with the least that comes after the last backward
// of the first stage. That stage has the embedding, and more layers the nearer
// the slowest stage is to the mean: the p - 1 others take p - 1 times the
// slowest at most. The same number of layers bounds the first chunks of
// interleaved stages.
//
// Cost: a microsecond per candidate plan, tens of nanoseconds per question.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search_detail;

//===----------------------------------------------------------------------===//
// Asked
//===----------------------------------------------------------------------===//

/// Layers that every stage has at least, the embedding and the head aside.
int64_t StepBound::fewestLayers(double slowestSec, double sumSec) const {
  if (facts.stages == 1)
    return layers;
  double least = sumSec - double(facts.stages - 1) * slowestSec - slowFirstSec;
  double count = std::ceil(least / slowLayerSec * (1 - 1e-9) - 1e-9);
  auto most = double(layers / facts.stages);
  return std::max(facts.chunks, int64_t(std::min(count, most)));
}

/// Sets what first chunks take. With equal layers, dealt evenly, a stage of n
/// layers has n / v in its first chunk; if no stage has more than `most`, those
/// that lack one are no more than all lack together. False where that says
/// less.
bool StepBound::setFirstChunk(PipelineFacts &known, int64_t fewest,
                              double slowestSec) const {
  int64_t first = isUniform ? fewest / facts.chunks : 1;
  known.firstChunkSec = double(first) * workSec;
  known.firstLackSec = 0;
  double most = std::floor(slowestSec / fastLayerSec * (1 + 1e-9));
  if (!isUniform || !(most < double(layers)))
    return false;
  double lack = most * double(facts.stages) - double(layers);
  double full = std::floor(most / double(facts.chunks));
  if (lack >= (full - double(first)) * double(facts.stages))
    return false;
  known.firstChunkSec = full * workSec;
  known.firstLackSec = std::max(0.0, lack) * workSec;
  return true;
}

double StepBound::tailSec(int64_t fewest, double slowestSec,
                          bool orSlower) const {
  auto exposed = [](double sec, double overlap, double beside) {
    return sec - std::min(overlap * sec, beside);
  };
  // Beside a chunk, which may be as long as the slowest stage.
  double last = HUGE_VAL, first = HUGE_VAL;
  if (!orSlower) {
    double most = std::floor(slowestSec / fastLayerSec * (1 + 1e-9));
    most = std::min(most, double(layers));
    if (isUniform)
      most = std::floor(most / double(facts.chunks));
    last = lastFirstSec + most * lastLayerSec;
    first = firstFirstSec + most * firstLayerSec;
  }
  const StepPrice &price = tails[std::min<size_t>(fewest, tails.size() - 1)];
  return exposed(price.gradientSyncSec, gradientOverlap, last) +
         exposed(price.weightGatherSec, updatedOverlap, first) +
         price.updateSec;
}

double StepBound::at(double slowestSec, double sumSec, bool orSlower) const {
  PipelineFacts known = facts;
  // With slower stages others may have all layers but one a chunk.
  bool isOpen = orSlower && facts.stages > 1;
  int64_t fewest = isOpen ? facts.chunks : fewestLayers(slowestSec, sumSec);
  int64_t first = isUniform ? fewest / facts.chunks : 1;
  known.firstChunkSec = double(first) * workSec;
  double tail = tailSec(fewest, slowestSec, isOpen);
  return constantSec +
         pipelineBoundSec(known, slowestSec, sumSec, tail,
                          isOpen ? BoundOver::Slower : BoundOver::These);
}

void StepBound::most(double stepSec, double sumSec,
                     llvm::MutableArrayRef<double> most) const {
  PipelineFacts known = facts;
  double room = stepSec - constantSec;
  auto fill = [&](int64_t fewest, double tail) {
    setFirstChunk(known, fewest, HUGE_VAL);
    for (auto [stage, sec] : llvm::enumerate(most))
      sec = longestStageSec(known, int64_t(stage), room, sumSec, tail);
  };
  fill(facts.chunks, tailSec(facts.chunks, 0, /*orSlower=*/true));
  double slowest = *llvm::max_element(most);
  if (slowest == HUGE_VAL || slowest < 0)
    return;
  // So the first stage has some layers.
  int64_t fewest = fewestLayers(slowest, sumSec);
  double tail = tailSec(fewest, slowest, /*orSlower=*/false);
  fill(fewest, tail);
  if (facts.schedule != ScheduleKind::Interleaved || !isUniform)
    return;
  // Either all first chunks are short, or few of them are shorter.
  llvm::SmallVector<double, 32> other(most.begin(), most.end());
  if (!setFirstChunk(known, fewest, slowest))
    return;
  for (auto [stage, sec] : llvm::enumerate(other))
    most[stage] = std::min(
        sec, longestStageSec(known, int64_t(stage), room, sumSec, tail));
}

//===----------------------------------------------------------------------===//
// Made
//===----------------------------------------------------------------------===//

namespace {
/// Takes note of the points of a kind.
struct BoundMaker {
  const Pricing &pricing;
  const StageProblem &stages;
  const TableList &tables;
  const PriceList &prices;
  StepBound bound;
  /// Of each point: what grows with its elements, at the least of all points.
  LayerPrice layerOnce, firstOnce, lastOnce;
  double layerSync = HUGE_VAL, firstSync = 0, lastSync = 0, tied = 0;

  StepBound run();

private:
  double deferredOf(const ChunkWork &work, double sec) const;
  void addKind(int kind, int64_t count);
  void addRatios(const ChunkWork &work, double sec);
  void addTails();
};
} // namespace

/// Waits for data traffic and, where it is deferred, the weight gradient.
double BoundMaker::deferredOf(const ChunkWork &work, double sec) const {
  bool split = splitsWeightGradient(pricing.outer.schedule);
  return sec - work.forwardSec - work.backwardSec +
         (split ? work.weightGradientSec : 0);
}

void BoundMaker::addRatios(const ChunkWork &work, double sec) {
  if (sec <= 0)
    return;
  PipelineFacts &facts = bound.facts;
  double gathered = 1 - bound.weightOverlap;
  bool split = splitsWeightGradient(pricing.outer.schedule);
  double weight = split ? work.weightGradientSec : 0;
  double forward = std::max(work.forwardSec + gathered * work.forwardGatherSec,
                            work.forwardGatherSec);
  double gradient = (1 - bound.gradientOverlap) * work.gradientSec;
  auto raise = [&](double &most, double part) {
    most = std::max(most, std::min(1.0, part / sec));
  };
  raise(facts.mostForward, forward);
  raise(facts.mostBackward, sec - forward);
  raise(facts.mostWeight, weight + gradient);
  raise(facts.mostHeld, sec - work.forwardSec - work.backwardSec);
  raise(facts.mostEnds, forward - work.forwardSec + gradient);
}

static LayerPrice mostOnce() {
  LayerPrice once;
  once.updateElements = once.updateSec = HUGE_VAL;
  for (ParamTraffic *own : {&once.dense, &once.expert, &once.whole})
    *own = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
  return once;
}

void BoundMaker::addKind(int kind, int64_t count) {
  bool split = splitsWeightGradient(pricing.outer.schedule);
  double deferred = 0, sync = HUGE_VAL;
  LayerPrice once = mostOnce();
  double slow = 0, last = 0, first = 0, tiedLeast = HUGE_VAL;
  for (const StagePoint &point : stages.kinds[kind].points) {
    const LayerPrice &price = prices[kind][point.id];
    const LayerPoint &layer = tables[kind]->points[point.id];
    const ChunkWork &work = price.work;
    addRatios(work, point.sec);
    deferred = std::max(deferred, deferredOf(work, point.sec));
    slow = std::max(slow, point.sec);
    last = std::max(last, split ? work.weightGradientSec : work.backwardSec);
    first = std::max(first, work.forwardSec);
    keepLeast(once, price);
    sync = std::min(sync, price.tensorSyncSec);
    tiedLeast = std::min(tiedLeast, tiedBytes(pricing, layer));
    if (isLayer(pricing.problem, kind)) {
      bound.fastLayerSec = std::min(bound.fastLayerSec, point.sec);
      bound.workSec =
          std::min(bound.workSec, work.forwardSec + work.backwardSec);
    }
  }
  bound.facts.deferredSec += double(count) * deferred;
  if (isLayer(pricing.problem, kind)) {
    bound.slowLayerSec = std::max(bound.slowLayerSec, slow);
    bound.lastLayerSec = std::max(bound.lastLayerSec, last);
    bound.firstLayerSec = std::max(bound.firstLayerSec, first);
    keepLeast(layerOnce, once);
    layerSync = std::min(layerSync, sync);
  } else if (kind == stages.first) {
    bound.slowFirstSec = slow;
    bound.lastFirstSec = last;
    bound.firstFirstSec = first;
    firstOnce = once;
    firstSync = sync;
  } else {
    lastOnce = once;
    lastSync = sync;
    tied = tiedLeast;
    if (pricing.outer.pp == 1) { // on the same stage
      bound.lastFirstSec += last;
      bound.firstFirstSec += first;
    }
  }
}

/// Of the first stage; of one stage, of all layers.
void BoundMaker::addTails() {
  const OuterChoice &outer = pricing.outer;
  double tiedSync = tiedSec(pricing.problem, outer, tied);
  int64_t most = outer.pp == 1 ? bound.layers : bound.layers / outer.pp;
  for (int64_t n = 0; n <= most; ++n) {
    StepPrice &tail = bound.tails.emplace_back();
    if (n < (outer.pp == 1 ? most : outer.chunks))
      continue; // never asked for
    LayerPrice sum;
    addOnce(sum, firstOnce, 1);
    addOnce(sum, layerOnce, double(n));
    if (outer.pp == 1)
      addOnce(sum, lastOnce, 1);
    tail = stepPrice(pricing, sum);
    tail.gradientSyncSec += tiedSync + firstSync + double(n) * layerSync +
                            (outer.pp == 1 ? lastSync : 0);
  }
  // Messages of another size may be sent in a faster way: more is no less.
  for (size_t n = bound.tails.size() - 1; n > 0; --n) {
    StepPrice &tail = bound.tails[n - 1];
    const StepPrice &more = bound.tails[n];
    tail.gradientSyncSec = std::min(tail.gradientSyncSec, more.gradientSyncSec);
    tail.weightGatherSec = std::min(tail.weightGatherSec, more.weightGatherSec);
  }
}

StepBound BoundMaker::run() {
  const SearchProblem &problem = pricing.problem;
  const OuterChoice &outer = pricing.outer;
  PipelineFacts &facts = bound.facts;
  facts.schedule = outer.schedule;
  facts.stages = outer.pp;
  facts.microBatches = outer.microBatches;
  facts.chunks = outer.chunks;
  facts.bubble = problem.profile.bubble;
  facts.mostForward = facts.mostBackward = facts.mostWeight = 0;
  bound.constantSec = problem.profile.stepSec;
  bound.gradientOverlap = gradientOverlapOf(problem.profile, outer);
  bound.weightOverlap = problem.profile.weightOverlap;
  bound.updatedOverlap = problem.profile.updatedOverlap;
  bound.fastLayerSec = bound.workSec = HUGE_VAL;
  layerOnce = mostOnce();
  int layerKinds = 0;
  double boundary = 0;
  for (int kind : kindsOf(problem)) {
    int64_t count = 0;
    for (auto [other, layers] : problem.runs)
      count += other == kind ? layers : 0;
    addKind(kind, count);
    if (isLayer(problem, kind))
      bound.layers += count, ++layerKinds;
    // The longest message of the plan: no layer's is shorter than its least.
    double least = HUGE_VAL;
    for (const StagePoint &point : stages.kinds[kind].points)
      least = std::min(least, tables[kind]->points[point.id].messageBytes());
    if (isLayer(problem, kind))
      boundary = std::max(boundary, least);
  }
  // Chunks of a given plan may have any layers.
  bound.isUniform = layerKinds == 1 && problem.pins.chunkLayers.empty();
  // The first chunk has no more layers than any other. (The embedding's stage
  // has no first gather to wait for.)
  if (bound.isUniform && stages.first < 0)
    facts.mostEnds /= static_cast<double>(facts.chunks);
  facts.setSends(sendSecs(problem, outer, boundary));
  addTails();
  return std::move(bound);
}

StepBound search_detail::stepBoundOf(const Pricing &pricing,
                                     const StageProblem &stages,
                                     const TableList &tables,
                                     const PriceList &prices) {
  return BoundMaker{pricing, stages, tables, prices, {}, {}, {}, {}}.run();
}
