//===- SearchSolve.cpp - leaves: the best split that fits -----------------===//
//
// A leaf is split by sums over layers. Where programs are measured, those that
// may become the best, or stand beside it in the explanation, are made to fit.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"

using namespace kerf;
using namespace kerf::search_detail;

/// Leaves are played on the timeline until so many tasks were played.
static constexpr double kMostTasks = 2e8;

PlanPoint Searcher::planOf(const Evaluated &leaf) {
  LeafTimes times;
  StageProblem stages = problemOf(leaf.node, times);
  return evaluatePlan(
      problem, outerOf(leaf.node),
      placedOf(stages, leaf.split, heads[leaf.node.index].tables));
}

/// Seconds on the timeline; never, where that was not asked.
double Searcher::playLeaf(const Node &node, const StageProblem &stages,
                          const StageSplit &split, double value) {
  if (value > best * (1 + kPlayedSlack))
    return HUGE_VAL;
  OuterChoice outer = outerOf(node);
  tasks += 2.0 * static_cast<double>(outer.pp) *
           static_cast<double>(outer.microBatches * outer.chunks);
  if (winner && tasks > kMostTasks)
    return HUGE_VAL;
  return stepSecOf(problem, outer,
                   placedOf(stages, split, heads[node.index].tables));
}

/// Whether a leaf of these seconds may be the result.
bool Searcher::mayWin(double sec) const {
  constexpr double kEqual = 2e-9; // then `better` decides
  return sec < HUGE_VAL && (!winner || sec <= winner->stepSec * (1 + kEqual));
}

/// A split whose programs fit: stages get less and less room for the sums that
/// splits are made by. `isNew`: it is another one than `split`.
StageSplit Searcher::fitted(const Node &node, StageProblem &stages,
                            StageSplit split, bool &isNew) {
  constexpr int kTries = 4;
  const std::vector<int64_t> &pinned = problem.pins.stageLayers;
  double bound = split.boundObjective, most = capacityBytes(problem);
  for (int i = 0; split.fits(); ++i) {
    PlanPoint plan;
    plan.outer = outerOf(node);
    plan.stages = placedOf(stages, split, heads[node.index].tables);
    double largest = 0;
    for (auto [room, stage] :
         llvm::zip(stages.budget, measuredOf(problem, plan))) {
      largest = std::max(largest, stage.total());
      room -= (1 << i) * std::max(0.0, stage.total() - most);
    }
    if (largest <= most * (1 + 1e-12))
      break;
    if (i == kTries)
      return {};
    split = pinned.empty() ? splitStages(stages) : fillStages(stages, pinned);
    split.boundObjective = bound;
    isNew = true;
  }
  return split;
}

/// What no split of a leaf can go below, as far as it matters; `split` is the
/// one that was found.
double Searcher::leastOf(const Node &node, const StageProblem &stages,
                         const LeafTimes &times, const StageSplit &split) {
  double least = std::max(node.bound, times.onceSec + split.boundObjective);
  if (stages.chunks == 1)
    return least;
  // Of chunks not all splits are tried, and memory is not in their bound yet.
  double known = std::min(best, times.onceSec + split.objective);
  const Head &head = heads[node.index];
  if (least < known)
    least = std::max(least, headBounds.secondsOf(outerOf(node), head.tables,
                                                 head.layouts[node.layouts]));
  if (least < known)
    least = std::max(least, times.onceSec + boundOfChunks(stages));
  return least;
}

void Searcher::solveNode(const Node &node) {
  const std::vector<int64_t> &pinned = problem.pins.stageLayers;
  LeafTimes times;
  StageProblem stages = problemOf(node, times);
  // Chunks of unlike layers take long.
  if (stages.chunks > 1 && stages.layers.size() > 1) {
    const Head &head = heads[node.index];
    double least = headBounds.secondsOf(outerOf(node), head.tables,
                                        head.layouts[node.layouts]);
    if (least >= best * (1 + kPlayedSlack))
      return;
  }
  stages.worth = best * (1 + kPlayedSlack) - times.onceSec;
  StageSplit split =
      pinned.empty() ? splitStages(stages) : fillStages(stages, pinned);
  ++certificate.evaluated;
  // Also of a leaf of which no split, or no programs, that fit were found.
  looseBound = std::min(looseBound, leastOf(node, stages, times, split));
  if (split.fits())
    keepLeaf(node, stages, times.onceSec, std::move(split));
}

/// Takes note of a leaf that fits by sums, if its programs do.
void Searcher::keepLeaf(const Node &node, StageProblem &stages, double onceSec,
                        StageSplit split) {
  double value = split.objective + onceSec;
  double sec = playLeaf(node, stages, split, value);
  OuterChoice outer = outerOf(node);
  // Less room makes no leaf faster: others need not be made to fit.
  if (problem.measure && (value < best || mayWin(sec) ||
                          alternatives.improves(outer, {sec, value}))) {
    bool isNew = false;
    split = fitted(node, stages, std::move(split), isNew);
    if (!split.fits())
      return;
    if (isNew) {
      value = split.objective + onceSec;
      sec = playLeaf(node, stages, split, value);
    }
  }
  best = std::min(best, value);
  if (mayWin(sec)) {
    PlanPoint plan = evaluatePlan(
        problem, outer, placedOf(stages, split, heads[node.index].tables));
    if (!winner || better(plan, *winner))
      winner = std::move(plan);
  }
  // What is clearly slower and was not played comes after all that was.
  evaluated.push_back({node, std::move(split)});
  alternatives.noteLeaf(outer, {sec, value}, evaluated.size() - 1);
}
