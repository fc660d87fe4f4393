//===- LayerStates.cpp - what no layout of a layer holds less for ---------===//
//
// Problem: before its table is solved, what does a layer take at least for the
// parameters that a rank holds?
//
// Idea: solves of axes alone under prices of an element bound seconds + price x
// elements; the largest of these lines is a convex curve of seconds by
// elements. Expert ranks are taken to hold parts of the experts. Where a pin or
// a given plan lets them hold all, they hold no less and sum no fewer
// gradients, so the bounds hold for these, too.
//
// Example: a layer takes 8 ms where each rank holds all of its elements, 10 ms
// with a quarter of them: with a half at least 9.3 ms, on the line between.
//
//===----------------------------------------------------------------------===//

#include "LayerBounds.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace kerf;

TiedShards kerf::shardsOf(const LayerLayout &first, size_t p,
                          const LayerLayout &second, size_t q) {
  TiedShards shards = {};
  for (size_t axis = 0; axis < kInnerAxes; ++axis) {
    const AxisLayout &own = first.axes[axis], &other = second.axes[axis];
    if (!own.params.empty() && !other.params.empty())
      shards[axis] = {own.params[p].weight, other.params[q].weight};
  }
  return shards;
}

TiedShards kerf::tiedShards(const LayerKind &firstKind,
                            const LayerLayout &first,
                            const LayerKind &secondKind,
                            const LayerLayout &second) {
  for (auto [q, param] : llvm::enumerate(secondKind.params))
    for (auto [p, other] : llvm::enumerate(firstKind.params))
      if (param.shared && param.name == other.name)
        return shardsOf(first, p, second, q);
  return {};
}

