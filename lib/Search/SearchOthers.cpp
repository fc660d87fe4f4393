//===- SearchOthers.cpp - alternatives as fast as they can be -------------===//
//
// Problem: a person asks what another value of a choice would cost. The plans
// that the search solved with it need not be the fastest: what is guessed to be
// slower than the best was left alone.
//
// Idea: when the best plan is found, look at what is guessed to be faster than
// the plan that stands for a value: the candidate plans that have tables, and
// the first nodes that have none, for a few more tables. Nothing of it changes
// what is proven.
//
// Example: GPT-2 on 8 H100. With zero=2 the search had solved a plan of 28.5
// ms on the way to 20.0; one of 20.4 ms stood beside the best, and its bound
// was no lower.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"

using namespace kerf;
using namespace kerf::search_detail;

/// Tables that may be solved for other values, of those of the search.
constexpr double kOtherTables = 0.1;

/// Expands a node or solves a candidate plan that may be faster than what is
/// listed, once.
void Searcher::lookAt(const Alternatives::Promise &promise) {
  const OpenPart &part = promise.part;
  switch (part.level) {
  case Level::Shape:
    if (!expandedShapes.count(part.index))
      expandShape(part.index);
    break;
  case Level::Node:
    if (OpenPart own = part; nodes[part.index].tables.empty()) {
      raise(own);
      if (nodes[part.index].least < promise.listedSec)
        expandNode(own);
    }
    break;
  case Level::Candidate:
    if (!lookedAt
             .insert({part.index, part.sharding, part.schedule, part.layouts})
             .second)
      break;
    listedSec = promise.listedSec;
    solvePart(part);
    listedSec = 0;
    break;
  }
}

void Searcher::improveAlternatives() {
  constexpr int kRounds = 2; // what is found has other values, too
  if (!winner || problem.isQuick)
    return;
  Certificate known = certificate;
  auto open = openCandidates;
  auto [nodesOpen, loose] = std::make_pair(openNodes, looseBound);
  OuterChoice before = winner->outer;
  tableBudget = tablesCost * (1 + kOtherTables);
  for (int round = 0; round < kRounds; ++round) {
    alternatives.simulate(*this);
    for (Level level : {Level::Shape, Level::Node, Level::Candidate})
      for (const auto &promise : alternatives.promises(*winner, level))
        lookAt(promise);
  }
  if (winner->outer.print() != before.print()) // a tie, or better
    settleTies();
  certificate = std::move(known);
  openCandidates = std::move(open);
  openNodes = nodesOpen;
  looseBound = loose;
}
