//===- SearchPolish.cpp - what lies near the best plan --------------------===//
//
// Problem: where the tables that may be solved are used up, shapes are left
// that nobody looked at. Guesses are off by some percent, so one of them may be
// faster than the best plan; it is often one step away from that.
//
// Idea: look at the neighbours of the best plan whose bound is below it: a
// factor of 2 or 3 moves from one axis to another, or into the micro-batch. A
// few more tables are allowed for that. Repeat while the best plan moves.
//
// Example: DeepSeek-V3 with sequences of 65,536 tokens on 512 GB200. What was
// explored ended with 2 stages of 32 data ranks; 64 data ranks without stages
// are 0.8 % faster, and were left open.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace kerf;
using namespace kerf::search_detail;

/// Tables that may be solved for neighbours, of those of the search.
constexpr double kPolishTables = 0.15;

/// How often larger or smaller `a` is; the larger of both.
static double ratioOf(int64_t a, int64_t b) {
  return double(std::max(a, b)) / double(std::min(a, b));
}

/// A factor of at most 3 moved between two axes, experts' ranks and micro-batch
/// within 2.
static bool isNeighbour(const Shape &a, const OuterChoice &b) {
  constexpr double kMoved = 3, kWithin = 2;
  int moved = 0;
  for (auto [own, other] : {std::pair(a.tp, b.tp), std::pair(a.cp, b.cp),
                            std::pair(a.dp, b.dp), std::pair(a.pp, b.pp)}) {
    moved += own != other;
    if (ratioOf(own, other) > kMoved)
      return false;
  }
  return moved <= 2 && ratioOf(a.ep, b.ep) <= kWithin &&
         ratioOf(a.microBatch, b.microBatch) <= kWithin;
}

Shape Searcher::shapeOf(const OpenPart &part) const {
  if (part.level == Level::Shape)
    return shapes[part.index];
  const OuterChoice &outer = nodes[part.index].outer;
  return {outer.tp, outer.cp,         outer.ep,          outer.pp,
          outer.dp, outer.microBatch, outer.microBatches};
}

/// Takes the open parts near the best plan that may beat it, the most promising
/// first; candidate plans that are guessed to be slower stay.
std::vector<OpenPart> Searcher::takeNear() {
  auto isNear = [&](const OpenPart &part) {
    bool mayHelp = part.level != Level::Candidate || part.guess < best;
    return part.bound < best && mayHelp &&
           isNeighbour(shapeOf(part), winner->outer);
  };
  std::vector<OpenPart> near, others;
  for (const OpenPart &part : queue)
    (isNear(part) ? near : others).push_back(part);
  queue = std::move(others);
  std::vector<size_t> order(near.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](size_t a, size_t b) {
    return near[a].guess != near[b].guess ? near[a].guess < near[b].guess
                                          : a < b;
  });
  std::vector<OpenPart> sorted;
  for (size_t i : order)
    sorted.push_back(near[i]);
  return sorted;
}

void Searcher::polish() {
  // Only where something was left out.
  if (!winner || openBound >= best)
    return;
  tableBudget += kPolishTables * problem.budget;
  llvm::append_range(queue, deferred);
  deferred.clear();
  for (std::vector<OpenPart> near; !(near = takeNear()).empty();)
    for (OpenPart &part : near) {
      raise(part);
      if (part.bound == HUGE_VAL) {
        --openNodes;
        ++certificate.prunedByMemory;
      } else if (part.bound < best) {
        work(part); // its children are in the queue
      }
    }
  llvm::append_range(queue, deferred);
  deferred.clear();
}
