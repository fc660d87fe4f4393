//===- SearchNodeLayers.cpp - the best-case layers of a node --------------===//
//
// Problem: the tables of a node are not solved. What can its layers not go
// below under a way to shard state?
//
// Idea: the tables' own bounds (time by elements held, seconds recomputed by
// bytes kept) with what an element costs on top: bytes of weights, gradients
// and optimizer, their traffic, the accumulation of its gradient, the update.
// All of these grow with the elements, so the bounds stay convex curves of
// bytes.
//
//===----------------------------------------------------------------------===//

#include "SearchNodeBounds.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace kerf;
using namespace kerf::search_detail;

/// Seconds with at most `bytes`; infinite where that is too few.
double NodeBounds::Curve::at(double bytes) const {
  // What rounding may have taken from a budget.
  bytes *= 1 + 1e-9;
  if (bytes < fewest())
    return HUGE_VAL;
  auto above = llvm::partition_point(
      points, [&](const auto &point) { return point.first <= bytes; });
  if (above == points.end())
    return fastest();
  auto [x0, y0] = *(above - 1);
  auto [x1, y1] = *above;
  return y0 + (y1 - y0) * (bytes - x0) / (x1 - x0);
}

/// The fewest bytes of a layer that is held so often.
double NodeBounds::Bound::each(const OuterChoice &outer, double held) const {
  double bytes = state.fewest() + held * kept.fewest();
  if (!splitsWeightGradient(outer.schedule))
    return bytes;
  // Of the stage that holds so many until the backward pass.
  double late = 0;
  if (outer.microBatches >= outer.pp)
    late = double(outer.pipelining().lateBy(outer.pp - int64_t(held)));
  return bytes + (1 + late) * deferredBytes;
}

/// The least seconds for state and `held` times what is kept together: of two
/// convex curves the segments in the order of what a byte saves.
NodeBounds::Curve NodeBounds::Bound::together(const OuterChoice &outer,
                                              double held) const {
  Curve sum;
  sum.points.push_back({each(outer, held), state.points.front().second +
                                               kept.points.front().second});
  // Bytes and seconds of the next segment of a curve.
  auto segment = [](const Curve &curve, size_t i, double scale) {
    return std::make_pair(
        scale * (curve.points[i].first - curve.points[i - 1].first),
        curve.points[i].second - curve.points[i - 1].second);
  };
  size_t i = 1, j = 1, ownEnd = state.points.size(), end = kept.points.size();
  while (i < ownEnd || j < end) {
    std::pair<double, double> a = {0, 0}, b = {0, 0};
    if (i < ownEnd)
      a = segment(state, i, 1);
    if (j < end)
      b = segment(kept, j, held);
    bool first =
        j == end || (i < ownEnd && a.second * b.first <= b.second * a.first);
    (first ? i : j) += 1;
    auto [bytes, seconds] = sum.points.back();
    sum.points.push_back(
        {bytes + (first ? a : b).first, seconds + (first ? a : b).second});
  }
  return sum;
}

/// Seconds of `calls` reduce-scatters (all-gathers) that move `bytes` over
/// groups inside each other, each by the cheapest algorithm of all sizes; with
/// `allReduce` the last group all-reduces, and the others gather again.
double NodeBounds::cheapest(const Groups &groups, double bytes, double calls,
                            bool allReduce) {
  if (bytes <= 0)
    return 0;
  double sec = 0;
  for (auto [index, group] : llvm::enumerate(groups)) {
    bool both = allReduce && index + 1 == groups.size();
    double least = HUGE_VAL;
    for (double size : GroupMemo::kClasses) {
      const GroupCosts &costs = memo.of(group, size);
      const AlphaBeta &cost = both ? costs.allReduce : costs.reduceScatter;
      least = std::min(least, calls * cost.alpha + cost.beta * bytes);
    }
    sec += allReduce && !both ? 2 * least : least;
    bytes /= static_cast<double>(group.size);
  }
  return sec;
}

