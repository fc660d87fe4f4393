//===- LayerBounds.cpp - what no layout of a layer can go below -----------===//
//
// Problem: a search asks for bounds of thousands of keys, and can afford to
// solve a few hundred.
//
// Idea: without latencies and shapes a layer's costs are linear in the
// micro-batch, so one solve per axis and group bounds all keys with it.
//
// Several axes: the others divide an op's seconds, a conversion's bytes
// and a parameter's elements by no more than their ranks, so a layout's part on
// one axis alone takes at most so many times as much. It takes that whether the
// ops count in full on one axis or 1/k on each of k axes. In the latter case
// the traffic of all axes adds up:
//
//   layout >= sum over axes of least(1/k of the ops + traffic of the axis)
//
// Example: 4 tensor x 4 expert ranks, 16 s of ops, traffic of 1 s and 3 s, each
// on its axis alone. Alone they bound by 16/16 + 1/4 and 16/16 + 3/4; together
// by 1 + 1/4 + 3/4.
//
//===----------------------------------------------------------------------===//

#include "LayerBounds.h"

#include "kerf/Cost/Kernels.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

using namespace kerf;

static_assert(kInnerExpert + 1 == kInnerAxes);

LayerBounds::LayerBounds(const LayerContext &context,
                         const OptionFilter &filter,
                         const std::vector<LayerFacts> &facts)
    : context(context), filter(filter), facts(facts) {
  for (size_t kind = 0; kind < facts.size(); ++kind)
    bounds.push_back(boundOf(static_cast<int>(kind)));
}

/// Matmuls at the best rate and rows at full bandwidth, divided over
/// everything.
LayerBounds::Bound LayerBounds::boundOf(int number) const {
  const LayerKind &kind = context.step->kinds[number];
  Device device = context.machine->perRank().device;
  const Profile &profile = context.profile;
  const KernelTraffic &traffic =
      facts[number]
          .traffic[static_cast<size_t>(kernelStyleOf(profile, device))];
  Bound bound;
  for (auto [i, op] : llvm::enumerate(kind.ops)) {
    if (op.view || traffic.ops[i].inMatmul)
      continue;
    if (op.work.matmulFlops > 0) {
      MatmulShape huge{1, 1 << 17, 1 << 17, 1 << 17, op.isGrouped()};
      double rate = huge.flops() / matmulSec(device, profile, huge, op.type, 2);
      bound.seconds += op.work.matmulFlops / rate;
    } else if (op.work.attentionFlops > 0) {
      bound.seconds +=
          attentionSec(device, profile,
                       {op.work.attentionFlops, 0, op.headSize, op.scores,
                        op.type, op.phase != LayerPhase::Forward});
    } else {
      double bytes = 0;
      for (auto [value, moves] : llvm::zip(op.results, traffic.ops[i].writes))
        if (moves && kind.values[value].gradientOf < 0)
          bytes += kind.values[value].bytes();
      bound.seconds += rowSec(device, profile, bytes, 0);
    }
  }
  if (kind.input >= 0 &&
      llvm::is_contained(kind.values[kind.input].classes, IndexClass::Batch))
    bound.inputBytes = kind.values[kind.input].bytes();
  return bound;
}

/// Ranks that share a layer and the part of the batch that they work on.
static double partOf(const TableKey &key, int64_t batch) {
  double local = double(key.microBatch * key.groups[2].size) / double(batch);
  for (const Group &group : key.groups)
    local /= double(group.size);
  return local;
}

/// Without latencies and shapes, of a part of the machine that works on the
/// whole batch. What an op moves grows with the micro-batch or stays (tables
/// that are read, gradients that are written), so m of n sequences take no less
/// than m / n of the time.
LayerQuery LayerBounds::idealQuery(int kind, int axis, Group group) const {
  LayerQuery query;
  query.key.kind = kind;
  query.key.groups[axis] = group;
  int64_t experts = query.key.groups[kInnerExpert].size;
  query.key.microBatch = std::max<int64_t>(1, context.step->batch / experts);
  query.microBatches = int64_t(1) << 40;
  query.restFree = false;
  query.ideal = true;
  query.commWeight = 1 - context.profile.tensorOverlap;
  query.filter = filter;
  return query;
}

