#include "kerf/FactorGraph/FactorGraphCache.h"

#include "RandomGraphs.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <numeric>

using namespace kerf;

/// Calls `visit(graph, seed)` on small graphs of all shapes.
template <typename Fn> static void forSmallGraphs(unsigned seeds, Fn visit) {
  for (unsigned seed = 0; seed < seeds; ++seed)
    for (Shape shape : kShapes) {
      int count = 2 + seed % 6;
      visit(randomGraph(seed, shape, count, shape == Shape::Clique ? 3 : 4),
            seed);
    }
}

/// A grid of side x side variables, pairs along both directions.
static FactorGraph grid(int side, int states, unsigned seed) {
  RandomGraph r(seed);
  r.range = Range::Picoseconds;
  for (int v = 0; v < side * side; ++v)
    r.graph.addVariable(states);
  for (int v = 0; v < side * side; ++v) {
    if (v % side)
      r.table({v - 1, v});
    if (v >= side)
      r.table({v - side, v});
  }
  return r.graph;
}

// The example of the file.
TEST(FactorGraphTest, Example) {
  FactorGraph graph{{2, 2, 2},
                    {{{0, 1}, {5, 1, 0, 9}}, {{1, 2}, {2, 3, 4, 0}}}};
  Elimination result = eliminate(graph);
  EXPECT_EQ(result.cost, 1);
  EXPECT_EQ(result.states, (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(result.width, 2);
  EXPECT_EQ(result.largestTable, 4);
}

// Elimination finds what trying everything finds, and an assignment that costs
// so much; also of infinite, saturating and many equal costs.
TEST(FactorGraphTest, EqualsEnumeration) {
  int impossible = 0, finite = 0;
  forSmallGraphs(1500, [&](const FactorGraph &graph, unsigned seed) {
    ASSERT_EQ(graph.check(), "");
    Elimination all = enumerate(graph), result = eliminate(graph);
    ASSERT_EQ(result.cost, all.cost) << "seed " << seed << '\n'
                                     << graph.print();
    ASSERT_FALSE(result.gaveUp);
    if (all.states.empty()) {
      ++impossible;
      EXPECT_TRUE(result.states.empty());
      return;
    }
    ++finite;
    EXPECT_EQ(graph.evaluate(result.states), all.cost);
  });
  EXPECT_GT(impossible, 500);
  EXPECT_GT(finite, 3000);
}

// The cost does not depend on the order; the size is what was simulated.
TEST(FactorGraphTest, AnyOrder) {
  forSmallGraphs(60, [&](const FactorGraph &graph, unsigned seed) {
    std::vector<int> order(graph.domains.size());
    std::iota(order.begin(), order.end(), 0);
    int64_t cost = enumerate(graph).cost;
    std::mt19937 random(seed);
    for (int i = 0; i < 10; ++i) {
      std::shuffle(order.begin(), order.end(), random);
      Elimination result = eliminate(graph, order);
      ASSERT_EQ(result.cost, cost);
      EXPECT_EQ(result.work, simulateElimination(graph, order).work);
    }
  });
}

/// Five variables of 1 to 12 states in tables over two to four of them.
static FactorGraph wideGraph(unsigned seed) {
  RandomGraph r(seed);
  r.variables(5, 12);
  for (int tables = 3 + r.draw(8); tables > 0; --tables) {
    std::vector<int> variables(5);
    std::iota(variables.begin(), variables.end(), 0);
    std::shuffle(variables.begin(), variables.end(), r.random);
    variables.resize(2 + r.draw(3));
    r.table(variables);
  }
  return r.graph;
}

// Sums of many entries are walked in blocks, whichever variables make a block
// and however tables lie: all orders cost what trying everything costs.
TEST(FactorGraphTest, WideTables) {
  int large = 0, finite = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    FactorGraph graph = wideGraph(seed);
    int64_t cost = enumerate(graph).cost;
    finite += cost < kInfiniteCost;
    std::vector<int> order = {0, 1, 2, 3, 4};
    std::mt19937 random(seed);
    for (int i = 0; i < 8; ++i) {
      std::shuffle(order.begin(), order.end(), random);
      Elimination result = eliminate(graph, order);
      ASSERT_EQ(result.cost, cost) << "seed " << seed;
      if (cost < kInfiniteCost)
        EXPECT_EQ(graph.evaluate(result.states), cost);
      large += result.largestTable > 4096;
    }
  }
  EXPECT_GT(large, 50);
  EXPECT_GT(finite, 30);
}

// Of equal graphs the second answer is the first one; another cost, another
// order or another budget is another question.
TEST(FactorGraphTest, RemembersEliminations) {
  EliminationCache cache(int64_t(1) << 20);
  FactorGraph graph = grid(5, 4, 1);
  std::vector<int> order = eliminationOrder(graph);
  Elimination direct = eliminate(graph, order);
  for (int i = 0; i < 2; ++i) {
    Elimination result = cache.eliminate(graph, order);
    EXPECT_EQ(result.cost, direct.cost);
    EXPECT_EQ(result.states, direct.states);
    EXPECT_EQ(result.work, direct.work);
    EXPECT_EQ(cache.hits(), i);
  }
  FactorGraph other = graph;
  other.tables.front().costs.front() += 1;
  EXPECT_EQ(cache.eliminate(other, order).cost, eliminate(other, order).cost);
  std::vector<int> backwards(order.rbegin(), order.rend());
  EXPECT_EQ(cache.eliminate(graph, backwards).cost, direct.cost);
  EXPECT_TRUE(cache.eliminate(graph, order, direct.work - 1).gaveUp);
  EXPECT_EQ(cache.hits(), 1);
}

// What was not asked for longest is forgotten; nothing larger than all room is
// kept.
TEST(FactorGraphTest, ForgetsEliminations) {
  std::vector<int> order = eliminationOrder(grid(5, 4, 0));
  EliminationCache cache(int64_t(40) << 10);
  auto ask = [&](unsigned seed) {
    FactorGraph graph = grid(5, 4, seed);
    EXPECT_EQ(cache.eliminate(graph, order).cost, eliminate(graph, order).cost);
    EXPECT_LE(cache.bytes(), 40 << 10);
    return cache.hits();
  };
  for (unsigned seed = 0; seed < 20; ++seed)
    EXPECT_EQ(ask(seed), 0);
  EXPECT_EQ(ask(19), 1);
  EXPECT_EQ(ask(0), 1);
  EXPECT_EQ(ask(19), 2);

  EliminationCache small(100);
  for (int i = 0; i < 2; ++i)
    small.eliminate(grid(5, 4, 1), order);
  EXPECT_EQ(small.hits(), 0);
  EXPECT_EQ(small.bytes(), 0);
}

// A chain of n variables with d states: n - 1 tables of d x d and one of d.
TEST(FactorGraphTest, WorkOfChain) {
  FactorGraph graph;
  for (int v = 0; v < 20; ++v)
    graph.addVariable(5);
  for (int v = 1; v < 20; ++v)
    graph.addTable({v, v - 1},
                   [](const auto &s) { return s[0] * 7 % (s[1] + 1); });
  EliminationSize size = simulateElimination(graph, eliminationOrder(graph));
  EXPECT_EQ(size.work, 19 * 25 + 5);
  EXPECT_EQ(size.kept, 19 * 5 + 1);
  EXPECT_EQ(size.width, 2);
}

// A ring of n variables with d states: eliminating one connects its neighbours.
TEST(FactorGraphTest, WorkOfRing) {
  FactorGraph graph;
  for (int v = 0; v < 20; ++v)
    graph.addVariable(4);
  for (int v = 0; v < 20; ++v)
    graph.addTable({v, (v + 1) % 20},
                   [](const auto &s) { return s[0] + s[1]; });
  EliminationSize size = simulateElimination(graph, eliminationOrder(graph));
  EXPECT_EQ(size.work, 18 * 64 + 16 + 4);
  EXPECT_EQ(size.kept, 18 * 16 + 4 + 1);
  EXPECT_EQ(size.width, 3);
  EXPECT_EQ(size.largestTable, 64);
}

// The middle of a star is eliminated last: 30 leaves cost 30 tables of two.
TEST(FactorGraphTest, OrderOfStar) {
  FactorGraph graph;
  int middle = graph.addVariable(3);
  for (int leaf = 0; leaf < 30; ++leaf)
    graph.addTable({middle, graph.addVariable(4)},
                   [](const auto &s) { return s[0] + s[1]; });
  EliminationSize size = simulateElimination(graph, eliminationOrder(graph));
  EXPECT_EQ(size.width, 2);
  EXPECT_EQ(size.work, 30 * 12 + 3);
}

// No more work than going through a grid row by row.
TEST(FactorGraphTest, OrderOfGrid) {
  for (int side : {4, 6, 8, 10}) {
    FactorGraph graph = grid(side, 3, 1);
    std::vector<int> rows(side * side);
    std::iota(rows.begin(), rows.end(), 0);
    EXPECT_LE(simulateElimination(graph, eliminationOrder(graph)).work,
              simulateElimination(graph, rows).work);
  }
}

// Unconnected parts do not multiply: 2 x 12 variables in two cliques of 2^12.
TEST(FactorGraphTest, Parts) {
  FactorGraph graph;
  for (int part = 0; part < 2; ++part) {
    int first = graph.domains.size();
    for (int v = 0; v < 12; ++v)
      graph.addVariable(2);
    for (int a = first; a < first + 12; ++a)
      for (int b = first; b < a; ++b)
        graph.addTable({a, b}, [&](const auto &s) { return s[0] != s[1]; });
  }
  Elimination result = eliminate(graph);
  EXPECT_EQ(result.cost, 0);
  EXPECT_EQ(result.largestTable, 1 << 12);
  EXPECT_EQ(result.work, 2 * ((1 << 13) - 2));
}

// Variables without tables take their first state, those with one state are no
// part of any size, and tables without variables count once.
TEST(FactorGraphTest, Degenerate) {
  EXPECT_EQ(eliminate(FactorGraph()).cost, 0);
  FactorGraph graph{{3, 1, 2, 4}, {{{}, {5}}, {{}, {6}}, {{1, 2}, {9, 8}}}};
  Elimination result = eliminate(graph);
  EXPECT_EQ(result.cost, 19);
  EXPECT_EQ(result.states, (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(result.width, 1);
  graph.tables.push_back({{}, {kInfiniteCost}});
  EXPECT_TRUE(eliminate(graph).states.empty());
}

// More tables than fit into one sum without saturating.
TEST(FactorGraphTest, ManyTables) {
  FactorGraph graph{{2, 40}, {}};
  for (int i = 0; i < 40; ++i)
    graph.addTable({0, graph.addVariable(2)}, [&](const auto &s) {
      return s[0] ? kInfiniteCost : kInfiniteCost / 64 - s[1];
    });
  Elimination result = eliminate(graph);
  EXPECT_EQ(result.cost, 40 * (kInfiniteCost / 64 - 1));
  EXPECT_EQ(graph.evaluate(result.states), result.cost);
  for (int v = 2; v < 22; ++v)
    graph.addTable({0, v}, [](const auto &) { return kInfiniteCost / 32; });
  EXPECT_EQ(eliminate(graph).cost, kInfiniteCost);
}

// The middle of a star is eliminated first: fifteen tables that have nothing
// else in common are added up at once, and many of their entries are infinite.
TEST(FactorGraphTest, ManyTablesAtOnce) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    RandomGraph r(seed);
    r.range = Range::Huge;
    r.percentInfinite = seed * 5;
    r.graph.domains.assign(16, 2);
    for (int leaf = 1; leaf < 16; ++leaf)
      r.table({0, leaf});
    for (int64_t &cost : r.graph.tables[seed % 15].costs)
      cost = seed % 2 ? kInfiniteCost : cost;
    std::vector<int> order(16);
    std::iota(order.begin(), order.end(), 0);
    EXPECT_EQ(eliminate(r.graph, order).cost, enumerate(r.graph).cost);
  }
  FactorGraph graph{std::vector<int>(16, 2), {}};
  for (int leaf = 1; leaf < 16; ++leaf)
    graph.addTable({0, leaf}, [](const auto &s) {
      return s[0] ? kInfiniteCost : s[1] ? 1 : 3;
    });
  std::vector<int> order(16);
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(eliminate(graph, order).cost, 15);
}

// One variable in fifteen tables with each pair of six others: nearly all have
// rows at once, more than are added up without saturating.
TEST(FactorGraphTest, ManyRowsAtOnce) {
  int finite = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    RandomGraph r(seed);
    r.percentInfinite = seed % 3;
    r.graph.domains = {4, 3, 3, 2, 3, 3, 2};
    for (int a = 1; a < 7; ++a)
      for (int b = 1; b < a; ++b)
        r.table({0, a, b});
    std::vector<int> order(7);
    std::iota(order.begin(), order.end(), 0);
    int64_t cost = enumerate(r.graph).cost;
    finite += cost < kInfiniteCost;
    EXPECT_EQ(eliminate(r.graph, order).cost, cost) << "seed " << seed;
  }
  EXPECT_GT(finite, 10);
}

