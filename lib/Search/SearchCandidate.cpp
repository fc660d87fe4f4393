//===- SearchCandidate.cpp - the stages' problem of an outer choice -------===//
//
// Problem: an outer choice and the tables of its layers are given; which split
// of stages and which points of the layers are best?
//
// The time of a step in closed form, with T_i the time of stage i and b the
// part of a bubble that a schedule leaves (1F1B and GPipe 1; v chunks 1/v,
// Narayanan et al. 2021; ZB-H1 (f + b - w) / (f + b + w), Qi et al. 2023, and
// with fewer micro-batches than stages more, up to (f + b) / (f + b + w) for
// one):
//
//   (m - b) max T_i + b sum T_i + sends that are waited for
//     + mean over stages of exposed gradient and weight traffic and the update
//
// Sends of s seconds: the pipeline is filled and drained once, 2 (p - 1) s.
// What else messages cost is a bound of the whole step, with S = sum T_i (in
// ZB-H1 without weight gradients, which fill the waits):
//
//   - a stage sends one message at a time: 2 m v s, of two stages s less per
//     micro-batch;
//   - 1F1B and ZB-H1: the first stage has p micro-batches on their way, and
//     begins another when one is back: m / p times S + 2 (p - 1) s;
//   - GPipe: S + 2 (p - 1) s for the first micro-batch, and each other one is a
//     message behind, forward and backward.
//
// Interleaved stages have so many chunks on their way that their links bind
// before these come back late.
//
// The step ends with the first stage, which has the embedding: where that alone
// has more traffic than the mean stage, it counts.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

using namespace kerf;
using namespace kerf::search_detail;

bool search_detail::allowsPoint(const Pins &pins, const LayerTable &table,
                                const LayerPoint &point) {
  if (pins.recompute.empty())
    return true;
  // Points of the same layout, from nothing recomputed to everything.
  llvm::SmallVector<const LayerPoint *, 12> own;
  for (const LayerPoint &other : table.points)
    if (other.layout == point.layout)
      own.push_back(&other);
  llvm::sort(own, [](const LayerPoint *a, const LayerPoint *b) {
    return a->savedBytes != b->savedBytes ? a->savedBytes > b->savedBytes
                                          : a < b;
  });
  const LayerPoint *wanted = own.back();
  if (pins.recompute == "none")
    wanted = own.front();
  if (pins.recompute == "selective") {
    // Korthikanti et al. 2022 (arXiv 2205.05198): attention alone. Without such
    // a point: the first step from nothing.
    auto found = llvm::find_if(
        own, [](const LayerPoint *other) { return other->isSelective; });
    wanted = found != own.end() ? *found
             : own.size() > 1   ? own[1]
                                : own.front();
  }
  return wanted == &point;
}

TableList search_detail::tablesOf(const SearchProblem &problem,
                                  const OuterChoice &outer) {
  llvm::SmallVector<int, 4> kinds = kindsOf(problem);
  TableList tables(*llvm::max_element(kinds) + 1, nullptr);
  for (int kind : kinds)
    tables[kind] = &problem.tables->get(keyOf(outer, kind));
  return tables;
}

/// Some points exchange rows of experts, and others do not.
static bool isMixed(const LayerTable &table) {
  return llvm::any_of(table.points, [&](const LayerPoint &point) {
    return point.exchangesRows != table.points.front().exchangesRows;
  });
}

std::vector<LayoutChoice> search_detail::layoutsOf(const SearchProblem &problem,
                                                   const TableList &tables,
                                                   bool &all) {
  constexpr size_t kMost = 256;
  std::vector<LayoutChoice> choices = {LayoutChoice(tables.size(), -1)};
  for (int kind : kindsOf(problem)) {
    int64_t count = 0;
    for (auto [other, layers] : problem.runs)
      count += other == kind ? layers : 0;
    if (count == 1 && !isMixed(*tables[kind]))
      continue;
    std::vector<LayoutChoice> next;
    for (const LayoutChoice &choice : choices)
      for (int layout = 0; layout < tables[kind]->layouts; ++layout) {
        next.push_back(choice);
        next.back()[kind] = layout;
      }
    choices = std::move(next);
    if (choices.size() > kMost) {
      choices.resize(kMost);
      all = false;
    }
  }
  return choices;
}

