#include "kerf/FactorGraph/GraphBounds.h"

#include "RandomGraphs.h"

#include "gtest/gtest.h"

using namespace kerf;

/// Calls `visit(graph, seed)` on graphs of all shapes, too large to enumerate
/// but not to eliminate.
template <typename Fn> static void forGraphs(unsigned seeds, Fn visit) {
  for (unsigned seed = 0; seed < seeds; ++seed)
    for (Shape shape : kShapes)
      visit(randomGraph(seed, shape, shape == Shape::Clique ? 7 : 14, 4), seed);
}

// Bound <= optimum <= descent, and both assignments cost what they say.
TEST(GraphBoundsTest, AroundTheOptimum) {
  int proven = 0, finite = 0;
  forGraphs(160, [&](const FactorGraph &graph, unsigned seed) {
    int64_t optimum = eliminate(graph).cost;
    GraphBound bound = lowerBound(graph, 20);
    ASSERT_LE(bound.cost, optimum) << "seed " << seed << '\n' << graph.print();
    Descent descent = descend(graph, bound.states, /*budgetPerRound=*/60);
    ASSERT_GE(descent.cost, optimum);
    ASSERT_EQ(graph.evaluate(descent.states), descent.cost);
    EXPECT_LE(descent.cost, graph.evaluate(bound.states));
    finite += optimum < kInfiniteCost;
    proven += optimum < kInfiniteCost && bound.cost == descent.cost;
  });
  EXPECT_GT(finite, 300);
  EXPECT_GT(proven, finite / 2);
}

// On trees the bound meets the optimum, up to the division of costs: message
// passing is exact there.
TEST(GraphBoundsTest, ExactOnTrees) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    FactorGraph graph = randomGraph(seed, Shape::Tree, 12, 4);
    int64_t optimum = eliminate(graph).cost;
    int64_t bound = lowerBound(graph, 60).cost;
    ASSERT_LE(bound, optimum);
    EXPECT_GE(bound, optimum - optimum / 1000 - 12) << "seed " << seed;
  }
}

// No assignment with a state costs less than the bound of the state.
TEST(GraphBoundsTest, BoundsOfStates) {
  forGraphs(15, [&](const FactorGraph &graph, unsigned seed) {
    GraphBound bound = lowerBound(graph, 10);
    KeptStates kept = allStates(graph);
    for (size_t v = 0; v < graph.domains.size(); ++v) {
      for (int s = 0; s < graph.domains[v]; ++s) {
        kept[v] = {s};
        ASSERT_LE(bound.ofState[v][s], eliminate(restrictTo(graph, kept)).cost)
            << "seed " << seed << " variable " << v << " state " << s;
      }
      kept[v] = allStates(graph)[v];
    }
  });
}

// A descent that may hold nothing is exact, also from an impossible start.
TEST(GraphBoundsTest, DescentIsExactWithEnoughBudget) {
  forGraphs(20, [&](const FactorGraph &graph, unsigned) {
    int64_t optimum = eliminate(graph).cost;
    if (optimum >= kInfiniteCost)
      return;
    std::vector<int> start(graph.domains.size(), 0);
    EXPECT_EQ(descend(graph, start).cost, optimum);
  });
}

// From an optimum with one state changed the descent mostly gets back: what it
// holds, it holds as it is.
TEST(GraphBoundsTest, DescentReturns) {
  int back = 0, changed = 0;
  forGraphs(40, [&](const FactorGraph &graph, unsigned seed) {
    Elimination optimum = eliminate(graph);
    if (optimum.states.empty())
      return;
    std::vector<int> start = optimum.states;
    int v = seed % start.size();
    start[v] = (start[v] + 1) % graph.domains[v];
    if (graph.evaluate(start) == optimum.cost)
      return;
    ++changed;
    back += descend(graph, start, /*budgetPerRound=*/60).cost == optimum.cost;
  });
  EXPECT_GT(changed, 60);
  EXPECT_GT(back * 10, changed * 9) << back << " of " << changed;
}

// A start that costs too much to count is repaired one held set after the
// other: neighbours of a ring must differ, and all are equal.
TEST(GraphBoundsTest, DescentRepairs) {
  FactorGraph graph;
  for (int v = 0; v < 30; ++v)
    graph.addVariable(3);
  for (int v = 0; v < 30; ++v)
    graph.addTable({v, (v + 1) % 30}, [](const auto &s) {
      return s[0] == s[1] ? kInfiniteCost : s[0] + s[1];
    });
  std::vector<int> start(30, 2);
  Descent descent = descend(graph, start, /*budgetPerRound=*/150);
  EXPECT_LT(descent.cost, kInfiniteCost);
  EXPECT_GE(descent.cost, eliminate(graph).cost);
}

// A graph that is too wide for the budget has states all the same.
TEST(GraphBoundsTest, EliminatesOrSolves) {
  int wide = 0;
  forGraphs(40, [&](const FactorGraph &graph, unsigned seed) {
    Elimination exact = eliminate(graph);
    std::vector<int> order = eliminationOrder(graph);
    for (int64_t budget : {1 << 20, 200, 60}) {
      Elimination found = eliminateOrSolve(graph, order, budget);
      ASSERT_GE(found.cost, exact.cost) << "seed " << seed;
      if (!found.gaveUp)
        ASSERT_EQ(found.cost, exact.cost);
      if (!found.states.empty())
        ASSERT_EQ(graph.evaluate(found.states), found.cost);
      wide += found.gaveUp && !found.states.empty();
    }
  });
  EXPECT_GT(wide, 10);
}

// `solve` equals elimination where that is possible, and its answer is between
// its own bound and what it proves where it is not.
TEST(GraphBoundsTest, Solve) {
  int exact = 0, notExact = 0;
  forGraphs(40, [&](const FactorGraph &graph, unsigned seed) {
    int64_t optimum = eliminate(graph).cost;
    for (int64_t budget : {1 << 20, 200, 60}) {
      Certified result = solve(graph, budget, 20);
      ASSERT_LE(result.bound, optimum) << "seed " << seed << '\n'
                                       << graph.print();
      ASSERT_GE(result.cost, optimum);
      ASSERT_TRUE(!result.proven() || result.cost == optimum);
      ASSERT_TRUE(budget < 1 << 20 || result.proven());
      if (!result.states.empty())
        ASSERT_EQ(graph.evaluate(result.states), result.cost);
      (result.proven() ? exact : notExact) += 1;
    }
  });
  EXPECT_GT(exact, 400);
  EXPECT_GT(notExact, 10);
}
