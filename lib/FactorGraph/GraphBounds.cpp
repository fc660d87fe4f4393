//===- GraphBounds.cpp - bounds, descent, and both together ---------------===//

#include "kerf/FactorGraph/GraphBounds.h"

#include "InteractionGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace kerf;

// ---- Lower bound ------------------------------------------------------------

namespace {
/// One variable of one table: entry (o, s, i) of [outer, states, inner].
struct Place {
  int table;
  int64_t outer = 1, inner = 1;
  bool first = false, last = false; ///< of the table's variables
};

/// The graph with its costs moved: tables and one row of costs per variable add
/// up to what they did at the start, for every assignment.
struct MovedCosts {
  const FactorGraph &graph;
  std::vector<std::vector<int64_t>> tables;
  std::vector<std::vector<int64_t>> rows; ///< per variable
  std::vector<std::vector<Place>> places; ///< per variable
  std::vector<int64_t> least;             ///< scratch

  explicit MovedCosts(const FactorGraph &graph);
  void minima(const Place &place, int64_t states);
  void collect(int variable, const Place &place);
  void give(int variable, const Place &place,
            const std::vector<int64_t> &share);
  void visit(int variable, bool forward);
  int64_t bound() const;
  std::vector<int64_t> boundOfStates(int variable, int64_t bound);
  std::vector<int> round() const;
};
} // namespace

MovedCosts::MovedCosts(const FactorGraph &graph)
    : graph(graph), places(graph.domains.size()) {
  for (int states : graph.domains)
    rows.emplace_back(states, 0);
  for (auto [number, table] : llvm::enumerate(graph.tables)) {
    tables.push_back(table.costs);
    for (auto [i, variable] : llvm::enumerate(table.variables)) {
      Place place{static_cast<int>(number)};
      for (auto [j, other] : llvm::enumerate(table.variables))
        if (j != i)
          (j < i ? place.outer : place.inner) *= graph.domains[other];
      place.first = i == 0;
      place.last = i + 1 == table.variables.size();
      places[variable].push_back(place);
    }
  }
}

/// least[s] = the least cost of the table with the variable in state s.
void MovedCosts::minima(const Place &place, int64_t states) {
  least.assign(states, kInfiniteCost);
  const int64_t *cost = tables[place.table].data();
  for (int64_t o = 0; o < place.outer; ++o)
    for (int64_t s = 0; s < states; ++s)
      for (int64_t i = 0; i < place.inner; ++i)
        least[s] = std::min(least[s], *cost++);
}

/// Moves the minima of the table to the variable.
void MovedCosts::collect(int variable, const Place &place) {
  int64_t states = graph.domains[variable];
  minima(place, states);
  int64_t *cost = tables[place.table].data();
  for (int64_t o = 0; o < place.outer; ++o)
    for (int64_t s = 0; s < states; ++s)
      for (int64_t i = 0; i < place.inner; ++i, ++cost)
        if (*cost < kInfiniteCost)
          *cost -= least[s];
  for (int64_t s = 0; s < states; ++s)
    rows[variable][s] = addCost(rows[variable][s], least[s]);
}

/// Adds a share of the variable's costs to the table.
void MovedCosts::give(int variable, const Place &place,
                      const std::vector<int64_t> &share) {
  int64_t *cost = tables[place.table].data();
  for (int64_t o = 0; o < place.outer; ++o)
    for (int64_t given : share)
      for (int64_t i = 0; i < place.inner; ++i, ++cost)
        *cost = addCost(*cost, given);
}

/// Collects all that tables can spare and hands it on to those whose other
/// variables come later in this direction.
void MovedCosts::visit(int variable, bool forward) {
  int64_t before = 0, after = 0;
  for (const Place &place : places[variable]) {
    collect(variable, place);
    before += !place.first;
    after += !place.last;
  }
  int64_t parts = std::max(before, after);
  if (parts == 0)
    return;
  std::vector<int64_t> share;
  for (int64_t &cost : rows[variable]) {
    bool infinite = cost >= kInfiniteCost;
    share.push_back(infinite ? kInfiniteCost : cost / parts);
    cost -= infinite ? 0 : share.back() * (forward ? after : before);
  }
  for (const Place &place : places[variable])
    if (forward ? !place.last : !place.first)
      give(variable, place, share);
}

int64_t MovedCosts::bound() const {
  int64_t total = 0;
  for (const std::vector<int64_t> &row : rows)
    total = addCost(total, *llvm::min_element(row));
  for (const std::vector<int64_t> &table : tables)
    total = addCost(total, *llvm::min_element(table));
  return total;
}