PriceList search_detail::pricesOf(const Pricing &pricing,
                                  const TableList &tables) {
  PriceList prices(tables.size());
  for (auto [kind, table] : llvm::enumerate(tables))
    if (table)
      for (const LayerPoint &point : table->points)
        prices[kind].push_back(priceOf(pricing, static_cast<int>(kind), point));
  return prices;
}

namespace {
/// What of the fastest points counts in the closed form, over all layers.
struct CandidateSums {
  double sec = 0, weightSec = 0, messageBytes = 0, tensorSyncSec = 0;
  double forwardSec = 0, backwardSec = 0, tiedBytes = 0;
  LayerPrice once, embeddingOnce;
};
} // namespace

/// The bubble's part of a stage's time that stays.
static double bubblePart(const OuterChoice &outer, const CandidateSums &sums) {
  if (outer.schedule == ScheduleKind::Interleaved)
    return 1 / static_cast<double>(outer.chunks);
  if (splitsWeightGradient(outer.schedule)) {
    auto others = static_cast<double>(std::max<int64_t>(1, outer.pp - 1));
    double filled =
        1 +
        std::min(1.0, static_cast<double>(outer.microBatches - 1) / others) *
            static_cast<double>(outer.mostDeferred()) / others;
    return std::max(0.0, 1 - filled * sums.weightSec / sums.sec);
  }
  return 1;
}

/// Messages of the pipeline alone.
static PipelineFacts messagesOf(const SearchProblem &problem,
                                const OuterChoice &outer, double bytes) {
  PipelineFacts facts;
  facts.stages = outer.pp;
  facts.chunks = outer.chunks;
  facts.setSends(sendSecs(problem, outer, bytes));
  return facts;
}

/// Seconds that messages make a step take at least, but for what comes after
/// the pipeline; see above.
static double linkSecOf(const OuterChoice &outer, const CandidateSums &sums,
                        const PipelineFacts &messages) {
  auto m = static_cast<double>(outer.microBatches);
  auto p = static_cast<double>(outer.pp);
  double trip = 2 * messages.journeySendSec;
  double busiest = m * messages.busiestSendSec;
  switch (outer.schedule) {
  case ScheduleKind::GPipe:
    return sums.sec + trip + 2 * (m - 1) * messages.mostSendSec;
  case ScheduleKind::OneFOneB:
    return std::max(busiest, std::ceil(m / p) * (sums.sec + trip));
  case ScheduleKind::ZeroBubble:
    return std::max(busiest,
                    std::ceil(m / p) * (sums.sec - sums.weightSec + trip));
  case ScheduleKind::Interleaved:
    return busiest;
  }
  return 0;
}

/// Seconds of messages that fill and drain the pipeline one after the other. In
/// ZB-H1 each micro-batch after the second waits for two more, until a stage
/// has all that it defers.
static double fillSecOf(const OuterChoice &outer,
                        const PipelineFacts &messages) {
  int64_t more = 0;
  if (splitsWeightGradient(outer.schedule))
    more = std::clamp<int64_t>(outer.microBatches - 2, 0, outer.mostDeferred());
  double hops = static_cast<double>(outer.pp * outer.chunks - 1);
  double mean = messages.journeySendSec / hops;
  return 2 * static_cast<double>(outer.pp - 1 + more) * mean;
}

