//===- RecomputationPoints.cpp - what to recompute in the backward pass ---===//
//
// Problem: a fixed layout; which forward values are kept, which recomputed from
// kept ones? Under a price of kept bytes this is a sum of tables over values
// (kept, recomputed, dropped), solved by elimination. Prices between known
// points give the lower convex hull of (seconds, bytes): dichotomy, about two
// solves per point found. Of more points than are kept, those that lie farthest
// below the line between their neighbours are found first.
//
// Example: gelu(x w) with x kept. Points: keep both results (0 s, 8 units);
// recompute gelu (bytes of a row kernel, 4 units); recompute the matmul, too.
//
//===----------------------------------------------------------------------===//

#include "LayerGraph.h"

#include "kerf/FactorGraph/GraphBounds.h"

#include <algorithm>
#include <optional>

using namespace kerf;

namespace {

constexpr size_t kMostPoints = 12;
/// Sort of these graphs, after those of the axes.
constexpr int kOrders = kInnerAxes;
enum : int { Dropped = 0, Kept = 1, Again = 2 };

/// Units per picosecond: points of small ops differ by less than one.
constexpr double kUnits = 64;

int64_t toUnits(double seconds) { return toPicoseconds(kUnits * seconds); }

using Point = std::pair<LayerLayout, LayerCost>;

class Frontier {
public:
  Frontier(const LayerTerms &terms, const LayerLayout &layout)
      : terms(terms), kind(terms.kind), layout(layout),
        variables(kind.values.size(), -1) {
    for (size_t v = 0; v < kind.values.size(); ++v)
      if (terms.facts.forwardValues[v])
        variables[v] = withoutPrices.addVariable(3);
    for (size_t i = 0; i < kind.ops.size(); ++i)
      if (kind.ops[i].phase == LayerPhase::Forward &&
          !kind.ops[i].operands.empty())
        addOp(withoutPrices, i);
  }

  std::vector<Point> find() {
    std::vector<Point> points = {at(0)};
    Point all = at(highestPrice());
    if (bytes(all) >= bytes(points.front()))
      return points;
    points.push_back(std::move(all));
    std::vector<Gap> gaps;
    for (std::optional<Gap> gap = gapBehind(points, 0); gap;
         gap = takeWidest(gaps)) {
      auto place = llvm::find_if(points, [&](const Point &point) {
        return bytes(point) < bytes(gap->middle);
      });
      size_t at = points.insert(place, std::move(gap->middle)) - points.begin();
      if (points.size() >= kMostPoints)
        break;
      for (size_t before : {at - 1, at})
        if (auto next = gapBehind(points, before))
          gaps.push_back(std::move(*next));
    }
    return points;
  }

  /// The point that makes the ops of these numbers again, as far as the
  /// backward pass wants them, and no others.
  Point making(llvm::ArrayRef<int64_t> numbers) const {
    std::vector<int> states(kind.values.size(), Dropped);
    auto want = [&](int v) {
      int maker = kind.values[v].producer;
      bool again =
          maker >= 0 && llvm::is_contained(numbers, kind.ops[maker].number);
      if (variables[v] >= 0)
        states[variables[v]] = again ? Again : Kept;
    };
    for (size_t v = 0; v < kind.values.size(); ++v)
      if (terms.facts.readBack[v])
        want(v);
    // Ops stand after those that they read.
    for (const LayerOp &op : llvm::reverse(kind.ops))
      if (op.phase == LayerPhase::Forward &&
          llvm::any_of(op.results, [&](int v) {
            return variables[v] >= 0 && states[variables[v]] == Again;
          }))
        llvm::for_each(op.operands, want);
    return pointOf(states);
  }

private:
  const LayerTerms &terms;
  const LayerKind &kind;
  const LayerLayout &layout;
  std::vector<int> variables; ///< of values; -1: none
  FactorGraph withoutPrices;

