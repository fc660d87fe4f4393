//===- SearchEstimate.cpp - which nodes are worth a look first ------------===//
//
// Problem: bounds that need no table know nothing of communication, so that
// many nodes look alike; tables take long. In which order should nodes be
// looked at?
//
// Idea: what a layer takes on one rank is known after one table per kind.
// Divided evenly, with the collectives that Megatron has (Korthikanti et al.
// 2022, arXiv 2205.05198: a boundary value is gathered and scattered twice in
// the forward and twice in the backward pass) it is a good guess for all
// others. The guess only orders and stops the search; it proves nothing.
//
//===----------------------------------------------------------------------===//

#include "SearchBounds.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search_detail;

/// Sequences of a micro-batch from which on an expert's matmul has rows
/// enough.
constexpr int64_t kPooledSequences = 8;

/// Seconds of a micro-batch's kernels of a layer whose only ranks are those of
/// `ep`. Experts are the slower the fewer rows each has, so those of one rank
/// say little of them: ranks that hold parts of the experts pool their rows.
double ShapeBounds::kernelsEstimate(const OuterChoice &outer, int kind) {
  const LayerPoint &one = *alone[kind];
  auto sequences = static_cast<double>(outer.microBatch);
  bool isAlone = outer.tp * outer.cp == 1;
  auto secOf = [&](const LayerPoint &point) {
    return point.forward.computeSec() + point.backward.computeSec() -
           (isAlone ? 0 : point.workspaceSec);
  };
  if (one.expertElements <= 0 || outer.ep * outer.microBatch == 1)
    return secOf(one) * sequences;
  // Beyond so many rows more of them change nothing.
  int64_t most = std::min(outer.microBatch, kPooledSequences);
  auto [place, isNew] = pooled.try_emplace({kind, outer.ep, most, isAlone});
  if (isNew) {
    TableKey key;
    key.kind = kind;
    key.microBatch = most;
    key.groups[2] = {outer.ep, 1};
    const LayerTable &table = problem.tables->get(key);
    place->second = table.points.empty() ? secOf(one)
                                         : secOf(table.points.front()) /
                                               static_cast<double>(most);
  }
  return place->second * sequences;
}

/// Seconds of a layer and micro-batch on one rank, collectives included.
double ShapeBounds::layerEstimate(const OuterChoice &outer, int kind) {
  const LayerPoint &point = *alone[kind];
  auto shards = static_cast<double>(outer.tp * outer.cp);
  auto sequences = static_cast<double>(outer.microBatch);
  double sec = kernelsEstimate(outer, kind) / shards;
  TableKey key = keyOf(outer, kind);
  double whole = point.boundaryBytes * sequences;
  double comm = 0;
  bool layer = isLayer(problem, kind);
  if (outer.tp > 1) {
    double bytes = whole / static_cast<double>(outer.cp);
    comm += (layer ? 4 : 2) * memo.of(key.groups[0], bytes).allReduce(bytes);
  }
  // Keys and values are gathered, their gradients scattered, twice in all.
  if (outer.cp > 1 && layer) {
    double bytes = whole / static_cast<double>(outer.tp);
    comm += 2 * memo.of(key.groups[1], bytes).allGather(bytes);
  }
  // Rows go to the experts and back, forward and backward.
  if (outer.ep > 1 && point.expertElements > 0) {
    double bytes = 2 * whole / shards;
    comm += 4 * memo.of(key.groups[2], bytes).allToAll(bytes);
  }
  return sec + (1 - problem.profile.tensorOverlap) * comm;
}

/// Gradients scattered and weights gathered, as far as they are not hidden.
double ShapeBounds::dataEstimate(const OuterChoice &outer) {
  double gradients = 0, weights = 0;
  for (auto [kind, count] : problem.runs) {
    const KindSize &size = problem.sizes[kind];
    double elements = static_cast<double>(count) *
                      (size.denseElements +
                       size.expertElements / static_cast<double>(outer.ep));
    gradients += elements * size.gradientBytes;
    weights += elements * size.weightBytes;
  }
  auto shards = static_cast<double>(outer.tp * outer.pp);
  Groups groups = replicasOf(outer, /*expert=*/false).rest;
  return (1 - problem.profile.gradientOverlap) *
             scatterSec(memo, groups, gradients / shards, 1) +
         (1 - std::max(problem.profile.weightOverlap,
                       problem.profile.updatedOverlap)) *
             gatherSec(memo, groups, weights / shards, 1);
}

