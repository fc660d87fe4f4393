//===- RandomGraphs.h - factor graphs drawn from a seed -------------------===//

#ifndef KERF_TEST_UNIT_PLAN_RANDOMGRAPHS_H
#define KERF_TEST_UNIT_PLAN_RANDOMGRAPHS_H

#include "kerf/FactorGraph/FactorGraph.h"

#include <random>

namespace kerf {

enum class Shape { Tree, Cycle, Clique, Triples, Parts };
constexpr Shape kShapes[] = {Shape::Tree, Shape::Cycle, Shape::Clique,
                             Shape::Triples, Shape::Parts};

/// What tables cost: few different ones (many ties), large ones, or so large
/// that sums reach kInfiniteCost.
enum class Range { Ties, Picoseconds, Huge };
constexpr Range kRanges[] = {Range::Ties, Range::Picoseconds, Range::Huge};

struct RandomGraph {
  std::mt19937 random;
  Range range;
  int percentInfinite;
  FactorGraph graph;

  explicit RandomGraph(unsigned seed)
      : random(seed), range(kRanges[draw(3)]), percentInfinite(draw(3) * 15) {}
  int draw(int below) { return static_cast<int>(random() % below); }
  int64_t cost() {
    if (draw(100) < percentInfinite)
      return kInfiniteCost;
    if (range == Range::Ties)
      return draw(4);
    return range == Range::Huge ? (kInfiniteCost >> draw(6)) - draw(5)
                                : int64_t(random()) * 1000 + draw(1000);
  }
  void table(std::vector<int> variables) {
    graph.addTable(std::move(variables),
                   [&](const std::vector<int> &) { return cost(); });
  }
  void variables(int count, int states) {
    for (int v = 0; v < count; ++v)
      graph.addVariable(1 + draw(states));
  }
};

/// `count` variables of 1 to `states` states; a few of them also in tables of
/// their own, in the same tables twice, or in none.
inline FactorGraph randomGraph(unsigned seed, Shape shape, int count,
                               int states) {
  RandomGraph r(seed);
  r.variables(count, states);
  for (int v = 1; v < count; ++v) {
    if (shape == Shape::Tree || shape == Shape::Cycle)
      r.table({v, r.draw(v)});
    else if (shape == Shape::Parts && v % 3)
      r.table({v - 1, v});
    for (int u = 0; u < v && shape == Shape::Clique; ++u)
      r.table({u, v});
    if (shape == Shape::Triples && v > 1)
      r.table({v, r.draw(v - 1), v - 1});
  }
  if (shape == Shape::Cycle && count > 2)
    r.table({0, count - 1});
  for (int extra = r.draw(4); extra-- > 0;)
    r.table({r.draw(count)});
  if (!r.graph.tables.empty() && r.draw(3) == 0)
    r.graph.tables.push_back(r.graph.tables[r.draw(r.graph.tables.size())]);
  if (r.draw(3) == 0)
    r.table({});
  return r.graph;
}

} // namespace kerf

#endif // KERF_TEST_UNIT_PLAN_RANDOMGRAPHS_H