/// What comes after the pipeline: the mean stage's gradients and weights as far
/// as the last backward (the last weight gradient) and the first forward of a
/// chunk do not hide them, tied gradients, the update; or those of the
/// embedding alone.
static double tailSec(const Pricing &pricing, const CandidateSums &sums) {
  const Profile &profile = pricing.problem.profile;
  const OuterChoice &outer = pricing.outer;
  auto stages = static_cast<double>(outer.pp);
  double sync = sums.tensorSyncSec / stages;
  sync += tiedSec(pricing.problem, outer, sums.tiedBytes);
  double chunks = stages * static_cast<double>(outer.chunks);
  auto exposed = [&](double sec, double overlap, double beside) {
    return sec - std::min(overlap * sec, beside / chunks);
  };
  bool split = splitsWeightGradient(outer.schedule);
  auto tailOf = [&](const LayerPrice &sum) {
    StepPrice once = stepPrice(pricing, sum);
    return exposed(once.gradientSyncSec + sync,
                   gradientOverlapOf(profile, outer),
                   split ? sums.weightSec : sums.backwardSec) +
           exposed(once.weightGatherSec, profile.updatedOverlap,
                   sums.forwardSec) +
           once.updateSec;
  };
  LayerPrice mean;
  addOnce(mean, sums.once, 1 / stages);
  return std::max(tailOf(mean), tailOf(sums.embeddingOnce));
}

/// The closed form's weights; see the head of this file.
static CandidateTimes timesOf(const Pricing &pricing,
                              const CandidateSums &sums) {
  const SearchProblem &problem = pricing.problem;
  const Profile &profile = problem.profile;
  const OuterChoice &outer = pricing.outer;
  double bubble = outer.pp > 1 ? profile.bubble * bubblePart(outer, sums) : 0;
  CandidateTimes times;
  times.sumWeight = bubble;
  times.slowestWeight =
      std::max(0.0, static_cast<double>(outer.microBatches) - bubble);
  times.onceSec = tailSec(pricing, sums) + profile.stepSec;
  if (outer.pp == 1)
    return times;
  PipelineFacts messages = messagesOf(problem, outer, sums.messageBytes);
  // A runtime's multiplier below 1 shortens what links hold up, too.
  times.linkSec =
      std::min(1.0, profile.bubble) * linkSecOf(outer, sums, messages) +
      times.onceSec;
  times.onceSec += profile.bubble * fillSecOf(outer, messages);
  return times;
}

bool search_detail::exchangesRows(const StageProblem &stages,
                                  const TableList &tables) {
  return llvm::any_of(llvm::enumerate(stages.kinds), [&](auto kind) {
    return llvm::any_of(kind.value().points, [&](const StagePoint &point) {
      return tables[kind.index()]->points[point.id].exchangesRows;
    });
  });
}

/// The memory of each stage's schedule.
static void setFlight(const Pricing &pricing, const TableList &tables,
                      StageProblem &stages) {
  const SearchProblem &problem = pricing.problem;
  const OuterChoice &outer = pricing.outer;
  if (outer.chunks > 1)
    stages.held =
        pricing.memo.heldBy(outer.pp, outer.microBatches, outer.chunks);
  double reserved = reservedOf(problem, outer, exchangesRows(stages, tables));
  for (int64_t stage = 0; stage < outer.pp; ++stage) {
    stages.budget.push_back(capacityBytes(problem) - reserved);
    if (outer.chunks == 1)
      stages.inFlight.push_back(chunksInFlight(outer.pipelining(), stage));
  }
  stages.budget.back() -= logitBytesOf(problem, outer);
}

/// The points of a kind that a candidate plan may take; the fastest first.
static StageKind pointsOf(const SearchProblem &problem, const LayerTable &table,
                          llvm::ArrayRef<LayerPrice> prices, int layout) {
  StageKind kind;
  for (auto [index, point] : llvm::enumerate(table.points)) {
    if ((layout >= 0 && point.layout != layout) ||
        !allowsPoint(problem.pins, table, point))
      continue;
    const LayerPrice &price = prices[index];
    kind.points.push_back({price.stageSec(problem.profile), point.savedBytes,
                           price.stateBytes(), point.workBytes,
                           price.bufferBytes, static_cast<int>(index)});
  }
  llvm::sort(kind.points, [](const StagePoint &a, const StagePoint &b) {
    return std::tie(a.sec, a.id) < std::tie(b.sec, b.id);
  });
  return kind;
}