/// The kind with deferred weight gradients that take no time.
static LayerKind withoutDeferred(LayerKind kind) {
  for (LayerOp &op : kind.ops)
    op.view |= op.isDeferred;
  return kind;
}

LayerKind kerf::withoutBeside(LayerKind kind, const LayerFacts &facts) {
  for (size_t i = 0; i < kind.ops.size(); ++i)
    kind.ops[i].view |=
        facts.beside[i] ||
        (facts.besideHome[i] && kind.ops[i].phase != LayerPhase::Forward);
  return kind;
}

/// The kind with recomputed matmuls of experts that take no time, too: what the
/// backward pass exchanges runs beside them.
static LayerKind withoutGrouped(LayerKind kind) {
  for (LayerOp &op : kind.ops)
    op.view |= op.phase == LayerPhase::Forward && op.isGrouped();
  return kind;
}

/// Seconds per sequence of one axis alone, to which 1/shares of the ops is
/// charged.
double LayerBounds::ideal(Part part, int kind, int axis, Group group,
                          int shares) {
  auto [it, isNew] = idealSec.try_emplace(
      std::array<int64_t, 6>{static_cast<int64_t>(part), kind, axis, group.size,
                             group.stride, shares},
      0.0);
  if (!isNew)
    return it->second;
  LayerQuery query = idealQuery(kind, axis, group);
  query.commWeight *= shares;
  if (context.step->batch % query.key.groups[kInnerExpert].size != 0)
    return 0;
  LayerKind own = withoutBeside(context.step->kinds[kind], facts[kind]);
  if (part == Part::Rest)
    own = withoutDeferred(std::move(own));
  LayerTerms terms(context, query, own, facts[kind]);
  LayerSolution solution = solveIdeal(terms, axis);
  double sequences = double(query.key.microBatch) * shares;
  return it->second =
             solution.possible() ? leastSecOf(solution, own) / sequences : 1e12;
}

double kerf::scaleOf(const TableKey &key, int axis) {
  double others = 1;
  // Expert ranks bring sequences of their own.
  for (int other = 0; other < kInnerExpert; ++other)
    others *= other == axis ? 1 : double(key.groups[other].size);
  return double(key.microBatch) / others;
}

llvm::SmallVector<int, 3> kerf::axesOf(const TableKey &key) {
  llvm::SmallVector<int, 3> axes;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (key.groups[axis].size > 1)
      axes.push_back(axis);
  return axes;
}

double LayerBounds::bound(Part part, const TableKey &key) {
  double alone = 0, together = 0;
  llvm::SmallVector<int, 3> axes = axesOf(key);
  auto shares = static_cast<int>(axes.size());
  for (int axis : axes) {
    Group group = key.groups[axis];
    double scale = scaleOf(key, axis);
    alone = std::max(alone, ideal(part, key.kind, axis, group, 1) * scale);
    together += ideal(part, key.kind, axis, group, shares) * scale;
  }
  return std::max(alone, together);
}

double LayerBounds::seconds(const TableKey &key) {
  double least = bounds[key.kind].seconds * partOf(key, context.step->batch);
  return std::max(least, bound(Part::All, key)) * kBestRate;
}

/// A convex function through points with ascending bytes is nowhere below the
/// lines through neighbours, each taken outside of its two points. Where the
/// points are few enough the solver has found all of them, and there is nothing
/// between.
static KeptCurve underPoints(KeptCurve points) {
  constexpr size_t kAllFound = 8;
  if (points.size() < kAllFound)
    return points;
  auto at = [&](size_t i, double bytes) {
    auto [x0, y0] = points[i];
    auto [x1, y1] = points[i + 1];
    return y0 + (y1 - y0) / (x1 - x0) * (bytes - x0);
  };
  auto slope = [&](size_t i) {
    return (points[i + 1].second - points[i].second) /
           (points[i + 1].first - points[i].first);
  };
  KeptCurve curve = {points.front()};
  size_t last = points.size() - 1;
  // In front of the second point only the line behind it is known.
  curve.front().second = std::max(0.0, at(1, points.front().first));
  for (size_t i = 1; i < last; ++i) {
    curve.push_back(points[i]);
    // Between i and i + 1: where the lines before and behind meet.
    if (i + 2 > last)
      continue;
    double apart = slope(i + 1) - slope(i - 1);
    if (apart <= 0)
      continue;
    double bytes = (at(i - 1, 0) - at(i + 1, 0)) / apart;
    if (bytes > points[i].first && bytes < points[i + 1].first)
      curve.push_back({bytes, at(i - 1, bytes)});
  }
  // Behind the last but one, the line before it, and never below zero.
  double zero =
      points[last - 1].first - points[last - 1].second / slope(last - 2);
  curve.push_back({std::min(points[last].first, zero), 0});
  return curve;
}