  /// Seconds per byte that no op is worth, and that no sum of bytes takes to
  /// what is impossible.
  double highestPrice() const {
    double bytes = 1;
    for (size_t v = 0; v < kind.values.size(); ++v)
      if (variables[v] >= 0)
        bytes += keptBytes(terms, layout, v);
    constexpr double most = 1e-3, part = 0.25;
    return std::min(most,
                    part * double(kInfiniteCost) * 1e-12 / kUnits / bytes);
  }

  static double seconds(const Point &point) {
    // What is hidden is no sum of what single values cost.
    const TimeParts &again = point.second.point.recompute;
    return again.computeSec() + again.linkSec();
  }
  static double bytes(const Point &point) {
    return point.second.point.savedBytes;
  }

  /// A point between two neighbours, and how much below their line it lies.
  struct Gap {
    Point middle;
    double sec = 0;
  };

  /// Behind a point and before the next; none where no point lies below.
  std::optional<Gap> gapBehind(llvm::ArrayRef<Point> points,
                               size_t index) const {
    const Point &fast = points[index], &small = points[index + 1];
    double saved = bytes(fast) - bytes(small);
    if (saved <= 0)
      return std::nullopt;
    double price = (seconds(small) - seconds(fast)) / saved;
    Point middle = at(price);
    auto value = [&](const Point &p) { return seconds(p) + price * bytes(p); };
    if (value(middle) >= value(fast) * (1 - 1e-9) ||
        bytes(middle) >= bytes(fast) || bytes(middle) <= bytes(small))
      return std::nullopt;
    double below = value(fast) - value(middle);
    return Gap{std::move(middle), below};
  }

  static std::optional<Gap> takeWidest(std::vector<Gap> &gaps) {
    if (gaps.empty())
      return std::nullopt;
    auto widest = std::max_element(
        gaps.begin(), gaps.end(),
        [](const Gap &a, const Gap &b) { return a.sec < b.sec; });
    Gap taken = std::move(*widest);
    gaps.erase(widest);
    return taken;
  }

  /// The best set under a price of kept bytes.
  Point at(double price) const {
    FactorGraph graph = withoutPrices;
    for (size_t v = 0; v < kind.values.size(); ++v)
      if (variables[v] >= 0)
        addValue(graph, v, std::max(price, kLeastPrice));
    Elimination best = eliminateOrSolve(
        graph, terms.facts.orderOf(kOrders, graph), terms.query.budget);
    return pointOf(best.states);
  }

  void addValue(FactorGraph &graph, int v, double price) const {
    bool wanted = terms.facts.readBack[v];
    bool makable = kind.values[v].producer >= 0;
    double bytes = keptBytes(terms, layout, v);
    graph.addTable({variables[v]}, [&](const std::vector<int> &s) {
      if (s[0] == Kept)
        return toUnits(price * bytes);
      if (s[0] == Again)
        return makable ? int64_t(0) : kInfiniteCost;
      return wanted ? kInfiniteCost : int64_t(0);
    });
  }

  /// The op's time if any result is recomputed; its operands must be there.
  void addOp(FactorGraph &graph, int index) const {
    const LayerOp &op = kind.ops[index];
    int first = variables[op.results[0]];
    int64_t time = timeAgain(index);
    graph.addTable({first}, [&](const std::vector<int> &s) {
      return s[0] == Again ? time : int64_t(0);
    });
    for (int result : llvm::drop_begin(op.results))
      graph.addTable(
          {first, variables[result]}, [&](const std::vector<int> &s) {
            return s[1] == Again && s[0] != Again ? kInfiniteCost : int64_t(0);
          });
    llvm::SmallVector<int, 4> seen;
    for (int operand : op.operands) {
      if (variables[operand] < 0 || llvm::is_contained(seen, operand))
        continue;
      seen.push_back(operand);
      graph.addTable({first, variables[operand]},
                     [&](const std::vector<int> &s) {
                       return s[0] == Again && s[1] == Dropped ? kInfiniteCost
                                                               : int64_t(0);
                     });
    }
  }

