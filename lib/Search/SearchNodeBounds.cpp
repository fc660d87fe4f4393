//===- SearchNodeBounds.cpp - what no plan of a node can go below ---------===//
//
// Problem: the bounds of shapes know neither what a way to shard state costs
// nor that what is fast does not fit. Which nodes are worth their tables?
//
// Idea: the candidate plans of a node (schedule, ZeRO) one by one, each with
// the best-case layers that there can be: the tables' bound of the time,
// parameters split over all tensor (and expert) ranks, and a convex curve of
// (bytes kept, seconds recomputed). n layers of a stage with room for b bytes
// take at least n times the curve at b / n, since the curve is convex. The
// layers go one by one to the stage where one more costs least; where the last
// one ends, no split has a shorter bottleneck, because stages only grow with
// their layers.
//
// The time is then that of `pipelineBoundSec`, T the bottleneck, S the layers
// at their fastest. What is open in it is taken at its best case:
//   - ZB-H1 defers weight gradients, at most S less the least that all else
//     takes.
//   - What comes after the last backward is that of the first stage, which may
//     have few layers: then T is larger.
//   - Collectives take the cheapest algorithm of any size of message, so that
//     they grow with the bytes.
//
// Cost: microseconds per candidate plan that is not pruned by its time alone.
//
//===----------------------------------------------------------------------===//

#include "SearchNodeBounds.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search_detail;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Programs have slots of each chunk for the most that it ever holds.
void NodeBounds::holdSlots(const OuterChoice &outer,
                           std::vector<double> &held) {
  std::vector<std::vector<double>> &more = knownMore[outer.pipelining()];
  for (const HeldChunks &states :
       memo.heldBy(outer.pp, outer.microBatches, outer.chunks)) {
    std::vector<double> slots(outer.chunks, 0);
    for (const std::vector<double> &state : states)
      for (auto [most, count] : llvm::zip_equal(slots, state))
        most = std::max(most, count);
    held.push_back(*llvm::min_element(slots));
    for (double &each : slots)
      each -= held.back();
    more.push_back(std::move(slots));
  }
}

/// Micro-batches that each stage holds of every byte at least. Of an
/// interleaved stage the states of its schedule are averaged: the largest is no
/// smaller; and all layers count as the chunk that is held least.
llvm::ArrayRef<double> NodeBounds::heldOf(const OuterChoice &outer) {
  auto [it, isNew] = knownHeld.try_emplace(outer.pipelining());
  std::vector<double> &held = it->second;
  if (!isNew)
    return held;
  for (int64_t stage = 0; outer.chunks == 1 && stage < outer.pp; ++stage)
    held.push_back(partsInFlight(outer.pipelining(), stage).early);
  if (outer.chunks == 1)
    return held;
  if (problem.measureLayers) {
    holdSlots(outer, held);
    return held;
  }
  for (const HeldChunks &states :
       memo.heldBy(outer.pp, outer.microBatches, outer.chunks)) {
    std::vector<double> mean(outer.chunks, 0);
    double best = 0;
    for (const std::vector<double> &state : states) {
      best = std::max(best, *llvm::min_element(state));
      for (auto [sum, count] : llvm::zip_equal(mean, state))
        sum += count / static_cast<double>(states.size());
    }
    held.push_back(std::max(best, *llvm::min_element(mean)));
  }
  return held;
}

namespace {
/// What a stage takes with one more layer than it has.
struct Growing {
  double sec = 0;
  int64_t stage = 0, count = 0;
  bool operator<(const Growing &other) const {
    return std::tie(sec, stage) > std::tie(other.sec, other.stage);
  }
};
} // namespace

/// No chunk is empty: layers of other kinds in front of a run fill no more of
/// the first chunks than they are, nor do those behind it of the last ones. All
/// others have a layer, and those that are held longer than the least keep more
/// of it.
void NodeBounds::fillChunks(const OuterChoice &outer, const Relaxed &relaxed) {
  llvm::ArrayRef<std::vector<double>> more = knownMore[outer.pipelining()];
  int64_t all = outer.pp * outer.chunks;
  for (auto [index, stage] : llvm::enumerate(stages)) {
    stage.own = 0;
    for (int64_t chunk = 0; chunk < outer.chunks; ++chunk) {
      int64_t at = chunk * outer.pp + static_cast<int64_t>(index);
      if (at < relaxed.before || at >= all - relaxed.behind)
        continue;
      ++stage.own;
      if (!more.empty())
        stage.bytes -= more[index][chunk] * relaxed.layer.kept.fewest();
    }
  }
}