/// Seconds per byte that `cheapest` grows at least with.
double NodeBounds::leastBeta(const Groups &groups, bool allReduce) {
  double beta = 0, part = 1;
  for (auto [index, group] : llvm::enumerate(groups)) {
    bool both = allReduce && index + 1 == groups.size();
    double least = HUGE_VAL;
    for (double size : GroupMemo::kClasses) {
      const GroupCosts &costs = memo.of(group, size);
      least =
          std::min(least, (both ? costs.allReduce : costs.reduceScatter).beta);
    }
    beta += part * (allReduce && !both ? 2 * least : least);
    part /= static_cast<double>(group.size);
  }
  return beta;
}

/// Seconds per step and stage that one more element costs at least: `onceSec`
/// per element.
double NodeBounds::onceEach(const Pricing &pricing, const KindSize &size,
                            bool isExpert) {
  const Profile &profile = problem.profile;
  int zero = pricing.outer.zero;
  auto over = [&](const Replicas &replicas) {
    double fraction = 1 / static_cast<double>(ranksOf(replicas.shard));
    double shard = leastBeta(replicas.shard, false), sums = 0, gathers = 0;
    if (zero == 1)
      sums += shard * size.gradientBytes;
    if (zero == 1 || zero == 2)
      gathers += shard * size.trainedWeightBytes * size.trainedShare;
    sums += leastBeta(replicas.rest, true) * fraction * size.gradientBytes;
    return (1 - profile.gradientOverlap) * sums +
           (1 - profile.updatedOverlap) * gathers +
           profile.updateBytes * size.trainedShare *
               (zero >= 1 ? fraction : 1) / pricing.bytesPerSec;
  };
  return isExpert ? std::min(over(pricing.expert), over(pricing.whole))
                  : over(pricing.dense);
}

/// Seconds by elements as seconds by bytes of state: at least `least` seconds,
/// and so many bytes and seconds on top per further element.
static llvm::SmallVector<std::pair<double, double>, 18>
stateCurve(llvm::ArrayRef<std::pair<double, double>> byElements, double least,
           double bytesEach, double secEach) {
  llvm::SmallVector<std::pair<double, double>, 18> points;
  auto [fewest, first] = byElements.front();
  double before = fewest, slower = first;
  for (auto [elements, sec] : byElements) {
    double at = elements, own = sec;
    if (sec < least) {
      // Where the curve meets the least seconds.
      own = least;
      at =
          slower > least && elements > before
              ? before + (elements - before) * (slower - least) / (slower - sec)
              : before;
    }
    double more = at - fewest;
    std::pair<double, double> point = {more * bytesEach, own + more * secEach};
    if (points.empty() || (point.first > points.back().first &&
                           point.second < points.back().second))
      points.push_back(point);
    if (sec < least)
      break;
    before = elements;
    slower = sec;
  }
  return points;
}

NodeBounds::Known NodeBounds::knownOf(const OuterChoice &node, int kind) {
  const Profile &profile = problem.profile;
  TableKey key = keyOf(node, kind);
  Known known;
  known.state = problem.tables->lowerBoundState(key);
  known.kept = problem.tables->lowerBoundKept(key);
  known.least = problem.tables->lowerBoundSec(key);
  known.size = layers.sizeOf(kind);
  known.gathers = gathersOf(problem, kind);
  // As `ProgramBounds` counts them.
  if (problem.measureLayers && isLayer(problem, kind) && node.pp > 1 &&
      node.microBatches > 1)
    known.deferredBytes = problem.tables->lowerBoundDeferredBytes(key);
  if (isLayer(problem, kind))
    known.least = std::max(known.least,
                           profile.leastForwardSec + profile.leastBackwardSec);
  StateBound &state = known.state;
  if (state.denseElements + state.expertElements <= 0) {
    auto tensor = static_cast<double>(node.tp);
    state.denseElements = known.size.denseElements / tensor;
    state.expertElements =
        known.size.expertElements / (tensor * static_cast<double>(node.ep));
  }
  return known;
}

