//===- IntegerProgram.h - a factor graph for an ILP solver ----------------===//
//
// minimise   sum_t sum_e cost(t, e) y(t, e)
// such that  sum_s x(v, s) = 1                        for each variable
//            sum_{e with v in state s} y(t, e) = x(v, s)   for t, v of t, s
//            x(v, s) in {0, 1}, y(t, e) >= 0
//
// (the local polytope; Koster, van Hoesel, Kolen 1998). Entries that are not
// possible have no y. Tables of one variable are costs of its x. Constants are
// left out and costs are scaled: solutions are judged by the graph.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_PLAN_INTEGERPROGRAM_H
#define KERF_TEST_PLAN_INTEGERPROGRAM_H

#include "kerf/FactorGraph/FactorGraph.h"

/// The program in the LP format of CPLEX, which cbc, glpsol, HiGHS and others
/// read.
std::string writeIntegerProgram(const kerf::FactorGraph &graph);

/// The assignment in a solution file of cbc: empty if it says that there is
/// none, nothing if it cannot be read.
std::optional<std::vector<int>> readSolution(const kerf::FactorGraph &graph,
                                             const std::string &text);

#endif // KERF_TEST_PLAN_INTEGERPROGRAM_H