// Too much work or memory is noticed before any of it is spent: this grid would
// take 10^30 entries.
TEST(FactorGraphTest, GivesUp) {
  Elimination huge = eliminate(grid(40, 6, 1));
  EXPECT_TRUE(huge.gaveUp);
  EXPECT_TRUE(huge.states.empty());
  EXPECT_EQ(huge.cost, kInfiniteCost);

  FactorGraph small = grid(4, 3, 1);
  Elimination result = eliminate(small);
  EXPECT_FALSE(result.gaveUp);
  EXPECT_FALSE(eliminate(small, result.work).gaveUp);
  EXPECT_TRUE(eliminate(small, result.work - 1).gaveUp);
  EXPECT_FALSE(eliminate(small, result.work, result.kept).gaveUp);
  EXPECT_TRUE(eliminate(small, result.work, result.kept - 1).gaveUp);
}

// The order depends on the variables of tables, not on costs.
TEST(FactorGraphTest, OrderIgnoresCosts) {
  FactorGraph graph = grid(5, 4, 1), other = grid(5, 4, 2);
  ASSERT_NE(graph.print(), other.print());
  EXPECT_EQ(eliminationOrder(graph), eliminationOrder(other));
}

// Variables may be given in any order.
TEST(FactorGraphTest, SortsVariables) {
  FactorGraph graph{{2, 3, 4}, {}};
  graph.addTable({2, 0, 1},
                 [](const auto &s) { return s[0] * 100 + s[1] * 10 + s[2]; });
  EXPECT_EQ(graph.tables[0].variables, (std::vector<int>{0, 1, 2}));
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 4; ++c)
        EXPECT_EQ(graph.evaluate({a, b, c}), c * 100 + a * 10 + b);
}