/// The lower convex hull of points, as far as it falls.
static KeptCurve hullOf(KeptCurve points) {
  llvm::sort(points);
  KeptCurve hull;
  for (auto [bytes, sec] : points) {
    if (!hull.empty() && sec >= hull.back().second)
      continue;
    auto isAbove = [&, bytes = bytes, sec = sec] {
      auto [x0, y0] = hull[hull.size() - 2];
      auto [x1, y1] = hull.back();
      return (y1 - y0) * (bytes - x0) >= (sec - y0) * (x1 - x0);
    };
    while (hull.size() > 1 && isAbove())
      hull.pop_back();
    hull.push_back({bytes, sec});
  }
  return hull;
}

/// Of a solved table, the points of a layout; -1: of all.
NodeBounds::Known NodeBounds::knownOf(int kind, const LayerTable &table,
                                      int layout) const {
  double exposed = 1 - problem.profile.tensorOverlap;
  auto secondsOf = [&](const TimeParts &parts) {
    return parts.computeSec() + exposed * parts.allCommSec();
  };
  Known known;
  known.size = layers.sizeOf(kind);
  known.gathers = gathersOf(problem, kind);
  StateBound &state = known.state;
  state.denseElements = state.expertElements = state.restSec = HUGE_VAL;
  known.least = HUGE_VAL;
  KeptCurve points;
  for (const LayerPoint &point : table.points) {
    if (layout >= 0 && point.layout != layout)
      continue;
    double sec = secondsOf(point.forward) + secondsOf(point.backward);
    known.least = std::min(known.least, sec);
    points.push_back({point.savedBytes, sec + secondsOf(point.recompute)});
    state.denseElements = std::min(state.denseElements,
                                   point.denseElements - point.sharedElements);
    state.expertElements = std::min(state.expertElements, point.expertElements);
    state.restSec = std::min(state.restSec, sec - point.weightGradientSec);
  }
  state.seconds = {{state.denseElements + state.expertElements, known.least}};
  for (auto &[bytes, sec] : points)
    sec -= known.least;
  known.kept = hullOf(std::move(points));
  return known;
}

