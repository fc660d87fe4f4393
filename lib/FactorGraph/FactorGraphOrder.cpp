//===- FactorGraphOrder.cpp - in which order variables are eliminated -----===//

#include "InteractionGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <tuple>

using namespace kerf;

static int64_t multiplySaturating(int64_t a, int64_t b) {
  return a > kInfiniteCost / b ? kInfiniteCost : a * b;
}

// ---- The graph of neighbours ------------------------------------------------

InteractionGraph::InteractionGraph(const FactorGraph &graph)
    : domains(graph.domains),
      adjacent(domains.size(), VariableSet(domains.size())),
      variables(domains.size()) {
  for (int v = 0, e = domains.size(); v < e; ++v) {
    logs.push_back(std::lround(1024 * std::log2(domains[v])));
    if (domains[v] > 1)
      variables.insert(v);
  }
  for (const CostTable &table : graph.tables)
    for (int a : table.variables)
      for (int b : table.variables)
        if (a != b && domains[a] > 1 && domains[b] > 1)
          adjacent[a].insert(b);
}

int64_t InteractionGraph::entries(int v) const {
  int64_t product = domains[v];
  adjacent[v].forEach(
      [&](int u) { product = multiplySaturating(product, domains[u]); });
  return product;
}

int64_t InteractionGraph::fill(int v) const {
  int64_t twice = 0; // u misses itself and each pair is seen from both ends
  adjacent[v].forEach(
      [&](int u) { twice += adjacent[v].countNotIn(adjacent[u]) - 1; });
  return twice / 2;
}

int64_t InteractionGraph::logFill(int v) const {
  int64_t twice = 0;
  adjacent[v].forEach([&](int u) {
    adjacent[v].forEachNotIn(adjacent[u], [&](int w) {
      if (w != u)
        twice += logs[u] + logs[w];
    });
  });
  return twice / 2;
}

void InteractionGraph::eliminate(int v, EliminationSize &size) {
  int64_t table = entries(v);
  size.width = std::max(size.width, adjacent[v].size() + 1);
  size.largestTable = std::max(size.largestTable, table);
  size.work = addCost(size.work, table);
  size.kept = addCost(size.kept, table / domains[v]);
  adjacent[v].forEach([&](int u) {
    adjacent[u].insert(adjacent[v]);
    adjacent[u].erase(u);
  });
  remove(v);
}

void InteractionGraph::remove(int v) {
  adjacent[v].forEach([&](int u) { adjacent[u].erase(v); });
  variables.erase(v);
}

// ---- Greedy orders ----------------------------------------------------------

namespace {
using Score = int64_t (InteractionGraph::*)(int) const;

/// Always takes the variable with the least score; of equal ones the one with
/// the smallest table, then the smallest message, then the smallest number.
/// Scores are computed anew only where neighbours changed.
struct GreedyOrder {
  InteractionGraph graph;
  Score score;
  std::vector<std::tuple<int64_t, int64_t, int64_t>> scores;
  std::vector<int> order;
  EliminationSize size;

  GreedyOrder(const InteractionGraph &graph, Score score, size_t variables)
      : graph(graph), score(score), scores(variables) {}
  void rate(int v) {
    scores[v] = {(graph.*score)(v), graph.entries(v), -graph.states(v)};
  }
  void take(int v);
  void run(VariableSet part);
};
} // namespace

void GreedyOrder::take(int v) {
  bool connects = graph.fill(v) > 0;
  VariableSet changed = graph.neighbours(v);
  graph.eliminate(v, size);
  order.push_back(v);
  if (connects) // second neighbours now see pairs that they did not see before
    VariableSet(changed).forEach(
        [&](int u) { changed.insert(graph.neighbours(u)); });
  changed.forEach([&](int u) { rate(u); });
}

void GreedyOrder::run(VariableSet part) {
  part.forEach([&](int v) { rate(v); });
  while (part.size()) {
    int best = -1;
    part.forEach([&](int v) {
      if (best < 0 || scores[v] < scores[best])
        best = v;
    });
    part.erase(best);
    take(best);
  }
}

/// The connected parts, each ascending by its smallest variable.
static std::vector<VariableSet> connectedParts(const InteractionGraph &graph,
                                               size_t variables) {
  std::vector<VariableSet> parts;
  VariableSet seen(variables);
  graph.left().forEach([&](int first) {
    if (seen.contains(first))
      return;
    VariableSet part(variables);
    std::vector<int> open = {first};
    part.insert(first);
    while (!open.empty()) {
      int v = open.back();
      open.pop_back();
      graph.neighbours(v).forEachNotIn(part, [&](int u) { open.push_back(u); });
      part.insert(graph.neighbours(v));
    }
    seen.insert(part);
    parts.push_back(std::move(part));
  });
  return parts;
}

std::vector<int> kerf::eliminationOrder(const FactorGraph &graph) {
  size_t variables = graph.domains.size();
  InteractionGraph start(graph);
  std::vector<int> order;
  for (int v = 0, e = variables; v < e; ++v)
    if (graph.domains[v] == 1)
      order.push_back(v);
  for (const VariableSet &part : connectedParts(start, variables)) {
    std::optional<GreedyOrder> best;
    for (Score score : {&InteractionGraph::entries, &InteractionGraph::fill,
                        &InteractionGraph::logFill}) {
      GreedyOrder next(start, score, variables);
      next.run(part);
      auto rank = [](const GreedyOrder &o) {
        return std::tie(o.size.work, o.size.kept);
      };
      if (!best || rank(next) < rank(*best))
        best.emplace(std::move(next));
    }
    llvm::append_range(order, best->order);
  }
  return order;
}

EliminationSize kerf::simulateElimination(const FactorGraph &graph,
                                          const std::vector<int> &order) {
  InteractionGraph left(graph);
  EliminationSize size;
  for (int v : order)
    if (graph.domains[v] > 1)
      left.eliminate(v, size);
  return size;
}