// ---- Leaving states out -----------------------------------------------------

// Some best assignment is left without dominated states.
TEST(FactorGraphTest, DominanceKeepsAnOptimum) {
  int64_t before = 0, after = 0;
  forSmallGraphs(500, [&](const FactorGraph &graph, unsigned seed) {
    KeptStates kept = undominated(graph);
    FactorGraph left = restrictTo(graph, kept);
    ASSERT_EQ(left.check(), "");
    ASSERT_EQ(enumerate(left).cost, enumerate(graph).cost)
        << "seed " << seed << '\n'
        << graph.print();
    for (auto [states, count] : llvm::zip_equal(kept, graph.domains)) {
      EXPECT_TRUE(!states.empty() &&
                  std::is_sorted(states.begin(), states.end()));
      before += count;
      after += states.size();
    }
  });
  EXPECT_LT(after, before);
}

// Of graphs with much work they are left out without being asked: the same
// cost, never more work, and an assignment of the whole graph.
TEST(FactorGraphTest, LeavesDominatedStatesOut) {
  int less = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    FactorGraph graph = randomGraph(seed, Shape::Clique, 8, 6);
    Elimination whole = eliminate(graph, eliminationOrder(graph));
    Elimination result = eliminate(graph);
    ASSERT_EQ(result.cost, whole.cost);
    if (!result.states.empty())
      EXPECT_EQ(graph.evaluate(result.states), whole.cost);
    EXPECT_LE(result.work, whole.work);
    less += result.work < whole.work;
  }
  EXPECT_GT(less, 3);
}

