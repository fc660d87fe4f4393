//===- FactorGraphReduce.cpp - leaving states out -------------------------===//

#include "kerf/FactorGraph/FactorGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <numeric>

using namespace kerf;

// ---- Restriction ------------------------------------------------------------

KeptStates kerf::allStates(const FactorGraph &graph) {
  KeptStates all;
  for (int count : graph.domains) {
    all.emplace_back(count);
    std::iota(all.back().begin(), all.back().end(), 0);
  }
  return all;
}

/// The table with only the kept states.
static CostTable restrictTable(const std::vector<int> &domains,
                               const CostTable &table, const KeptStates &kept) {
  std::vector<int64_t> offsets = {0};
  for (int variable : table.variables) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * kept[variable].size());
    for (int64_t offset : offsets)
      for (int state : kept[variable])
        next.push_back(offset * domains[variable] + state);
    offsets = std::move(next);
  }
  CostTable restricted{table.variables, {}};
  restricted.costs.reserve(offsets.size());
  for (int64_t offset : offsets)
    restricted.costs.push_back(table.costs[offset]);
  return restricted;
}

FactorGraph kerf::restrictTo(const FactorGraph &graph, const KeptStates &kept) {
  FactorGraph restricted;
  for (const std::vector<int> &states : kept)
    restricted.domains.push_back(static_cast<int>(states.size()));
  for (const CostTable &table : graph.tables)
    restricted.tables.push_back(restrictTable(graph.domains, table, kept));
  return restricted;
}

// ---- Dominance --------------------------------------------------------------

namespace {
/// A table seen from one of its variables: entry (o, s, i) of [outer, states,
/// inner].
struct TableView {
  const CostTable *table;
  int64_t outer = 1, states = 1, inner = 1;
};

constexpr int64_t kAlways = std::numeric_limits<int64_t>::min();
} // namespace

static TableView viewFrom(const FactorGraph &graph, const CostTable &table,
                          int variable) {
  TableView view{&table};
  for (int v : table.variables)
    (v < variable    ? view.outer
     : v == variable ? view.states
                     : view.inner) *= graph.domains[v];
  return view;
}

/// The most that the table grows when `from` is replaced by `to`; kAlways if
/// `from` is not possible at all.
static int64_t largestIncrease(const TableView &view, int from, int to) {
  int64_t most = kAlways;
  for (int64_t o = 0; o < view.outer; ++o) {
    const int64_t *slab = &view.table->costs[o * view.states * view.inner];
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t before = slab[from * view.inner + i];
      if (before < kInfiniteCost)
        most = std::max(most, slab[to * view.inner + i] - before);
    }
  }
  return most;
}

/// Whether `from` can always be replaced by `to`.
static bool dominated(const std::vector<TableView> &views, int from, int to) {
  int64_t total = 0;
  bool impossible = false;
  for (const TableView &view : views) {
    int64_t increase = largestIncrease(view, from, to);
    impossible |= increase == kAlways;
    total = increase == kAlways ? total : addCost(total, increase);
  }
  return impossible || total <= 0;
}

/// Removes dominated states of one variable; true if there were any.
static bool removeDominated(const std::vector<TableView> &views,
                            std::vector<int> &states) {
  size_t before = states.size();
  for (size_t i = states.size(); i-- > 0 && states.size() > 1;)
    if (llvm::any_of(states, [&](int other) {
          return other != states[i] && dominated(views, states[i], other);
        }))
      states.erase(states.begin() + i);
  return states.size() < before;
}

/// One round over the variables that are `open`; true if any state was removed.
/// `kept` are states of `graph`. Open next are those that share a table with
/// one that lost a state: for others nothing has changed.
static bool removeDominated(const FactorGraph &graph, KeptStates &kept,
                            std::vector<bool> &open) {
  std::vector<std::vector<TableView>> views(graph.domains.size());
  for (const CostTable &table : graph.tables)
    for (int variable : table.variables)
      if (open[variable])
        views[variable].push_back(viewFrom(graph, table, variable));
  std::vector<bool> changed(graph.domains.size());
  for (auto [variable, states] : llvm::enumerate(kept))
    changed[variable] =
        open[variable] && removeDominated(views[variable], states);
  open.assign(open.size(), false);
  bool removed = false;
  for (const CostTable &table : graph.tables)
    if (llvm::any_of(table.variables, [&](int v) { return changed[v]; }))
      for (int variable : table.variables)
        open[variable] = removed = true;
  return removed || llvm::is_contained(changed, true);
}

KeptStates kerf::undominated(const FactorGraph &graph) {
  KeptStates kept = allStates(graph);
  FactorGraph left = graph;
  KeptStates round = kept;
  std::vector<bool> open(graph.domains.size(), true);
  while (removeDominated(left, round, open)) {
    for (auto [variable, states] : llvm::enumerate(round)) {
      std::vector<int> names;
      for (int state : states)
        names.push_back(kept[variable][state]);
      kept[variable] = std::move(names);
    }
    left = restrictTo(left, round);
    for (std::vector<int> &states : round)
      std::iota(states.begin(), states.end(), 0);
  }
  return kept;
}
