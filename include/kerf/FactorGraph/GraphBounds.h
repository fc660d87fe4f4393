//===- GraphBounds.h - factor graphs that are too large to eliminate ------===//
//
// Problem: two or more mesh axes at once make graphs whose elimination takes
// too much memory. Then a good assignment, and how good it can be at most.
//
// Bound: costs are moved between tables and variables without changing any sum;
// the sum of all minima is then a lower bound (sequential reweighted message
// passing; Kolmogorov, "A new look at reweighted message passing", 2015, which
// for pairs is TRW-S). All arithmetic is in integers and no cost becomes
// negative, so the bound is proven, not rounded.
//
// Descent: few variables are held, so that the rest can be eliminated exactly;
// then others are held, until nothing improves.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_FACTORGRAPH_GRAPHBOUNDS_H
#define KERF_FACTORGRAPH_GRAPHBOUNDS_H

#include "kerf/FactorGraph/FactorGraph.h"

namespace kerf {

struct GraphBound {
  int64_t cost = 0; ///< no assignment costs less
  /// Per variable and state: no assignment with that state costs less.
  std::vector<std::vector<int64_t>> ofState;
  /// An assignment read off the moved costs; often good, may be impossible.
  std::vector<int> states;
};

/// Bound after so many forward and backward rounds over the variables, fewer
/// when a round brings less than a millionth. Time: a round reads every table
/// about six times for each of its variables.
GraphBound lowerBound(const FactorGraph &graph, int rounds);

struct Descent {
  int64_t cost = kInfiniteCost;
  std::vector<int> states; ///< of this cost; may be impossible
  int rounds = 0;          ///< subproblems solved
  int64_t work = 0;        ///< entries computed
};

/// Improves `start` (a state for each variable): in every round holds as few
/// variables as makes the elimination of the rest compute at most
/// `budgetPerRound` entries, those first that were held least often. Ends after
/// `patience` rounds without improvement. Impossible entries count as a large
/// cost, so that an impossible start is repaired.
Descent descend(const FactorGraph &graph, std::vector<int> start,
                int64_t budgetPerRound = int64_t(1) << 20, int patience = 8);

struct Certified {
  int64_t cost = kInfiniteCost;
  int64_t bound = 0;       ///< <= cost; equal: proven best
  std::vector<int> states; ///< of this cost; empty if none was found
  EliminationSize size;    ///< of the last elimination
  int64_t statesLeft = 0;  ///< over all variables, when it was eliminated
  bool proven() const { return bound >= cost; }
};

/// As good as `budget` (entries of one elimination) allows: exact if the graph,
/// or what dominance and the bound leave of it, can be eliminated; else the
/// best of the descent with the bound.
Certified solve(const FactorGraph &graph, int64_t budget = int64_t(1) << 26,
                int boundRounds = 100);

/// `eliminate` where it does not give up; else, of a graph that stays too wide
/// without dominated states, the states that `solve` finds, which need not be
/// the best. `order` is tried first, if it is not empty.
Elimination eliminateOrSolve(const FactorGraph &graph,
                             const std::vector<int> &order, int64_t budget);

} // namespace kerf

#endif // KERF_FACTORGRAPH_GRAPHBOUNDS_H