StageProblem search_detail::stageProblemOf(const Pricing &pricing,
                                           const LayoutChoice &layouts,
                                           const TableList &tables,
                                           const PriceList &prices,
                                           bool forBound,
                                           CandidateTimes &times) {
  const SearchProblem &problem = pricing.problem;
  const OuterChoice &outer = pricing.outer;
  StageProblem stages;
  stages.kinds.resize(tables.size());
  for (int kind : kindsOf(problem)) {
    stages.kinds[kind] =
        pointsOf(problem, *tables[kind], prices[kind], layouts[kind]);
    if (stages.kinds[kind].points.empty())
      return {};
  }
  stages.first = embeddingOf(problem);
  stages.last = headOf(problem);
  stages.stages = outer.pp;
  stages.chunks = outer.chunks;
  CandidateSums sums;
  for (auto [kind, count] : problem.runs) {
    const StagePoint &fastest = stages.kinds[kind].points.front();
    const LayerPrice &price = prices[kind][fastest.id];
    const LayerPoint &point = tables[kind]->points[fastest.id];
    auto layers = static_cast<double>(count);
    sums.sec += layers * fastest.sec;
    sums.weightSec += layers * price.work.weightGradientSec;
    sums.forwardSec += layers * price.work.forwardSec;
    sums.backwardSec += layers * price.work.backwardSec;
    sums.tiedBytes += layers * tiedBytes(pricing, point);
    sums.tensorSyncSec += layers * price.tensorSyncSec;
    if (isLayer(problem, kind))
      sums.messageBytes = std::max(sums.messageBytes, point.messageBytes());
    addOnce(sums.once, price, layers);
    if (kind == stages.first)
      addOnce(sums.embeddingOnce, price, layers);
    if (isLayer(problem, kind))
      stages.layers.push_back({kind, count});
  }
  times = timesOf(pricing, sums);
  stages.slowestWeight = times.slowestWeight;
  stages.sumWeight = times.sumWeight;
  times.bound = std::make_shared<const StepBound>(
      stepBoundOf(pricing, stages, tables, prices));
  stages.least = [bound = times.bound](double slowest, double sum,
                                       bool orSlower) {
    return bound->at(slowest, sum, orSlower);
  };
  if (outer.pp > 1)
    stages.most = [bound = times.bound](double step, double sum,
                                        llvm::MutableArrayRef<double> most) {
      bound->most(step, sum, most);
    };
  if (!forBound)
    setFlight(pricing, tables, stages);
  return stages;
}

/// Puts the bytes of programs at points; gives the least of `once`.
static double setBytes(const SearchProblem &problem, StageProblem &stages,
                       const OuterChoice &outer,
                       llvm::ArrayRef<std::vector<LayerBytes>> bounds) {
  double once = HUGE_VAL;
  for (int kind : kindsOf(problem))
    for (auto [point, bytes] :
         llvm::zip_equal(stages.kinds[kind].points, bounds[kind])) {
      point.savedBytes = bytes.kept;
      point.stateBytes = bytes.rest;
      point.lateBytes = bytes.late;
      point.handedBytes = bytes.handed;
      point.workBytes = bytes.work;
      point.bufferBytes = 0;
      if (isLayer(problem, kind))
        once = std::min(once, bytes.once);
    }
  return once;
}

/// The kinds where a layer's work counts, but not known whose: the least. The
/// embedding's does not; the head's only with `withHead`.
static std::vector<StageKind> withLeastWork(const SearchProblem &problem,
                                            std::vector<StageKind> kinds,
                                            bool withHead) {
  double least = HUGE_VAL;
  for (int kind : kindsOf(problem))
    for (const StagePoint &point : kinds[kind].points)
      if (isLayer(problem, kind))
        least = std::min(least, point.workBytes);
  for (int kind : kindsOf(problem))
    for (StagePoint &point : kinds[kind].points)
      if (isLayer(problem, kind))
        point.workBytes = least;
      else if (!withHead || kind == embeddingOf(problem))
        point.workBytes = 0;
  return kinds;
}