/// The bound with the variable held in each of its states: only its row and its
/// tables have larger minima then.
std::vector<int64_t> MovedCosts::boundOfStates(int variable, int64_t bound) {
  std::vector<int64_t> row = rows[variable];
  int64_t counted = *llvm::min_element(row);
  for (const Place &place : places[variable]) {
    minima(place, row.size());
    counted += *llvm::min_element(least);
    for (auto [cost, more] : llvm::zip_equal(row, least))
      cost = addCost(cost, more);
  }
  if (bound < kInfiniteCost)
    for (int64_t &cost : row)
      cost = std::min(kInfiniteCost, cost + (bound - counted));
  return row;
}

/// The states with the least cost, one variable after the other: of tables the
/// least entries that agree with the states chosen so far.
std::vector<int> MovedCosts::round() const {
  KeptStates open = allStates(graph);
  std::vector<int> states;
  FactorGraph left{graph.domains, {}};
  for (auto [table, costs] : llvm::zip_equal(graph.tables, tables))
    left.tables.push_back({table.variables, costs});
  for (int v = 0, e = graph.domains.size(); v < e; ++v) {
    std::vector<int64_t> row = rows[v];
    for (const Place &place : places[v]) {
      FactorGraph local{graph.domains, {left.tables[place.table]}};
      for (int s = 0; s < graph.domains[v]; ++s) {
        open[v] = {s};
        row[s] = addCost(row[s], *llvm::min_element(
                                     restrictTo(local, open).tables[0].costs));
      }
    }
    states.push_back(llvm::min_element(row) - row.begin());
    open[v] = {states[v]};
  }
  return states;
}

/// The bound ends when a round raises it by less than this part of itself.
constexpr int64_t kLeastProgress = 1 << 20;

GraphBound kerf::lowerBound(const FactorGraph &graph, int rounds) {
  MovedCosts moved(graph);
  int variables = graph.domains.size();
  for (int64_t last = -1; rounds > 0; --rounds) {
    for (int v = 0; v < variables; ++v)
      moved.visit(v, /*forward=*/true);
    for (int v = variables; v-- > 0;)
      moved.visit(v, /*forward=*/false);
    int64_t now = moved.bound();
    if (now <= last + last / kLeastProgress)
      break;
    last = now;
  }
  GraphBound result;
  result.cost = moved.bound();
  for (int v = 0; v < variables; ++v)
    result.ofState.push_back(moved.boundOfStates(v, result.cost));
  result.states = moved.round();
  return result;
}

// ---- Descent ----------------------------------------------------------------

/// The graph with a finite cost for impossible entries, larger than what all
/// possible ones can add up to; unchanged where that is too large for int64_t.
static FactorGraph withPenalties(const FactorGraph &graph) {
  int64_t penalty = 1;
  for (const CostTable &table : graph.tables) {
    int64_t largest = 0;
    for (int64_t cost : table.costs)
      if (cost < kInfiniteCost)
        largest = std::max(largest, cost);
    penalty = addCost(penalty, largest);
  }
  if (penalty > kInfiniteCost / (2 * int64_t(graph.tables.size() + 1)))
    return graph;
  FactorGraph changed = graph;
  for (CostTable &table : changed.tables)
    for (int64_t &cost : table.costs)
      cost = cost >= kInfiniteCost ? penalty : cost;
  return changed;
}

/// Which variables to hold so that eliminating the rest computes at most
/// `budget` entries; the order of the rest comes back in `order`. Held are the
/// ones that were held least often, of these the ones with most neighbours.
/// Each table may take its part of what is left of the budget.
static std::vector<int> chooseHeld(const FactorGraph &graph, int64_t budget,
                                   const std::vector<int> &timesHeld,
                                   std::vector<int> &order) {
  InteractionGraph left(graph);
  std::vector<int> held;
  EliminationSize size;
  // Of each variable; taking one away changes those of its neighbours alone.
  std::vector<int64_t> entries(graph.domains.size());
  std::vector<int> degrees(graph.domains.size());
  auto count = [&](int v) {
    entries[v] = left.entries(v);
    degrees[v] = left.neighbours(v).size();
  };
  left.left().forEach(count);
  while (int64_t variables = left.left().size()) {
    int next = -1, hold = -1;
    auto rank = [&](int v) { return std::pair(-timesHeld[v], degrees[v]); };
    left.left().forEach([&](int v) {
      if (next < 0 || entries[v] < entries[next])
        next = v;
      if (hold < 0 || rank(v) > rank(hold))
        hold = v;
    });
    bool isSmall = entries[next] <= (budget - size.work) / variables;
    int taken = isSmall ? next : hold;
    VariableSet changed = left.neighbours(taken);
    if (isSmall)
      left.eliminate(taken, size);
    else
      left.remove(taken);
    (isSmall ? order : held).push_back(taken);
    changed.forEach(count);
  }
  return held;
}