/// The closed form under the best case of the schedules that are allowed:
/// layers take `slowestSec` on the slowest stage and `sumSec` on all, messages
/// as long as over the mean border.
double ShapeBounds::scheduleEstimate(const Shape &shape,
                                     const OuterChoice &outer,
                                     double slowestSec, double sumSec) const {
  auto m = static_cast<double>(shape.microBatches);
  auto p = static_cast<double>(shape.pp);
  if (shape.pp == 1)
    return m * slowestSec;
  double part = static_cast<double>(shape.microBatch) /
                static_cast<double>(shape.tp * shape.cp);
  std::vector<double> secs = sendSecs(problem, outer, boundaryBytes * part);
  double message = secs.empty() ? 0 : journeySec(secs, 1) / (p - 1);
  double scale = problem.profile.bubble;
  auto with = [&](double bubble, double sends) {
    double idle = scale * bubble;
    return std::max(0.0, m - idle) * slowestSec + idle * sumSec + scale * sends;
  };
  double best = HUGE_VAL;
  double trip = 2 * (p - 1) * message;
  if (wants(ScheduleKind::GPipe))
    best = std::min(best, with(1, trip));
  if (wants(ScheduleKind::OneFOneB))
    best = std::min(best, with(1, trip * std::max(1.0, m / p)));
  if (wants(ScheduleKind::ZeroBubble)) {
    // Weight gradients fill the bubble. Layouts in which they take longer are
    // slower themselves, by more than that fills.
    double filled = (1 + std::min(1.0, (m - 1) / (p - 1))) * weightSec * part;
    best = std::min(best, with(std::max(0.0, 1 - filled / sumSec), trip));
  }
  if (wants(ScheduleKind::Interleaved) && shape.microBatches % shape.pp == 0) {
    // Chunks divide the bubble and multiply the sends: the best number of them.
    double most = static_cast<double>(layersOf(problem)) / p;
    double gain = sumSec - slowestSec, price = 2 * p * message;
    double chunks = price > 0 ? std::sqrt(gain / price) : most;
    chunks = std::clamp(chunks, 1.0, std::max(1.0, most));
    best = std::min(best, with(1 / chunks, price * chunks - 2 * message));
  }
  return best;
}

double ShapeBounds::estimateOf(const Shape &shape,
                               const std::vector<MeshAxis> &order) {
  OuterChoice outer = shape.outer();
  outer.order = order;
  double sum = 0, layerSec = 0, saved = 0;
  for (auto [kind, count] : problem.runs) {
    if (!alone[kind])
      return secondsOf(shape);
    auto layers = static_cast<double>(count);
    double sec = layerEstimate(outer, kind);
    sum += layers * sec;
    if (!isLayer(problem, kind))
      continue;
    layerSec = std::max(layerSec, sec);
    saved += layers * alone[kind]->savedBytes;
  }
  auto held = static_cast<double>(std::min(shape.microBatches, shape.pp));
  double activations = held * saved * static_cast<double>(shape.microBatch) /
                       static_cast<double>(shape.pp * shape.tp * shape.cp);
  // Of what does not fit the cheapest is recomputed first: a quarter of the
  // extra time for half of the bytes. All of it is a forward pass.
  double room = capacityBytes(problem) - bytesOf(shape);
  double dropped =
      activations > 0 ? std::clamp(1 - room / activations, 0.0, 1.0) : 0;
  double slower = 1 + dropped * dropped / 3;
  sum *= slower;
  layerSec *= slower;
  int64_t most = (layersOf(problem) + shape.pp - 1) / shape.pp;
  double slowest = std::max(sum / static_cast<double>(shape.pp),
                            static_cast<double>(most) * layerSec);
  return scheduleEstimate(shape, outer, slowest, sum) +
         problem.profile.stepSec + dataEstimate(outer);
}