// By hand: state 1 of variable 0 always costs one more than state 0; state 2 is
// not possible; then variable 1 has one best state.
TEST(FactorGraphTest, DominanceByHand) {
  FactorGraph graph{
      {3, 2},
      {{{0}, {0, 3, 0}}, {{0, 1}, {4, 7, 2, 5, kInfiniteCost, kInfiniteCost}}}};
  EXPECT_EQ(undominated(graph), (KeptStates{{0}, {0}}));
}

// ---- Text and consistency ---------------------------------------------------

// What is printed reads as the same graph.
TEST(FactorGraphTest, RoundTrip) {
  forSmallGraphs(50, [&](const FactorGraph &graph, unsigned) {
    std::string text = graph.print();
    std::optional<FactorGraph> read =
        parseFactorGraph("# a comment\n\n" + text);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->print(), text);
    ASSERT_EQ(read->tables.size(), graph.tables.size());
    EXPECT_EQ(enumerate(*read).cost, enumerate(graph).cost);
  });
  EXPECT_EQ(
      (FactorGraph{{2, 1}, {{{}, {7}}, {{0, 1}, {1, kInfiniteCost}}}}.print()),
      "domains 2 1\ntable: 7\ntable 0 1: 1 inf\n");
}

// Each mistake is named with its line.
TEST(FactorGraphTest, ParseErrors) {
  auto errorOf = [](const std::string &text) {
    std::string error;
    EXPECT_FALSE(parseFactorGraph(text, &error));
    return error;
  };
  EXPECT_EQ(errorOf("domains 2 0"), "line 1: variable 1 has no state");
  EXPECT_EQ(errorOf("domains 2 x"), "line 1: expected numbers of states");
  EXPECT_EQ(errorOf("domains 2\ndomains 2"),
            "line 2: 'domains' must come once, before the tables");
  EXPECT_EQ(errorOf("domains 2\ntable 0: 1"),
            "line 2: expected 2 costs, found 1");
  EXPECT_EQ(errorOf("domains 2\ntable 1: 1 2"), "line 2: unknown variable 1");
  EXPECT_EQ(errorOf("domains 2 2\ntable 1 0: 1 2 3 4"),
            "line 2: variables do not ascend");
  EXPECT_EQ(errorOf("domains 2\ntable 0: 1 -2"),
            "line 2: cost -2 is out of range");
  EXPECT_EQ(errorOf("domains 2\n\ntable 0: 1 two"),
            "line 3: expected costs after ':'");
  EXPECT_EQ(errorOf("domains 2\ntable inf: 1 2"),
            "line 2: expected numbers of variables before ':'");
  EXPECT_EQ(errorOf("bucket"), "line 1: expected 'domains' or 'table'");
}

// Inconsistent graphs that were put together by hand are refused too.
TEST(FactorGraphTest, Check) {
  FactorGraph graph{{2, 3}, {{{0, 1}, {1, 2, 3, 4, 5, 6}}}};
  EXPECT_EQ(graph.check(), "");
  graph.tables.push_back({{0}, {1, kInfiniteCost + 1}});
  EXPECT_EQ(graph.check(), "table 1: cost " +
                               std::to_string(kInfiniteCost + 1) +
                               " is out of range");
}
