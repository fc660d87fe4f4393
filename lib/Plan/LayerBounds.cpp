//===- LayerBounds.cpp - what no layout of a layer can go below -----------===//
//
// Problem: a search asks for bounds of thousands of keys, and can afford to
// solve a few hundred.
//
// Idea: without latencies and shapes a layer's costs are linear in the
// micro-batch, so one solve per axis and group bounds all keys with it.
//
// Several axes: what the others do cuts an op's seconds, a conversion's bytes
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
#include <optional>

using namespace kerf;

static constexpr int kTensor = static_cast<int>(InnerAxis::Tensor);
static constexpr int kContext = static_cast<int>(InnerAxis::Context);
static constexpr int kExpert = static_cast<int>(InnerAxis::Expert);
static_assert(kExpert + 1 == kInnerAxes);

/// The best rate of products is taken at a large shape, where the last wave of
/// tiles is not full: up to 148 of 524288 / 148 waves' tiles may be missing. No
/// shape is faster than this makes it.
constexpr double kBestRate = 1 - 3e-4;

LayerBounds::LayerBounds(const LayerContext &context,
                         const OptionFilter &filter,
                         const std::vector<LayerFacts> &facts)
    : context(context), filter(filter), facts(facts) {
  for (size_t kind = 0; kind < facts.size(); ++kind)
    floors.push_back(floorOf(static_cast<int>(kind)));
}

/// Products at the best rate and rows at full bandwidth, cut over everything.
LayerBounds::Floor LayerBounds::floorOf(int number) const {
  const LayerKind &kind = context.step->kinds[number];
  Device device = context.machine->perRank().device;
  const Profile &profile = context.profile;
  Floor floor;
  for (const LayerOp &op : kind.ops) {
    if (op.view)
      continue;
    if (op.work.matmulFlops > 0) {
      MatmulShape huge{1, 1 << 17, 1 << 17, 1 << 17};
      double rate = huge.flops() / matmulSec(device, profile, huge, op.type, 2);
      floor.seconds += op.work.matmulFlops / rate;
    } else if (op.work.attentionFlops > 0) {
      floor.seconds +=
          attentionSec(device, profile, op.work.attentionFlops, 0, op.headSize,
                       op.scores, op.type, op.phase != LayerPhase::Forward);
    } else {
      double bytes = 0;
      for (int value : op.results)
        if (!facts[number].fusedAway[value] &&
            kind.values[value].gradientOf < 0)
          bytes += kind.values[value].bytes();
      floor.seconds += rowSec(device, profile, bytes, 0);
    }
  }
  if (kind.input >= 0 &&
      llvm::is_contained(kind.values[kind.input].classes, IndexClass::Batch))
    floor.inputBytes = kind.values[kind.input].bytes();
  return floor;
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
  int64_t experts = query.key.groups[static_cast<int>(InnerAxis::Expert)].size;
  query.key.microBatch = std::max<int64_t>(1, context.step->batch / experts);
  query.microBatches = int64_t(1) << 40;
  query.restFree = false;
  query.ideal = true;
  query.commWeight = 1 - context.profile.tensorOverlap;
  query.filter = filter;
  return query;
}

/// The kind with weight gradients that take no time.
static LayerKind withoutWeightGradients(LayerKind kind) {
  for (LayerOp &op : kind.ops)
    op.view |= op.phase == LayerPhase::WeightGradient;
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
  if (context.step->batch % query.key.groups[kExpert].size != 0)
    return 0;
  LayerKind own = context.step->kinds[kind];
  if (part == Part::Rest)
    own = withoutWeightGradients(std::move(own));
  LayerTerms terms(context, query, own, facts[kind]);
  LayerSolution solution = solveIdeal(terms, axis);
  double sequences = double(query.key.microBatch) * shares;
  return it->second = solution.possible()
                          ? double(solution.picoseconds) * 1e-12 / sequences
                          : 1e12;
}