/// One sequence on one rank, without shapes.
///
/// Why it bounds every layout on n ranks: a value that is kept there takes at
/// least 1/n of its bytes, and an op that is recomputed at least 1/n of its
/// seconds, since neither is divided by more than n; which ops must be
/// recomputed for a set of kept values depends on the ops alone. So n x (bytes,
/// seconds) of a point is above the curve of one rank, whose seconds and bytes
/// per sequence do not depend on the micro-batch.
KeptCurve LayerBounds::curveOf(int kind, bool travels) const {
  // One sequence, or prices of bytes leave the range of costs; what does not
  // grow with the batch counts nothing.
  LayerQuery query = idealQuery(kind, kInnerTensor, Group{});
  query.key.microBatch = 1;
  LayerKind own = withoutBeside(context.step->kinds[kind], facts[kind]);
  if (travels)
    own = withoutGrouped(std::move(own));
  for (LayerValue &value : own.values)
    if (!llvm::is_contained(value.classes, IndexClass::Batch))
      value.elementBytes = 0;
  LayerTerms terms(context, query, own, facts[kind]);
  LayerSolution solution = solveWith(terms);
  if (!solution.possible())
    return {};
  KeptCurve points;
  for (auto &[layout, cost] : recomputationPointsWith(terms, solution.layout))
    points.push_back(
        {cost.point.savedBytes, cost.point.recompute.computeSec()});
  std::reverse(points.begin(), points.end());
  return underPoints(std::move(points));
}

KeptCurve LayerBounds::kept(const TableKey &key) {
  bool travels = key.groups[kInnerExpert].size > 1 &&
                 llvm::is_contained(facts[key.kind].beside, true);
  auto [it, isNew] = curves.try_emplace({key.kind, travels});
  if (isNew)
    it->second = curveOf(key.kind, travels);
  if (it->second.empty())
    return {{savedBytes(key), 0}};
  double part = double(context.step->batch) * partOf(key, context.step->batch);
  KeptCurve curve = it->second;
  for (auto &[bytes, seconds] : curve) {
    bytes *= part;
    seconds *= part * kBestRate;
  }
  return curve;
}

/// Gradients of a kind that deferred weight gradients read, as far as they grow
/// with the batch; views of one value count once, by the largest part that is
/// read.
static double readLate(const LayerKind &kind) {
  std::vector<int> sources(kind.values.size());
  std::iota(sources.begin(), sources.end(), 0);
  std::function<int(int)> sourceOf = [&](int value) {
    return sources[value] == value ? value
                                   : sources[value] = sourceOf(sources[value]);
  };
  for (const LayerOp &op : kind.ops)
    if (op.view)
      for (int operand : op.operands)
        sources[sourceOf(operand)] = sourceOf(op.results[0]);
  std::map<int, double> bytes;
  for (const LayerOp &op : kind.ops) {
    if (!op.isDeferred || op.view)
      continue;
    for (int operand : op.operands) {
      const LayerValue &value = kind.values[operand];
      bool isMade = value.producer < 0 ? operand == kind.outputGradient
                                       : !kind.ops[value.producer].isDeferred;
      if (value.forward || !isMade ||
          !llvm::is_contained(value.classes, IndexClass::Batch))
        continue;
      double &largest = bytes[sourceOf(operand)];
      largest = std::max(largest, value.bytes());
    }
  }
  double sum = 0;
  for (auto [source, largest] : bytes)
    sum += largest;
  return sum;
}

double LayerBounds::deferredBytes(const TableKey &key) {
  auto [it, isNew] = deferred.try_emplace(key.kind, 0);
  if (isNew)
    it->second = readLate(context.step->kinds[key.kind]);
  return it->second * partOf(key, context.step->batch);
}

double LayerBounds::savedBytes(const TableKey &key) const {
  return bounds[key.kind].inputBytes * partOf(key, context.step->batch);
}