/// Whether some op that reads a parameter has a factor of that index in it
/// which `ranks` divide.
static bool isShardedBy(const LayerKind &kind, int param, IndexClass index,
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

/// Of a parameter's elements, what the context and expert ranks of the key
/// leave on a rank, by parameter; of experts `part`.
std::vector<double> LayerBounds::weightsOf(const TableKey &key,
                                           double part) const {
  const LayerKind &kind = context.step->kinds[key.kind];
  std::vector<double> weights;
  for (auto [number, param] : llvm::enumerate(kind.params)) {
    double left = param.shared ? 0 : param.expert ? part : 1;
    int own = static_cast<int>(number);
    for (auto [axis, index] : {std::pair(kInnerExpert, IndexClass::Expert),
                               std::pair(kInnerContext, IndexClass::Sequence)})
      if (isShardedBy(kind, own, index, key.groups[axis].size))
        left /= double(key.groups[axis].size);
    weights.push_back(left);
  }
  return weights;
}

/// The kind with parameters of so many bytes per element.
LayerKind LayerBounds::weighted(int number,
                                llvm::ArrayRef<double> weights) const {
  LayerKind kind = context.step->kinds[number];
  for (auto [param, weight] : llvm::zip_equal(kind.params, weights)) {
    param.weightBytes = weight;
    param.masterBytes = param.gradientBytes = param.stateBytes = 0;
  }
  return kind;
}

namespace {
/// Elements that a rank holds and seconds, and the line that found them.
struct Point {
  double seconds = 0, elements = 0;
  LayerBounds::Line line;
};

/// Two points without a known one between them.
struct Between {
  Point fast, small;
  /// By what part the bound may rise at most: where the two lines meet, up to
  /// the straight way between the points.
  double gain() const {
    double less = fast.elements - small.elements;
    double slower = small.seconds - fast.seconds;
    double extra = small.line.price - fast.line.price;
    if (less <= 1e-6 * fast.elements || slower <= 1e-6 * fast.seconds ||
        extra <= 0)
      return 0;
    double meet = (small.line.value - fast.line.value) / extra;
    double bound = fast.line.value - fast.line.price * meet;
    double way = fast.seconds + (fast.elements - meet) * slower / less;
    return bound > 0 ? way / bound - 1 : HUGE_VAL;
  }
};
} // namespace

/// Solves an axis, to which 1/shares of the ops is charged, under prices of an
/// element (a byte of `kind`'s weights): free, at a price at which none is held
/// in vain, and between known points, where that may raise the bound most.
std::vector<LayerBounds::Line> LayerBounds::linesOf(int axis, Group group,
                                                    const LayerKind &kind,
                                                    int number,
                                                    int shares) const {
  constexpr int kMostSolves = 7;
  constexpr double kEnough = 1e-3; // of the bound
  LayerQuery query = idealQuery(number, axis, group);
  query.commWeight *= shares;
  double sequences = double(query.key.microBatch);
  LayerKind own = group.size > 1 ? withoutBeside(kind, facts[number]) : kind;
  LayerTerms terms(context, query, own, facts[number]);
  std::vector<Line> lines;
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
    double value = leastSecOf(solution, kind) / (sequences * shares);
    point.seconds = value - price * point.elements;
    point.line = {price, value};
    lines.push_back(point.line);
    return point;
  };
  std::optional<Point> free = solve(0);
  if (!free || free->elements <= 0)
    return lines;
  std::optional<Point> few = solve(1e3 * free->seconds / free->elements);
  if (!few)
    return lines; // beyond what costs can say
  std::vector<Between> open = {{*free, *few}};
  while (!open.empty() && lines.size() < kMostSolves) {
    auto most = llvm::max_element(open, [](const Between &a, const Between &b) {
      return a.gain() < b.gain();
    });
    if (most->gain() < kEnough)
      break;
    auto [fast, small] = *most;
    open.erase(most);
    double price =
        (small.seconds - fast.seconds) / (fast.elements - small.elements);
    if (std::optional<Point> middle = solve(price)) {
      open.push_back({fast, *middle});
      open.push_back({*middle, small});
    }
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
  Group group = key.groups[kInnerTensor];
  std::vector<double> weights = weightsOf(key, part);
  auto [it, isNew] = tensors.try_emplace(
      {{key.kind, group.size, group.stride, shares}, weights});
  if (isNew)
    it->second = linesOf(kInnerTensor, group, weighted(key.kind, weights),
                         key.kind, shares);
  return it->second;
}

/// Lines of the expert axis alone under prices of an expert's element.
const std::vector<LayerBounds::Line> &
LayerBounds::expertLines(const TableKey &key, int shares) {
  Group group = key.groups[kInnerExpert];
  auto [it, isNew] =
      experts.try_emplace({key.kind, group.size, group.stride, shares});
  if (isNew && context.step->batch % group.size == 0) {
    LayerKind kind = context.step->kinds[key.kind];
    for (LayerParam &param : kind.params) {
      param.weightBytes = param.expert && !param.shared ? 1 : 0;
      param.masterBytes = param.gradientBytes = param.stateBytes = 0;
    }
    it->second = linesOf(kInnerExpert, group, kind, key.kind, shares);
  }
  return it->second;
}

/// What the context axis takes at least when all axes add up; per sequence as
/// lines of the tensor axis.
double LayerBounds::contextSec(const TableKey &key) {
  if (key.groups[kInnerContext].size == 1)
    return 0;
  auto shares = static_cast<int>(axesOf(key).size());
  TableKey sequence = key;
  sequence.microBatch = key.groups[kInnerContext].size;
  return scaleOf(sequence, kInnerContext) *
         ideal(Part::All, key.kind, kInnerContext, key.groups[kInnerContext],
               shares);
}

/// Lines of all axes together, per sequence as those of the tensor axis. What
/// dense elements cost is charged to the tensor axis, what those of experts
/// cost to it and to the expert axis by halves.
std::vector<LayerBounds::Line> LayerBounds::together(const TableKey &key,
                                                     const State &state) {
  llvm::SmallVector<int, 3> axes = axesOf(key);
  auto shares = static_cast<int>(axes.size());
  bool shardsTensor = key.groups[kInnerTensor].size > 1;
  bool shardsExperts = key.groups[kInnerExpert].size > 1;
  double part = !shardsExperts ? 0 : shardsTensor ? 0.5 : 1;
  TableKey sequence = key;
  sequence.microBatch = key.groups[kInnerContext].size;
  std::vector<Line> own, other;
  if (shardsTensor)
    own = tensorLines(key, shares, 1 - part);
  if (shardsExperts)
    other = expertLines(key, shares);
  // A second of the expert axis alone is at least 1/tp of one here, and of an
  // element a rank holds at least 1/(tp cp).
  double scale = scaleOf(sequence, kInnerExpert);
  double each = part / double(key.groups[kInnerContext].size);
  double fixed = contextSec(key);
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
    if (!shardsTensor)
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

LayerBounds::State &LayerBounds::stateOf(const TableKey &key, bool priced) {
  const auto &[groups, kind] = std::tie(key.groups, key.kind);
  auto [it, isNew] = states.try_emplace(
      {kind, groups[kInnerTensor].size, groups[kInnerTensor].stride,
       groups[kInnerContext].size, groups[kInnerContext].stride,
       groups[kInnerExpert].size, groups[kInnerExpert].stride});
  State &state = it->second;
  if (!isNew)
    return state;
  const LayerKind &own = context.step->kinds[kind];
  for (auto [param, weight] : llvm::zip_equal(own.params, weightsOf(key, 1)))
    (param.expert ? state.expertElements : state.denseElements) +=
        param.elements * weight / double(groups[kInnerTensor].size);
  if (!priced || own.params.empty())
    return state;
  if (groups[kInnerTensor].size > 1)
    state.lines = tensorLines(key, 1, 1);
  bool alone = axesOf(key).size() < 2 && groups[kInnerExpert].size == 1;
  if (!alone)
    llvm::append_range(state.lines, together(key, state));
  return state;
}

StateBound LayerBounds::parameters(const TableKey &key, bool priced) {
  const State &state = stateOf(key, priced);
  StateBound least{state.denseElements, state.expertElements, {}};
  double scale = kBestRate * scaleOf(key, kInnerTensor);
  llvm::SmallVector<Line, 16> lines = {{0, seconds(key)}};
  for (const Line &line : state.lines)
    lines.push_back({line.price * scale, line.value * scale});
  least.seconds =
      highest<Line>(lines, least.denseElements + least.expertElements);
  least.restSec = bound(Part::Rest, key) * kBestRate;
  const Shapes &shapes = shapesOf(key);
  least.restSec += shapes.restSec;
  for (auto &[elements, seconds] : least.seconds)
    seconds += shapes.allSec;
  return least;
}