NodeBounds::Bound NodeBounds::boundOf(const Pricing &pricing,
                                      const Known &known, LayerPrice &once) {
  const OuterChoice &outer = pricing.outer;
  const Profile &profile = problem.profile;
  const KindSize &size = known.size;
  Bound bound;
  bound.kept.points.assign(known.kept.begin(), known.kept.end());
  bound.deferredBytes = known.deferredBytes;
  // Of one micro-batch, or chunk by chunk, gradients come as what was kept
  // goes.
  bool isSummed = !problem.measureLayers ||
                  (outer.microBatches > 1 && !outer.endsByChunk());
  double exposedGathers = 1 - profile.weightOverlap, gathers = 0;
  double exposedSums = 1 - profile.gradientOverlap, gradients = 0;
  double fixed = 0, state = 0;
  /// Bytes and seconds that one more element takes at least.
  double bytesEach = HUGE_VAL, secEach = HUGE_VAL, onceSecEach = HUGE_VAL;
  once = LayerPrice();
  for (bool isExpert : {false, true}) {
    double elements =
        isExpert ? known.state.expertElements : known.state.denseElements;
    if (elements <= 0)
      continue;
    // Experts: over fewer ranks (`LayerPoint::expertsWhole`), sharded over
    // more.
    const Groups &shard = isExpert ? pricing.whole.shard : pricing.dense.shard;
    double fraction =
        1 / static_cast<double>(
                ranksOf(isExpert ? pricing.expert.shard : pricing.dense.shard));
    double part[] = {1, 1, 1};
    for (int level = 1; level <= 3; ++level)
      part[level - 1] = outer.zero >= level ? fraction : 1;
    double weights = elements * size.weightBytes;
    double gradient = elements * size.gradientBytes;
    double each = size.weightBytes * part[2] +
                  (isSummed ? size.gradientBytes : 0) * part[1] +
                  (size.masterBytes + size.stateBytes) * part[0];
    double accumulate = accumulatedBytes(profile, outer.microBatches,
                                         part[1] < 1, /*isEmbedding=*/false) *
                        size.trainedShare * part[1] / pricing.bytesPerSec;
    bytesEach = std::min(bytesEach, each);
    double traffic = 0;
    if (outer.zero >= 2)
      traffic += exposedSums * leastBeta(shard, false) * size.gradientBytes;
    if (outer.zero >= 3)
      traffic += exposedGathers * known.gathers * leastBeta(shard, false) *
                 size.weightBytes;
    secEach = std::min(secEach, accumulate + traffic);
    onceSecEach = std::min(onceSecEach, onceEach(pricing, size, isExpert));
    state += elements * each;
    fixed += elements * accumulate;
    if (outer.zero >= 2)
      gradients += cheapest(shard, gradient, 1, false);
    if (outer.zero >= 3)
      gathers += cheapest(shard, weights, 1, false);
    if (fraction < 1)
      bound.bufferBytes +=
          weights * ((outer.zero >= 3 ? 2 : 0) +
                     (outer.zero >= 2 ? size.trainedShare : 0));
    once.updateElements += elements * size.trainedShare * part[0];
    ParamTraffic &own = isExpert ? once.expert : once.dense;
    own.gradients += gradient;
    own.weights += elements * size.trainedShare * size.trainedWeightBytes;
    own.trained += isExpert ? size.expertTrained : size.denseTrained;
  }
  if (state == 0) // no parameters
    bytesEach = secEach = onceSecEach = 0;
  fixed += exposedGathers * known.gathers * gathers + exposedSums * gradients;
  bound.linkSec = known.gathers * gathers + exposedSums * gradients;
  bound.state.points =
      stateCurve(known.state.seconds, known.least, bytesEach, secEach);
  if (bytesEach > 0)
    bound.onceSec = onceSecEach / bytesEach;
  for (auto &[bytes, sec] : bound.state.points) {
    bytes += state;
    sec += fixed;
  }
  return bound;
}

/// Gradients and weights of a stage as far as they cannot be hidden, and the
/// update.
double NodeBounds::onceSec(const Pricing &pricing, const LayerPrice &sum) {
  const Profile &profile = problem.profile;
  int zero = pricing.outer.zero;
  auto over = [&](const Replicas &replicas, const ParamTraffic &own) {
    auto calls = [&](double bytes) {
      return callsOf(profile, own.trained, bytes);
    };
    double sums = 0, gathers = 0;
    if (zero == 1)
      sums +=
          cheapest(replicas.shard, own.gradients, calls(own.gradients), false);
    if (zero == 1 || zero == 2)
      gathers +=
          cheapest(replicas.shard, own.weights, calls(own.weights), false);
    double part = own.gradients / static_cast<double>(ranksOf(replicas.shard));
    sums += cheapest(replicas.rest, part, calls(part), true);
    return (1 - profile.gradientOverlap) * sums +
           (1 - profile.updatedOverlap) * gathers;
  };
  return over(pricing.dense, sum.dense) +
         std::min(over(pricing.expert, sum.expert),
                  over(pricing.whole, sum.expert)) +
         profile.updateBytes * sum.updateElements / pricing.bytesPerSec;
}

/// Layers of other kinds in front of a kind's run and behind it. Where it has
/// several runs among others: so many that no chunk is known to have one.
static std::pair<int64_t, int64_t> besidesOf(const SearchProblem &problem,
                                             int kind) {
  int64_t before = 0, behind = 0, runs = 0, own = 0;
  for (auto [other, count] : problem.runs) {
    if (!isLayer(problem, other))
      continue;
    runs += other == kind;
    own += other == kind ? count : 0;
    if (other != kind)
      (runs > 0 ? behind : before) += count;
  }
  if (runs > 1 && before + behind > 0)
    before = behind = before + behind + own;
  return {before, behind};
}

