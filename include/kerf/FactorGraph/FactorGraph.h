//===- FactorGraph.h - minimise a sum of small tables ---------------------===//
//
// Problem: min over x of sum_t table_t(x restricted to its variables). Knows
// nothing of tensors.
//
// Idea: take the variables one after the other. All tables that know a variable
// are added up and minimised over it; what is left is one table over its
// neighbours, the message (bucket elimination; Dechter, "Bucket elimination: a
// unifying framework for reasoning", 1999). Going back, each variable takes the
// state that was best. The cost is exponential in the largest number of
// neighbours only, so the order matters: three greedy ones are tried.
//
// Example: variables a, b, c of two states, tables ab = [5 1 / 0 9] and
// bc = [2 3 / 4 0]. Eliminating a: b = 0 costs 0, b = 1 costs 1. With bc:
// (b, c) = 2 3 / 5 1, so c = 1, b = 1, a = 0 cost 1.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_FACTORGRAPH_FACTORGRAPH_H
#define KERF_FACTORGRAPH_FACTORGRAPH_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// Costs add up and never exceed this: "not possible". Seven of them fit into
/// int64_t.
constexpr int64_t kInfiniteCost = int64_t(1) << 60;
/// a + b, at most kInfiniteCost. Costs are not negative.
inline int64_t addCost(int64_t a, int64_t b) {
  int64_t sum = a + b;
  return sum < kInfiniteCost ? sum : kInfiniteCost;
}

/// Costs of the combinations of its variables' states, the last variable
/// fastest. `variables` ascend; without any it is one constant.
struct CostTable {
  std::vector<int> variables;
  std::vector<int64_t> costs; ///< 0..kInfiniteCost each
  /// The cost of an assignment of all variables of the graph.
  int64_t at(const std::vector<int> &domains,
             const std::vector<int> &states) const {
    int64_t offset = 0;
    for (int variable : variables)
      offset = offset * domains[variable] + states[variable];
    return costs[offset];
  }
  bool operator==(const CostTable &) const = default;
};

struct FactorGraph {
  std::vector<int> domains; ///< number of states of each variable
  std::vector<CostTable> tables;
  int addVariable(int states);
  /// Adds a table; `variables` in any order, distinct, `cost(states)` gives the
  /// cost of states in that order.
  template <typename Fn> void addTable(std::vector<int> variables, Fn cost);
  /// Adds a table; `variables` and `costs` in any order of the variables.
  void addCosts(std::vector<int> variables, std::vector<int64_t> costs);
  /// Cost of an assignment (a state for each variable); saturates.
  int64_t evaluate(const std::vector<int> &states) const;
  /// "domains 2 2 / table 0 1: 5 inf 2 4" with a new line for each slash;
  /// `parseFactorGraph` reads it.
  std::string print() const;
  /// The first inconsistency (sizes that do not match, unknown variables, costs
  /// out of range); "" if none. All functions below assume that there is none.
  std::string check() const;
  bool operator==(const FactorGraph &) const = default;
};

/// Reads what `print` writes; lines that start with '#' are comments. On
/// failure nothing, and `error` gets the line and what is wrong.
std::optional<FactorGraph> parseFactorGraph(const std::string &text,
                                            std::string *error = nullptr);

/// What an elimination does, known before it starts.
struct EliminationSize {
  int width = 0;            ///< variables of the largest table
  int64_t largestTable = 0; ///< entries, the eliminated variable's included
  int64_t work = 0;         ///< entries computed, all tables together
  int64_t kept = 0;         ///< entries of messages: 8 bytes each are held
};

struct Elimination : EliminationSize {
  int64_t cost = kInfiniteCost;
  /// An assignment of this cost: the last eliminated variable takes its first
  /// best state, then the one before, and so on. Empty if nothing is possible.
  std::vector<int> states = {};
  bool gaveUp = false; ///< too much work or memory; nothing was allocated
};

/// Messages up to 1 GiB.
constexpr int64_t kMaxKeptEntries = int64_t(1) << 27;

/// Exact minimum in the order of `eliminationOrder`, of large graphs without
/// dominated states (then `states` is one of the best assignments, and the
/// sizes are those of what is left). Gives up before it starts if work or kept
/// entries exceed `budget` or `maxKept`.
Elimination eliminate(const FactorGraph &graph,
                      int64_t budget = int64_t(1) << 32,
                      int64_t maxKept = kMaxKeptEntries);

/// For each connected part the best of the orders min-weight (smallest table
/// first), min-fill (fewest new neighbours) and min-log-fill (the same,
/// weighted with the logarithms of the states; Kjaerulff 1990) by work. It
/// depends on domains and variables of tables only: graphs that differ in costs
/// (prices) are ordered once.
std::vector<int> eliminationOrder(const FactorGraph &graph);
/// What eliminating in this order takes. Variables with one state count
/// nothing.
EliminationSize simulateElimination(const FactorGraph &graph,
                                    const std::vector<int> &order);
/// As above, in a given order of all variables.
Elimination eliminate(const FactorGraph &graph, const std::vector<int> &order,
                      int64_t budget = int64_t(1) << 32,
                      int64_t maxKept = kMaxKeptEntries);

/// The states of each variable that remain, ascending, none of them empty.
using KeptStates = std::vector<std::vector<int>>;
KeptStates allStates(const FactorGraph &graph);
/// The graph with only these states; variables keep their numbers.
FactorGraph restrictTo(const FactorGraph &graph, const KeptStates &kept);

/// States without those that can be replaced by another one whatever the rest
/// of the assignment is, at no higher cost (Goldstein 1994), until none is
/// left. Some best assignment remains; which of several may change.
KeptStates undominated(const FactorGraph &graph);

/// All assignments tried, the first best one kept; for tests. Gives up above
/// 2^24 of them.
Elimination enumerate(const FactorGraph &graph);

// ---- implementation ---------------------------------------------------------

template <typename Fn>
void FactorGraph::addTable(std::vector<int> variables, Fn cost) {
  size_t entries = 1;
  for (int variable : variables)
    entries *= domains[variable];
  std::vector<int64_t> costs(entries);
  std::vector<int> states(variables.size(), 0);
  for (size_t i = 0; i < entries; ++i) {
    costs[i] = cost(states);
    for (size_t v = variables.size(); v-- > 0;) {
      if (++states[v] < domains[variables[v]])
        break;
      states[v] = 0;
    }
  }
  addCosts(std::move(variables), std::move(costs));
}

} // namespace kerf

#endif // KERF_FACTORGRAPH_FACTORGRAPH_H