/// Seconds of a micro-batch for a second per sequence of an axis alone.
static double scaleOf(const TableKey &key, int axis) {
  double others = 1;
  // Expert ranks bring sequences of their own.
  for (int other = 0; other < kExpert; ++other)
    others *= other == axis ? 1 : double(key.groups[other].size);
  return double(key.microBatch) / others;
}

/// Axes of more than one rank.
static llvm::SmallVector<int, 3> axesOf(const TableKey &key) {
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
  double least = floors[key.kind].seconds * partOf(key, context.step->batch);
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
/// least 1/n of its bytes, and an op that is made again at least 1/n of its
/// seconds, since neither is cut by more than n; which ops must be made again
/// for a set of kept values depends on the ops alone. So n x (bytes, seconds)
/// of a point is above the curve of one rank, whose seconds and bytes per
/// sequence do not depend on the micro-batch.
KeptCurve LayerBounds::curveOf(int kind) const {
  // One sequence, or prices of bytes leave the range of costs; what does not
  // grow with the batch counts nothing.
  LayerQuery query = idealQuery(kind, kTensor, Group{});
  query.key.microBatch = 1;
  LayerKind own = context.step->kinds[kind];
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
  auto [it, isNew] = curves.try_emplace(key.kind);
  if (isNew)
    it->second = curveOf(key.kind);
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

double LayerBounds::savedBytes(const TableKey &key) const {
  return floors[key.kind].inputBytes * partOf(key, context.step->batch);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Whether some op that reads a parameter has a factor of that index in it
/// which `ranks` divide.
static bool isCutBy(const LayerKind &kind, int param, IndexClass index,
                    int64_t ranks) {
  for (const LayerOp &op : kind.ops)
    for (auto [value, dims] : llvm::zip(op.operands, op.operandFactors)) {
      if (kind.values[value].param != param)
        continue;
      for (const DimFactors &dim : dims)
        for (unsigned f : dim)
          if (op.factors[f].index == index &&
              op.factors[f].factor.size % ranks == 0)
            return true;
    }
  return false;
}

/// By what ranks of an axis cut some parameter of a kind; 1: they cut none.
int64_t LayerBounds::cutOf(const TableKey &key, InnerAxis axis,
                           IndexClass index) {
  int64_t ranks = key.groups[static_cast<int>(axis)].size;
  auto [it, isNew] =
      cuts.try_emplace({key.kind, static_cast<int>(axis), ranks}, int64_t(1));
  const LayerKind &kind = context.step->kinds[key.kind];
  for (size_t param = 0; isNew && param < kind.params.size(); ++param)
    if (isCutBy(kind, static_cast<int>(param), index, ranks))
      it->second = ranks;
  return it->second;
}

/// The kind with parameters of one byte per element, as much of it as the
/// context and expert ranks of the key leave on a rank; of experts `part`.
LayerKind LayerBounds::weighted(const TableKey &key, double part) const {
  LayerKind kind = context.step->kinds[key.kind];
  for (auto [number, param] : llvm::enumerate(kind.params)) {
    double left = param.shared ? 0 : param.expert ? part : 1;
    int own = static_cast<int>(number);
    for (auto [axis, index] : {std::pair(kExpert, IndexClass::Expert),
                               std::pair(kContext, IndexClass::Sequence)})
      if (isCutBy(kind, own, index, key.groups[axis].size))
        left /= double(key.groups[axis].size);
    param.weightBytes = left;
    param.masterBytes = param.gradientBytes = param.stateBytes = 0;
  }
  return kind;
}

/// Solves an axis, to which 1/shares of the ops is charged, under prices of an
/// element (a byte of `kind`'s weights): free, so dear that none is held in
/// vain, and between known points while that raises the bound.
std::vector<LayerBounds::Line> LayerBounds::linesOf(int axis, Group group,
                                                    const LayerKind &kind,
                                                    int number,
                                                    int shares) const {
  constexpr int kMostSolves = 7;
  LayerQuery query = idealQuery(number, axis, group);
  query.commWeight *= shares;
  double sequences = double(query.key.microBatch);
  LayerTerms terms(context, query, kind, facts[number]);
  std::vector<Line> lines;
  struct Point {
    double seconds = 0, elements = 0;
  };
  auto solve = [&](double price) -> std::optional<Point> {
    query.statePrice = price * sequences * shares;
    LayerSolution solution = solveIdeal(terms, axis);
    if (!solution.possible())
      return std::nullopt;
    Point point;
    for (size_t p = 0; p < kind.params.size(); ++p)
      point.elements += kind.params[p].weightBytes *
                        terms.paramElements(p, solution.layout, -1,
                                            &AxisLayout::Rest::weight);
    double value = double(solution.picoseconds) * 1e-12 / (sequences * shares);
    point.seconds = value - price * point.elements;
    lines.push_back({price, value});
    return point;
  };
  std::optional<Point> free = solve(0);
  if (!free || free->elements <= 0)
    return lines;
  std::optional<Point> few = solve(1e3 * free->seconds / free->elements);
  std::vector<std::pair<Point, Point>> open = {{*free, *few}};
  while (!open.empty() && lines.size() < kMostSolves) {
    auto [fast, small] = open.front();
    open.erase(open.begin());
    double less = fast.elements - small.elements;
    double slower = small.seconds - fast.seconds;
    if (less <= 1e-6 * fast.elements || slower <= 1e-6 * fast.seconds)
      continue;
    double price = slower / less;
    Point middle = *solve(price);
    if (lines.back().value >=
        (fast.seconds + price * fast.elements) * (1 - 1e-6))
      continue;
    open.push_back({fast, middle});
    open.push_back({middle, small});
  }
  llvm::sort(lines,
             [](const Line &a, const Line &b) { return a.price < b.price; });
  return lines;
}

/// The least value under a price: at least that of the line between the
/// neighbours, since it is concave, and nowhere falls.
double LayerBounds::valueAt(llvm::ArrayRef<Line> lines, double price) {
  auto above = llvm::partition_point(
      lines, [&](const Line &line) { return line.price <= price; });
  if (lines.empty() || above == lines.end())
    return lines.empty() ? 0 : lines.back().value;
  const Line &next = *above, &last = *(above - 1);
  return last.value + (next.value - last.value) * (price - last.price) /
                          (next.price - last.price);
}

/// Lines of the tensor axis alone, to which `part` of what experts cost is
/// charged.
const std::vector<LayerBounds::Line> &
LayerBounds::tensorLines(const TableKey &key, int shares, double part) {
  Group group = key.groups[kTensor];
  auto [it, isNew] =
      tensors.try_emplace({key.kind, group.size, group.stride,
                           cutOf(key, InnerAxis::Context, IndexClass::Sequence),
                           cutOf(key, InnerAxis::Expert, IndexClass::Expert),
                           shares, static_cast<int64_t>(2 * part)});
  if (isNew)
    it->second = linesOf(kTensor, group, weighted(key, part), key.kind, shares);
  return it->second;
}

/// Lines of the expert axis alone under prices of an expert's element.
const std::vector<LayerBounds::Line> &
LayerBounds::expertLines(const TableKey &key, int shares) {
  Group group = key.groups[kExpert];
  auto [it, isNew] =
      experts.try_emplace({key.kind, group.size, group.stride, shares});
  if (isNew && context.step->batch % group.size == 0) {
    LayerKind kind = context.step->kinds[key.kind];
    for (LayerParam &param : kind.params) {
      param.weightBytes = param.expert && !param.shared ? 1 : 0;
      param.masterBytes = param.gradientBytes = param.stateBytes = 0;
    }
    it->second = linesOf(kExpert, group, kind, key.kind, shares);
  }
  return it->second;
}

/// Lines of all axes together, per sequence as those of the tensor axis. What
/// dense elements cost is charged to the tensor axis, what those of experts
/// cost to it and to the expert axis by halves.
std::vector<LayerBounds::Line> LayerBounds::together(const TableKey &key,
                                                     const State &state) {
  llvm::SmallVector<int, 3> axes = axesOf(key);
  auto shares = static_cast<int>(axes.size());
  bool cutsTensor = key.groups[kTensor].size > 1;
  bool cutsExperts = key.groups[kExpert].size > 1;
  double part = !cutsExperts ? 0 : cutsTensor ? 0.5 : 1;
  TableKey sequence = key;
  sequence.microBatch = key.groups[kContext].size;
  std::vector<Line> own, other;
  if (cutsTensor)
    own = tensorLines(key, shares, 1 - part);
  if (cutsExperts)
    other = expertLines(key, shares);
  // A second of the expert axis alone is at least 1/tp of one here, and of an
  // element a rank holds at least 1/(tp cp).
  double scale = scaleOf(sequence, kExpert);
  double each = part / double(key.groups[kContext].size);
  double fixed = 0;
  if (key.groups[kContext].size > 1)
    fixed = scaleOf(sequence, kContext) *
            ideal(Part::All, key.kind, kContext, key.groups[kContext], shares);
  std::vector<double> prices;
  for (const Line &line : own)
    prices.push_back(line.price);
  for (const Line &line : other)
    prices.push_back(line.price / each);
  llvm::sort(prices);
  std::vector<Line> lines;
  for (double price : prices) {
    double value =
        fixed + valueAt(own, price) + scale * valueAt(other, each * price);
    if (!cutsTensor)
      value += price * state.denseElements;
    lines.push_back({price, value});
  }
  return lines;
}

/// The largest of lines value - price x elements, from `fewest` elements on, as
/// points. Some line has the price 0.
template <typename Line>
static std::vector<std::pair<double, double>>
highest(llvm::ArrayRef<Line> lines, double fewest) {
  auto at = [](const Line &line, double elements) {
    return line.value - line.price * elements;
  };
  auto top = [&](double elements) {
    return *std::max_element(
        lines.begin(), lines.end(), [&](const Line &a, const Line &b) {
          return std::make_pair(at(a, elements), -a.price) <
                 std::make_pair(at(b, elements), -b.price);
        });
  };
  Line line = top(fewest);
  std::vector<std::pair<double, double>> points = {{fewest, at(line, fewest)}};
  while (line.price > 0) {
    const Line *next = nullptr;
    double nearest = 0;
    for (const Line &other : lines) {
      if (other.price >= line.price)
        continue;
      double meet = (line.value - other.value) / (line.price - other.price);
      if (!next || meet < nearest) {
        next = &other;
        nearest = meet;
      }
    }
    line = *next;
    if (nearest > points.back().first)
      points.push_back({nearest, at(line, nearest)});
  }
  return points;
}

StateFloor LayerBounds::parameters(const TableKey &key, bool priced) {
  const auto &[groups, kind] = std::tie(key.groups, key.kind);
  auto [it, isNew] =
      states.try_emplace({kind, groups[kTensor].size, groups[kTensor].stride,
                          groups[kContext].size, groups[kContext].stride,
                          groups[kExpert].size, groups[kExpert].stride});
  State &state = it->second;
  if (isNew) {
    LayerKind left = weighted(key, 1);
    for (const LayerParam &param : left.params)
      (param.expert ? state.expertElements : state.denseElements) +=
          param.elements * param.weightBytes / double(groups[kTensor].size);
    priced &= !left.params.empty();
    if (groups[kTensor].size > 1 && priced)
      state.lines = tensorLines(key, 1, 1);
    bool alone = axesOf(key).size() < 2 && groups[kExpert].size == 1;
    if (!alone && priced)
      llvm::append_range(state.lines, together(key, state));
  }
  StateFloor floor{state.denseElements, state.expertElements, {}};
  double scale = kBestRate * scaleOf(key, kTensor);
  llvm::SmallVector<Line, 16> lines = {{0, seconds(key)}};
  for (const Line &line : state.lines)
    lines.push_back({line.price * scale, line.value * scale});
  floor.seconds =
      highest<Line>(lines, floor.denseElements + floor.expertElements);
  floor.restSec = bound(Part::Rest, key) * kBestRate;
  return floor;
}