NodeBounds::Relaxed NodeBounds::relax(const Pricing &pricing,
                                      llvm::ArrayRef<Known> known) {
  const OuterChoice &outer = pricing.outer;
  Relaxed relaxed;
  LayerPrice once, firstOnce, meanOnce;
  std::optional<LayerPrice> leastOnce; // of a layer
  // Micro-batches that the slowest stage counts for at least.
  double steps = std::max(0.0, static_cast<double>(outer.microBatches) -
                                   (outer.pp > 1 ? problem.profile.bubble : 0));
  for (auto [kind, facts] : llvm::zip(kindsOf(problem), known)) {
    Bound bound = boundOf(pricing, facts, once);
    double count = 0;
    for (auto [other, layers] : problem.runs)
      count += other == kind ? static_cast<double>(layers) : 0;
    relaxed.sumSec += count * bound.least();
    relaxed.restSec += count * facts.state.restSec;
    // One stage has all of them.
    if (kind == embeddingOf(problem) || outer.pp == 1)
      addOnce(firstOnce, once, count);
    if (isLayer(problem, kind)) {
      relaxed.allLayers += static_cast<int64_t>(count);
      relaxed.slowLayerSec = std::max(relaxed.slowLayerSec, bound.least());
      relaxed.fastLayerSec = std::min(relaxed.fastLayerSec, bound.least());
      if (!leastOnce)
        leastOnce = once;
      keepLeast(*leastOnce, once);
    }
    double extra = HUGE_VAL;
    for (auto [bytes, sec] : bound.state.points)
      extra =
          std::min(extra, steps * (sec - bound.state.fastest()) +
                              bound.onceSec * (bytes - bound.state.fewest()));
    relaxed.extraSec += count * extra / static_cast<double>(outer.pp);
    if (kind == embeddingOf(problem))
      relaxed.first = std::move(bound);
    else if (kind == headOf(problem))
      relaxed.last = std::move(bound);
    else {
      double before = static_cast<double>(relaxed.layers);
      if (before > 0 && before * relaxed.layer.least() > count * bound.least())
        continue;
      relaxed.layer = std::move(bound);
      relaxed.layers = static_cast<int64_t>(count);
      std::tie(relaxed.before, relaxed.behind) = besidesOf(problem, kind);
    }
  }
  double part = static_cast<double>(outer.microBatch) /
                static_cast<double>(outer.tp * outer.cp);
  relaxed.restSec = std::max(relaxed.restSec, layers.restSec() * part);
  meanOnce = firstOnce;
  if (outer.pp > 1 && leastOnce)
    addOnce(meanOnce, *leastOnce,
            static_cast<double>(relaxed.allLayers) /
                static_cast<double>(outer.pp));
  relaxed.firstOnceSec = onceSec(pricing, firstOnce);
  relaxed.onceSec = onceSec(pricing, meanOnce);
  double boundary = layers.leastBoundary() * part;
  relaxed.sendSec = sendSecs(problem, outer, boundary);
  int values = (outer.tp * outer.cp > 1 ? 1 : 0) + (outer.pp > 1 ? 2 : 0);
  relaxed.layer.bufferBytes += values * boundary;
  if (problem.measureLayers)
    keepToPrograms(relaxed);
  return relaxed;
}

/// Leaves out what sums over layers have and programs may do without: buffers,
/// and what the ends keep.
void NodeBounds::keepToPrograms(Relaxed &relaxed) {
  relaxed.layer.bufferBytes = 0;
  for (Bound *end : {&relaxed.first, &relaxed.last}) {
    end->bufferBytes = 0;
    for (auto &[bytes, sec] : end->kept.points)
      bytes = 0;
  }
}