/// Works out `stages`, without the curves of their layers; false when the
/// layers do not fit, keeping as little as can be.
bool NodeBounds::mayFit(const OuterChoice &outer, const Relaxed &relaxed,
                        llvm::ArrayRef<double> held) {
  double room = capacityBytes(problem) - reservedOf(problem, outer);
  const Bound &layer = relaxed.layer;
  int64_t taken = 0, all = relaxed.layers;
  stages.resize(outer.pp);
  for (Stage &stage : stages)
    stage.bytes = room;
  fillChunks(outer, relaxed);
  for (auto [index, stage] : llvm::enumerate(stages)) {
    bool isLast = index + 1 == stages.size();
    double buffer = layer.bufferBytes;
    stage.sec = 0;
    if (isLast && !problem.measureLayers)
      stage.bytes -= logitBytesOf(problem, outer);
    auto add = [&](const Bound &bound) {
      stage.bytes -= bound.state.fewest() + held[index] * bound.kept.fewest();
      stage.sec += bound.least();
      buffer = std::max(buffer, bound.bufferBytes);
    };
    if (index == 0 && problem.hasEmbedding)
      add(relaxed.first);
    if (isLast && problem.hasHead)
      add(relaxed.last);
    stage.bytes -= buffer;
    double each = layer.each(outer, held[index]);
    if (stage.bytes < 0)
      return false;
    double most = each > 0 ? stage.bytes / each * (1 + 1e-9) : double(all);
    taken += static_cast<int64_t>(std::min(most, double(all)));
  }
  return taken >= all;
}

/// No split's slowest stage is faster; infinite when nothing fits, or only what
/// is slower than `limit`.
double NodeBounds::slowestSec(const OuterChoice &outer, const Relaxed &relaxed,
                              double limit) {
  llvm::ArrayRef<double> held = heldOf(outer);
  if (!mayFit(outer, relaxed, held))
    return HUGE_VAL;
  for (auto [index, stage] : llvm::enumerate(stages))
    stage.layer = index > 0 && held[index] == held[index - 1]
                      ? stages[index - 1].layer
                      : relaxed.layer.together(outer, held[index]);
  auto timeOf = [&](int64_t index, int64_t count) {
    const Stage &stage = stages[index];
    if (count == 0)
      return stage.sec;
    auto layers = static_cast<double>(count);
    double each = stage.layer.at(stage.bytes / layers);
    return stage.sec + layers * std::max(each, relaxed.layer.linkSec);
  };
  double slowest = 0;
  std::vector<Growing> heap;
  int64_t left = relaxed.layers;
  for (int64_t stage = 0; stage < outer.pp; ++stage) {
    int64_t own = stages[stage].own;
    slowest = std::max(slowest, timeOf(stage, own));
    heap.push_back({timeOf(stage, own + 1), stage, own + 1});
    left -= own;
  }
  std::make_heap(heap.begin(), heap.end());
  for (; left > 0 && slowest <= limit; --left) {
    std::pop_heap(heap.begin(), heap.end());
    Growing &least = heap.back();
    slowest = std::max(slowest, least.sec);
    least.sec = timeOf(least.stage, ++least.count);
    std::push_heap(heap.begin(), heap.end());
  }
  return slowest <= limit ? slowest : HUGE_VAL;
}

//===----------------------------------------------------------------------===//
// Candidate plans
//===----------------------------------------------------------------------===//

/// What is known of the stages of a candidate plan.
PipelineFacts NodeBounds::factsOf(const OuterChoice &outer,
                                  const Relaxed &relaxed) const {
  PipelineFacts facts;
  facts.schedule = outer.schedule;
  facts.stages = outer.pp;
  facts.microBatches = outer.microBatches;
  facts.chunks = outer.chunks;
  facts.setSends(relaxed.sendSec);
  facts.bubble = problem.profile.bubble;
  facts.mostForward = 0.5; // or the backward is
  if (splitsWeightGradient(outer.schedule)) {
    facts.mostForward = 1;
    facts.deferredSec = std::max(0.0, relaxed.sumSec - relaxed.restSec);
  }
  facts.firstChunkSec = relaxed.fastLayerSec;
  // Waits for gathers and gradients of every micro-batch, not known apart.
  if (outer.zero >= 2 && outer.pp > 1) {
    facts.mostHeld = facts.mostEnds = 1;
    facts.deferredSec = relaxed.sumSec;
    facts.firstChunkSec = 0;
  }
  return facts;
}