  int64_t timeAgain(int index) const {
    const LayerOp &op = kind.ops[index];
    double seconds =
        terms.timeOf(index, layout, -1, nullptr, /*again=*/true).seconds;
    for (int axis = 0; axis < kInnerAxes; ++axis) {
      if (!terms.has(axis))
        continue;
      const OpOption &option = layout.axes[axis].ops[index];
      unsigned partners = terms.partnersOf(index, option, axis, layout);
      if (!LayerTerms::isCounted(axis, partners))
        for (const Exchange &exchange :
             terms.variantBy(index, option, axis, layout, partners))
          if (!exchange.oncePerPass)
            seconds += terms.secOf(axis, partners, exchange);
      for (auto [k, value] : llvm::enumerate(op.operands))
        if (terms.facts.forwardValues[value] &&
            !terms.sharesAgain(index, k, layout.axes[axis]) &&
            terms.facts.forwardReaders[value][0] == index)
          seconds += terms.convertSec(
              axis, keptState(terms, layout, value, axis), option.operands[k],
              terms.movingOf(value, layout, axis));
    }
    return toUnits(seconds);
  }

  Point pointOf(llvm::ArrayRef<int> states) const {
    LayerLayout own = layout;
    std::vector<AxisState> &kept = own.axes[kInnerTensor].kept;
    for (size_t v = 0; v < kept.size() && !states.empty(); ++v) {
      if (variables[v] < 0)
        continue;
      int state = states[variables[v]];
      kept[v] = state == Dropped ? kNotKept
                : state == Again ? kRecomputed
                                 : keptState(terms, layout, v, kInnerTensor);
    }
    LayerCost cost = sumCosts(terms, own);
    cost.point.recomputed = inWords(own);
    return {own, cost};
  }

  /// "nothing", "all", or the ops that are recomputed.
  std::string inWords(const LayerLayout &own) const {
    std::vector<std::string> names;
    bool all = true, any = false;
    for (const LayerOp &op : kind.ops) {
      if (op.phase != LayerPhase::Forward || op.view)
        continue;
      bool again = llvm::any_of(op.results, [&](int v) {
        return own.axes[kInnerTensor].kept[v] == kRecomputed;
      });
      bool isOutput = llvm::is_contained(op.results, kind.output);
      any |= again;
      all &= again || isOutput || !needed(op);
      std::string name = op.name;
      size_t dot = op.weight.rfind('.');
      if (op.work.matmuls() > 0 && dot != std::string::npos)
        name = op.weight.substr(op.weight.rfind('.', dot - 1) + 1,
                                dot - op.weight.rfind('.', dot - 1) - 1);
      if (again && !llvm::is_contained(names, name))
        names.push_back(name);
    }
    if (!any)
      return "nothing";
    if (all)
      return "all";
    std::string text;
    for (const std::string &name : names)
      text += (text.empty() ? "" : ", ") + name;
    return text;
  }
  /// Some result is wanted by the backward pass.
  bool needed(const LayerOp &op) const {
    return llvm::any_of(op.results,
                        [&](int v) { return terms.facts.readBack[v]; });
  }
};

} // namespace

std::vector<std::pair<LayerLayout, LayerCost>>
kerf::recomputationPointsWith(const LayerTerms &terms,
                              const LayerLayout &layout) {
  return Frontier(terms, layout).find();
}

std::pair<LayerLayout, LayerCost>
kerf::recomputationPointOf(const LayerTerms &terms, const LayerLayout &layout,
                           llvm::ArrayRef<int64_t> numbers) {
  return Frontier(terms, layout).making(numbers);
}

std::vector<std::pair<LayerLayout, LayerCost>>
kerf::recomputationPoints(const LayerContext &context, const LayerQuery &query,
                          const LayerLayout &layout) {
  const LayerKind &kind = context.step->kinds[query.key.kind];
  LayerFacts facts(kind);
  LayerTerms terms(context, query, kind, facts);
  return recomputationPointsWith(terms, layout);
}
