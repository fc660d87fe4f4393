//===- FactorGraphEliminate.cpp - bucket elimination ----------------------===//

#include "FactorGraphMinimise.h"
#include "InteractionGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>

using namespace kerf;

namespace {
using TableViews = llvm::SmallVector<TableView, 4>;

/// Tables by the variable of theirs that is eliminated first.
struct Buckets {
  const FactorGraph &graph;
  const std::vector<int> &order;
  std::vector<int> position; ///< in the order
  std::vector<TableViews> tables;
  std::vector<Message> messages; ///< they own costs of tables
  int64_t constant = 0;

  Buckets(const FactorGraph &graph, const std::vector<int> &order);
  void add(TableView table);
  void eliminateAll();
  std::vector<int> bestStates() const;

private:
  TableViews merged(TableViews tables, std::vector<Message> &sums) const;
};
} // namespace

Buckets::Buckets(const FactorGraph &graph, const std::vector<int> &order)
    : graph(graph), order(order), position(order.size()), tables(order.size()) {
  for (auto [i, variable] : llvm::enumerate(order))
    position[variable] = i;
  for (const CostTable &table : graph.tables) {
    TableView view{{}, table.costs.data()};
    for (int variable : table.variables)
      if (graph.domains[variable] > 1)
        view.variables.push_back(variable);
    add(std::move(view));
  }
}

void Buckets::add(TableView table) {
  if (table.variables.empty()) {
    constant = addCost(constant, table.costs[0]);
    return;
  }
  int first = *llvm::min_element(
      table.variables, [&](int a, int b) { return position[a] < position[b]; });
  tables[first].push_back(std::move(table));
}

/// Whether the first table knows all variables of the second.
static bool covers(const TableView &table, const TableView &other) {
  return llvm::all_of(other.variables, [&](int variable) {
    return llvm::is_contained(table.variables, variable);
  });
}

/// Tables that another one covers are added to it, if that is less than adding
/// them to the whole sum.
TableViews Buckets::merged(TableViews tables,
                           std::vector<Message> &sums) const {
  llvm::sort(tables, [](const TableView &a, const TableView &b) {
    return std::pair(b.variables.size(), llvm::ArrayRef(b.variables)) <
           std::pair(a.variables.size(), llvm::ArrayRef(a.variables));
  });
  std::vector<TableViews> groups;
  for (TableView &table : tables) {
    auto group = llvm::find_if(groups, [&](const TableViews &group) {
      return covers(group.front(), table);
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), TableViews());
    group->push_back(std::move(table));
  }
  if (groups.size() == 1)
    return groups.front();
  TableViews left;
  for (TableViews &group : groups) {
    if (group.size() > 1) {
      sums.push_back(addUp(graph.domains, group));
      left.push_back(sums.back().view());
    } else {
      left.push_back(std::move(group.front()));
    }
  }
  return left;
}

void Buckets::eliminateAll() {
  for (int variable : order) {
    if (tables[variable].empty())
      continue;
    std::vector<Message> sums;
    messages.push_back(minimise(graph.domains, merged(tables[variable], sums),
                                variable, position));
    add(messages.back().view());
  }
}

/// The cost at an assignment of all variables.
static int64_t costAt(const TableView &table, const std::vector<int> &domains,
                      const std::vector<int> &states) {
  int64_t offset = 0;
  for (int variable : table.variables)
    offset = offset * domains[variable] + states[variable];
  return table.costs[offset];
}

std::vector<int> Buckets::bestStates() const {
  std::vector<int> states(order.size(), 0);
  for (int variable : llvm::reverse(order)) {
    int64_t best = kInfiniteCost;
    int bestState = 0;
    for (int state = 0; state < graph.domains[variable]; ++state) {
      states[variable] = state;
      int64_t cost = 0;
      for (const TableView &table : tables[variable])
        cost = addCost(cost, costAt(table, graph.domains, states));
      if (cost < best) {
        best = cost;
        bestState = state;
      }
    }
    states[variable] = bestState;
  }
  return states;
}

Elimination kerf::eliminate(const FactorGraph &graph,
                            const std::vector<int> &order, int64_t budget,
                            int64_t maxKept) {
  assert(order.size() == graph.domains.size() && "order of all variables");
  Elimination result{simulateElimination(graph, order)};
  result.gaveUp = result.work > budget || result.kept > maxKept;
  if (result.gaveUp)
    return result;
  Buckets buckets(graph, order);
  buckets.eliminateAll();
  result.cost = buckets.constant;
  if (result.cost < kInfiniteCost)
    result.states = buckets.bestStates();
  return result;
}

/// Looking for dominated states reads every table about this often: worth it
/// only for graphs whose elimination computes more.
constexpr int64_t kReadsOfDominance = 128;

/// Whether leaving states out can pay.
static bool isHard(const FactorGraph &graph, int64_t work) {
  int64_t entries = 0;
  for (const CostTable &table : graph.tables)
    entries += table.costs.size();
  return work / kReadsOfDominance > entries;
}

Elimination kerf::eliminate(const FactorGraph &graph, int64_t budget,
                            int64_t maxKept) {
  std::vector<int> order = eliminationOrder(graph);
  if (!isHard(graph, simulateElimination(graph, order).work))
    return eliminate(graph, order, budget, maxKept);
  KeptStates kept = undominated(graph);
  FactorGraph left = restrictTo(graph, kept);
  Elimination result = eliminate(left, eliminationOrder(left), budget, maxKept);
  for (auto [state, names] : llvm::zip(result.states, kept))
    state = names[state];
  return result;
}