/// The best assignment that agrees with `states` on the held variables.
static Elimination improve(const FactorGraph &graph,
                           const std::vector<int> &states,
                           const std::vector<int> &held,
                           std::vector<int> order) {
  KeptStates kept = allStates(graph);
  for (int v : held)
    kept[v] = {states[v]};
  for (int v = 0, e = graph.domains.size(); v < e; ++v)
    if (kept[v].size() == 1)
      order.push_back(v);
  Elimination result = eliminate(restrictTo(graph, kept), order);
  for (auto [state, names] : llvm::zip(result.states, kept))
    state = names[state];
  return result;
}

Descent kerf::descend(const FactorGraph &graph, std::vector<int> start,
                      int64_t budgetPerRound, int patience) {
  FactorGraph penalised = withPenalties(graph);
  std::vector<int> timesHeld(graph.domains.size(), 0);
  int64_t cost = penalised.evaluate(start);
  Descent result;
  for (int idle = 0; idle < patience; ++idle) {
    std::vector<int> order;
    std::vector<int> held =
        chooseHeld(penalised, budgetPerRound, timesHeld, order);
    Elimination next = improve(penalised, start, held, order);
    ++result.rounds;
    result.work = addCost(result.work, next.work);
    if (next.cost < cost) {
      cost = next.cost;
      start = next.states;
      idle = -1;
    }
    if (held.empty())
      break;
    for (int v : held)
      ++timesHeld[v];
  }
  result.cost = graph.evaluate(start);
  result.states = std::move(start);
  return result;
}

// ---- Together ---------------------------------------------------------------

/// The states that an assignment below `limit` may have; empty if none is left
/// of some variable.
static KeptStates statesBelow(const GraphBound &bound, int64_t limit) {
  KeptStates kept;
  for (const std::vector<int64_t> &row : bound.ofState) {
    kept.emplace_back();
    for (auto [state, cost] : llvm::enumerate(row))
      if (cost < limit)
        kept.back().push_back(state);
    if (kept.back().empty())
      return {};
  }
  return kept;
}

/// `inner` are states of a graph whose states are called `outer`.
static KeptStates namesIn(const KeptStates &outer, KeptStates inner) {
  for (auto [names, states] : llvm::zip_equal(outer, inner))
    for (int &state : states)
      state = names[state];
  return inner;
}

namespace {
/// A graph that becomes smaller, and the best that is known of it.
struct Shrinking {
  FactorGraph graph;
  KeptStates names; ///< of its states in the graph at the start
  Certified best;

  void keep(const KeptStates &kept);
  void take(int64_t cost, std::vector<int> states);
  bool eliminateAll(int64_t budget);
};
} // namespace

void Shrinking::keep(const KeptStates &kept) {
  graph = restrictTo(graph, kept);
  names = namesIn(names, kept);
  best.statesLeft = 0;
  for (const std::vector<int> &states : kept)
    best.statesLeft += states.size();
}

void Shrinking::take(int64_t cost, std::vector<int> states) {
  if (cost >= best.cost)
    return;
  for (auto [state, row] : llvm::zip_equal(states, names))
    state = row[state];
  best.cost = cost;
  best.states = std::move(states);
}

/// True if that was possible: then nothing is better than `best`.
bool Shrinking::eliminateAll(int64_t budget) {
  keep(undominated(graph));
  Elimination result = eliminate(graph, budget);
  best.size = result;
  if (result.gaveUp)
    return false;
  take(result.cost, std::move(result.states));
  best.bound = best.cost;
  return true;
}

Certified kerf::solve(const FactorGraph &graph, int64_t budget,
                      int boundRounds) {
  Shrinking left{graph, allStates(graph), {}};
  if (left.eliminateAll(budget))
    return left.best;
  GraphBound bound = lowerBound(left.graph, boundRounds);
  Descent descent = descend(left.graph, bound.states, budget / 16);
  left.take(descent.cost, std::move(descent.states));
  left.best.bound = std::min(bound.cost, left.best.cost);
  KeptStates below = statesBelow(bound, left.best.cost);
  if (below.empty()) {
    left.best.bound = left.best.cost;
    return left.best;
  }
  left.keep(below);
  left.eliminateAll(budget);
  return left.best;
}

Elimination kerf::eliminateOrSolve(const FactorGraph &graph,
                                   const std::vector<int> &order,
                                   int64_t budget) {
  Elimination best;
  best.gaveUp = true;
  if (!order.empty())
    best = eliminate(graph, order, budget);
  if (best.gaveUp)
    best = eliminate(graph, budget);
  if (!best.gaveUp)
    return best;
  Certified found = solve(graph, budget);
  best.cost = found.cost;
  best.states = std::move(found.states);
  return best;
}