std::optional<StageProblem>
search_detail::programsOf(const Pricing &pricing, const TableList &tables,
                          StageProblem stages,
                          const SearchProblem::MeasureLayers &measure) {
  const SearchProblem &problem = pricing.problem;
  const OuterChoice &outer = pricing.outer;
  if (!measure)
    return std::nullopt;
  std::vector<std::vector<const LayerPoint *>> points(stages.kinds.size());
  for (auto [kind, own] : llvm::enumerate(stages.kinds))
    for (const StagePoint &point : own.points)
      points[kind].push_back(&tables[kind]->points[point.id]);
  std::vector<std::vector<LayerBytes>> bounds = measure(outer, points);
  if (bounds.empty())
    return std::nullopt;
  double once = setBytes(problem, stages, outer, bounds);
  if (splitsWeightGradient(outer.schedule) || outer.microBatches == 1 ||
      outer.endsByChunk())
    stages.kinds = withLeastWork(problem, std::move(stages.kinds), false);
  else if (outer.chunks == 1)
    stages.kindsOfOne = withLeastWork(problem, stages.kinds, true);
  double room = capacityBytes(problem) -
                reservedOf(problem, outer, exchangesRows(stages, tables));
  for (int64_t stage = 0; stage < outer.pp; ++stage) {
    // A program has slots of each chunk for the most that it ever holds.
    std::vector<double> slots(outer.chunks, 0);
    if (outer.chunks == 1) {
      HeldParts parts = partsInFlight(outer.pipelining(), stage);
      slots[0] = stages.inFlight[stage] = parts.early;
      stages.late.push_back(parts.late);
      stages.handed.push_back(parts.handed);
    } else
      for (const std::vector<double> &held : stages.held[stage])
        for (auto [most, count] : llvm::zip_equal(slots, held))
          most = std::max(most, count);
    double all = std::accumulate(slots.begin(), slots.end(), 0.0);
    stages.budget[stage] = room - all * once;
    if (outer.chunks > 1)
      stages.held[stage] = {std::move(slots)};
  }
  return stages;
}

/// Takes up to `count` layers of a kind from parts, the first ones first.
static void takeLayers(int kind, int64_t count,
                       std::vector<Filled::Part> &parts,
                       std::vector<Filled::Part> &taken) {
  for (Filled::Part &part : parts) {
    int64_t own = part.kind == kind ? std::min(part.count, count) : 0;
    if (own > 0)
      taken.push_back({kind, part.point, own});
    part.count -= own;
    count -= own;
  }
}

/// The points of a chunk's layers in the order of their runs: of a kind that
/// has several, `parts` has the layers of all together.
static std::vector<Filled::Part> byRuns(const StageProblem &stages,
                                        const SplitChunk &chunk) {
  if (stages.layers.size() == 1)
    return chunk.parts;
  std::vector<Filled::Part> left = chunk.parts, ordered;
  takeLayers(stages.first, 1, left, ordered);
  int64_t at = 0;
  for (const StageItem &run : stages.layers) {
    int64_t count =
        std::min(chunk.end, at + run.count) - std::max(chunk.begin, at);
    takeLayers(run.kind, count, left, ordered);
    at += run.count;
  }
  takeLayers(stages.last, 1, left, ordered);
  return ordered;
}

std::vector<PlacedStage> search_detail::placedOf(const StageProblem &stages,
                                                 const StageSplit &split,
                                                 const TableList &tables) {
  std::vector<PlacedStage> placed;
  for (const std::vector<SplitChunk> &chunks : split.stages) {
    PlacedStage &stage = placed.emplace_back();
    for (const SplitChunk &chunk : chunks) {
      PlacedChunk &own = stage.chunks.emplace_back();
      for (const Filled::Part &part : byRuns(stages, chunk)) {
        int id = stages.kinds[part.kind].points[part.point].id;
        own.layers.push_back(
            {part.kind, part.count, tables[part.kind]->points[id]});
      }
    }
  }
  return placed;
}