/// The first stage may have fewer layers than the mean, and less to do at the
/// end; then the others have more. So for numbers of layers on it, from the
/// mean down to none. Beside a heavy head it may have more than the mean.
double NodeBounds::stepSec(const PipelineFacts &facts, const Relaxed &relaxed,
                           double slowest) const {
  auto at = [&](double sec, double tail) {
    return problem.profile.stepSec + pipelineBoundSec(facts, sec,
                                                      relaxed.sumSec, tail,
                                                      BoundOver::Slower);
  };
  if (facts.stages == 1)
    return at(slowest, relaxed.onceSec);
  double mean = static_cast<double>(relaxed.allLayers) /
                static_cast<double>(facts.stages);
  double once = relaxed.onceSec - relaxed.firstOnceSec;
  double first = problem.hasEmbedding ? relaxed.first.least() : 0;
  double full = mean > 0 ? first + mean * relaxed.fastLayerSec : 0;
  double least = at(std::max(slowest, full), relaxed.onceSec), most = mean;
  for (double step = mean / 16; most > 0; step *= 2) {
    double fewest = std::max(0.0, mean - step);
    double rest = relaxed.sumSec - first - most * relaxed.slowLayerSec;
    double sec =
        std::max(slowest, rest / static_cast<double>(facts.stages - 1));
    least =
        std::min(least, at(sec, relaxed.firstOnceSec + fewest / mean * once));
    most = fewest;
  }
  return least;
}

/// The bound of one candidate plan, or `enough` where it is no smaller.
double NodeBounds::candidateSec(const OuterChoice &outer,
                                const Relaxed &relaxed, double enough) {
  auto p = static_cast<double>(outer.pp);
  int64_t most = (relaxed.layers + outer.pp - 1) / outer.pp;
  double even = std::max(relaxed.sumSec / p,
                         static_cast<double>(most) * relaxed.layer.least());
  PipelineFacts facts = factsOf(outer, relaxed);
  double least = stepSec(facts, relaxed, even);
  // Fast layers may hold more of the parameters than they must: that is paid
  // for once per step, or by slower ones in every micro-batch.
  if (outer.pp == 1)
    least = std::max(least, stepSec(facts, relaxed, relaxed.sumSec) +
                                relaxed.extraSec);
  if (least >= enough)
    return enough;
  // With fewer seconds than `enough` no stage takes longer.
  double steps = static_cast<double>(outer.microBatches) - facts.mostHeld;
  double limit = steps > 0 ? (enough - problem.profile.stepSec) / steps /
                                 std::min(1.0, facts.bubble)
                           : HUGE_VAL;
  double slowest = slowestSec(outer, relaxed, limit);
  if (slowest == HUGE_VAL)
    return enough;
  slowest = std::max(even, slowest);
  return std::min(enough, std::max(least, stepSec(facts, relaxed, slowest)));
}

/// The schedules of a node that a bound is needed for: of those that differ in
/// what they defer the first, which holds least. Their bounds differ in that
/// alone.
static std::vector<Schedule> bestCasesOf(llvm::ArrayRef<Schedule> schedules) {
  std::vector<Schedule> bestCases;
  for (const Schedule &schedule : schedules)
    if (bestCases.empty() ||
        std::get<0>(schedule) != std::get<0>(bestCases.back()) ||
        !splitsWeightGradient(std::get<0>(schedule)))
      bestCases.push_back(schedule);
  return bestCases;
}

double NodeBounds::secondsOf(const OuterChoice &node, double enough) {
  Shape shape;
  shape.pp = node.pp;
  shape.microBatches = node.microBatches;
  std::vector<Schedule> schedules = bestCasesOf(schedulesOf(problem, shape));
  std::vector<Known> known;
  for (int kind : kindsOf(problem))
    known.push_back(knownOf(node, kind));
  double least = enough;
  for (StateSharding sharding : stateShardingsOf(problem, node)) {
    OuterChoice outer = node;
    std::tie(outer.zero, outer.shardGroup) = sharding;
    Pricing pricing(problem, outer, memo);
    Relaxed relaxed = relax(pricing, known);
    for (Schedule schedule : schedules) {
      std::tie(outer.schedule, outer.chunks, outer.defer) = schedule;
      least = candidateSec(outer, relaxed, least);
    }
  }
  return least;
}

double NodeBounds::secondsOf(const OuterChoice &outer, const TableList &tables,
                             const LayoutChoice &layouts) {
  std::vector<Known> known;
  for (int kind : kindsOf(problem))
    known.push_back(knownOf(kind, *tables[kind], layouts[kind]));
  Relaxed relaxed = relax(Pricing(problem, outer, memo), known);
  return candidateSec(outer, relaxed, HUGE_VAL);
}
