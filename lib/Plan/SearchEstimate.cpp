//===- SearchEstimate.cpp - which heads are worth a look first ------------===//
//
// Problem: bounds that need no table know nothing of communication, so that
// many heads look alike; tables are dear. In which order should heads be looked
// at?
//
// Idea: what a layer takes on one rank is known after one table per kind. Cut
// evenly, with the collectives that Megatron has (Korthikanti et al. 2022,
// arXiv 2205.05198: a boundary value is gathered and scattered twice in the
// forward and twice in the backward pass) it is a good guess for all others.
// The guess only orders and stops the search; it proves nothing.
//
//===----------------------------------------------------------------------===//

#include "SearchBounds.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::search_detail;

/// Seconds of a layer and micro-batch on one rank, collectives included.
double ShapeBounds::layerEstimate(const OuterChoice &outer, int kind) {
  const LayerPoint &point = *alone[kind];
  auto cut = static_cast<double>(outer.tp * outer.cp);
  auto sequences = static_cast<double>(outer.microBatch);
  double compute = point.forward.computeSec() + point.backward.computeSec();
  double sec = compute * sequences / cut;
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
    double bytes = 2 * whole / cut;
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
  auto cut = static_cast<double>(outer.tp * outer.pp);
  Groups groups = replicasOf(outer, /*expert=*/false).rest;
  return (1 - problem.profile.gradientOverlap) *
             scatterSec(memo, groups, gradients / cut, 1) +
         (1 - problem.profile.weightOverlap) *
             gatherSec(memo, groups, weights / cut, 1);
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
  // Of what does not fit the cheapest is made again first: a quarter of the
  // extra time for half of the bytes. All of it is a forward pass.
  double room = capacityBytes(problem) - bytesOf(shape);
  double dropped =
      activations > 0 ? std::clamp(1 - room / activations, 0.0, 1.0) : 0;
  double slower = 1 + dropped * dropped / 3;
  sum *= slower;
  layerSec *= slower;
  return pipelineSec(shape, sum, layerSec) + dataEstimate(outer);
}
