//===- SearchSolve.cpp - leaves: the best split that fits -----------------===//
//
// A leaf is split by sums over layers. Where programs are measured, those that
// may become the best, or stand beside it in the explanation, are made to fit.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"
#include "StagesDetail.h"

#include "kerf/Support/Screen.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "search"

using namespace kerf;
using namespace kerf::search_detail;

/// Leaves are simulated on the timeline until so many tasks were simulated.
static constexpr double kMostTasks = 2e8;

PlanPoint Searcher::planOf(const Evaluated &leaf) {
  LeafTimes times;
  StageProblem stages = problemOf(leaf.node, times);
  return evaluatePlan(
      problem, outerOf(leaf.node),
      placedOf(stages, leaf.split, heads[leaf.node.index].tables));
}

double search_detail::bordersOf(int64_t count, int64_t layers) {
  double ways = 1;
  for (int64_t k = 1; k < count; ++k)
    ways *= double(layers - k) / double(k);
  return ways;
}

/// Seconds on the timeline; never, where that was not asked.
double Searcher::playLeaf(const Node &node, const StageProblem &stages,
                          const StageSplit &split, double value, double least) {
  if (value > best * (1 + kPlayedSlack) && least >= best)
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

/// Bytes by which the programs of each stage go beyond the memory.
std::vector<double> Searcher::excessOf(const Node &node,
                                       const StageProblem &stages,
                                       const StageSplit &split) {
  PlanPoint plan;
  plan.outer = outerOf(node);
  plan.stages = placedOf(stages, split, heads[node.index].tables);
  std::vector<double> excess;
  double most = capacityBytes(problem);
  for (const StageMemory &stage : measuredOf(problem, plan))
    excess.push_back(
        stage.total() <= most * (1 + 1e-12) ? 0 : stage.total() - most);
  return excess;
}

static double maxOf(llvm::ArrayRef<double> excess) {
  return excess.empty() ? 0 : *llvm::max_element(excess);
}

/// A split whose programs fit: stages get less and less room for the sums that
/// splits are made by. `isNew`: it is another one than `split`. Steps that
/// double end soon, and may jump over what fits: then `squeezed` goes back.
StageSplit Searcher::fitted(const Node &node, StageProblem &stages,
                            StageSplit split, bool &isNew) {
  constexpr int kTries = 4;
  double bound = split.boundObjective;
  std::vector<double> whole = stages.budget;
  for (int i = 0; split.fits(); ++i) {
    std::vector<double> excess = excessOf(node, stages, split);
    if (maxOf(excess) == 0)
      return split;
    isNew = true;
    if (i == kTries)
      break;
    for (auto [room, bytes] : llvm::zip(stages.budget, excess))
      room -= (1 << i) * bytes;
    split = splitOf(problem, stages, heads[node.index].tables);
    split.boundObjective = bound;
  }
  split = squeezed(node, stages, whole);
  split.boundObjective = bound;
  return split;
}

/// As `fitted`, from the other end: the split that needs the least by the sums
/// is the first whose programs are measured. Where they fit, stages get as much
/// more room as programs allow.
StageSplit Searcher::squeezed(const Node &node, StageProblem &stages,
                              llvm::ArrayRef<double> whole) {
  constexpr int kCoarse = 6, kFine = 6, kMeasured = 4;
  constexpr double kNear = 0.05; // of the memory; more than that is hopeless
  double none = 0, least = 1, most = 1; // parts of the room
  auto splitAt = [&](double part) {
    for (auto [room, all] : llvm::zip(stages.budget, whole))
      room = part * all;
    return splitOf(problem, stages, heads[node.index].tables);
  };
  auto excessAt = [&](double part, StageSplit &split) {
    split = splitAt(part);
    return split.fits() ? maxOf(excessOf(node, stages, split)) : HUGE_VAL;
  };
  auto findLeast = [&](int halvings) {
    for (int i = 0; i < halvings; ++i) {
      double middle = (none + least) / 2;
      (splitAt(middle).fits() ? least : none) = middle;
    }
  };
  StageSplit best, split;
  findLeast(kCoarse);
  double excess = excessAt(least, best);
  if (excess > 0 && excess <= kNear * capacityBytes(problem))
    findLeast(kFine);
  // Programs need less with the sums on the whole, not at every step.
  double fitting = least;
  for (double more : {1.0, 1.1, 1.25, 1.5})
    if (excess > 0 && excess <= kNear * capacityBytes(problem))
      excess = excessAt(fitting = more * least, best);
  if (excess > 0)
    return {};
  least = fitting;
  for (int i = 0; i < kMeasured && least < most; ++i) {
    double middle = (least + most) / 2;
    bool fits = excessAt(middle, split) == 0;
    (fits ? least : most) = middle;
    if (fits && split.objective < best.objective)
      best = std::move(split);
  }
  return best;
}

/// What no split of a leaf can go below, as far as it matters; `split` is the
/// one that was found.
double Searcher::leastOf(const Node &node, const StageProblem &stages,
                         bool byPrograms, const LeafTimes &times,
                         const StageSplit &split) {
  double least = std::max(node.bound, split.boundObjective);
  if (stages.chunks == 1)
    return least;
  // Of chunks not all splits are tried, and memory is not in their bound yet.
  double known = std::min(best, times.stepSec(split.objective));
  const Head &head = heads[node.index];
  if (least < known && !byPrograms)
    least = std::max(least, headBounds.secondsOf(outerOf(node), head.tables,
                                                 head.layouts[node.layouts]));
  if (least < known)
    least = std::max(least, boundOfChunks(stages));
  return least;
}

/// Turns a leaf's problem from sums over layers into what programs need, where
/// that is known.
bool Searcher::toPrograms(const Node &node, StageProblem &stages,
                          const SearchProblem::MeasureLayers &measure) {
  OuterChoice outer = outerOf(node);
  Pricing pricing(problem, outer, memo);
  std::optional<StageProblem> programs =
      programsOf(pricing, heads[node.index].tables, stages, measure);
  if (programs)
    stages = std::move(*programs);
  return programs.has_value();
}

/// Whether a leaf is of no use by what lasts in its programs alone: most that
/// do not fit need not be simulated.
bool Searcher::isHopeless(const Node &node, StageProblem stages) {
  const Pins &pins = problem.pins;
  bool isPinned = !pins.stageLayers.empty() || !pins.chunkLayers.empty();
  if (isPinned || !toPrograms(node, stages, problem.measureLasting))
    return false;
  double least = stages.chunks > 1 ? boundOfChunks(stages)
                                   : splitStages(stages).boundObjective;
  return least >= stages.worth;
}

void Searcher::solveNode(const Node &node) {
  LeafTimes times;
  StageProblem stages = problemOf(node, times);
  stages.worth = best * (1 + kPlayedSlack);
  // Solved for its bound alone: that of others is no higher.
  if (!problem.prove && later.byBound && node.guess >= best)
    stages.worth = std::min(stages.worth, looseBound);
  if (isHopeless(node, stages)) {
    ++certificate.evaluated;
    return;
  }
  bool byPrograms = toPrograms(node, stages, problem.measureLayers);
  // Chunks of unlike layers take long.
  if (stages.chunks > 1 && stages.layers.size() > 1) {
    const Head &head = heads[node.index];
    double least = byPrograms
                       ? boundOfChunks(stages)
                       : headBounds.secondsOf(outerOf(node), head.tables,
                                              head.layouts[node.layouts]);
    if (least >= stages.worth)
      return;
  }
  StageSplit split = splitOf(problem, stages, heads[node.index].tables);
  ++certificate.evaluated;
  // Also of a leaf of which no split, or no programs, that fit were found.
  double least = leastOf(node, stages, byPrograms, times, split);
  if (least < best) {
    openLeaves.push_back({least, node});
    if (!hasFewSplits(outerOf(node)))
      looseBound = std::min(looseBound, least);
  }
  if (split.fits())
    keepLeaf(node, stages, times, std::move(split), least);
}

/// Whether a split needs no more memory than there is.
bool Searcher::fitsMemory(const Node &node, const StageProblem &stages,
                          const StageSplit &split) {
  if (problem.measure)
    return maxOf(excessOf(node, stages, split)) == 0;
  PlanPoint plan =
      evaluatePlan(problem, outerOf(node),
                   placedOf(stages, split, heads[node.index].tables));
  return fits(problem, plan);
}

/// True where embedding and head have a table that both read cut by other
/// dimensions, so that it is moved in each step.
static bool movesTable(const SearchProblem &problem, const OuterChoice &outer,
                       std::vector<PlacedStage> stages) {
  PlanPoint plan;
  plan.outer = outer;
  plan.stages = std::move(stages);
  GroupMemo memo(*problem.machine, problem.profile);
  return !tiedMoves(Pricing(problem, plan.outer, memo), plan).empty();
}

/// Layers that occur once (embedding and head) have the point that a
/// micro-batch is fastest with. How they lie also decides what happens once per
/// step: where that may matter, the point that the step is fastest with. `sec`
/// is what the split takes.
StageSplit Searcher::withBestOnce(const Node &node, const StageProblem &stages,
                                  StageSplit split, double &sec) {
  constexpr double kSlack = 0.1; // of the best; what is slower stays slower
  constexpr int64_t kFewMicroBatches = 16;
  OuterChoice outer = outerOf(node);
  const TableList &tables = heads[node.index].tables;
  if (!split.fits() || sec > best * (1 + kSlack) ||
      (outer.microBatches > kFewMicroBatches &&
       !movesTable(problem, outer, placedOf(stages, split, tables))))
    return split;
  for (int kind : {embeddingOf(problem), headOf(problem)}) {
    size_t points = kind < 0 ? 0 : stages.kinds[kind].points.size();
    for (size_t point = 0; point < points; ++point) {
      StageSplit other = split;
      for (std::vector<SplitChunk> &chunks : other.stages)
        for (SplitChunk &chunk : chunks)
          for (Filled::Part &part : chunk.parts)
            if (part.kind == kind)
              part.point = static_cast<int>(point);
      double own = stepSecOf(problem, outer, placedOf(stages, other, tables));
      if (own < sec * (1 - 1e-9) && fitsMemory(node, stages, other)) {
        split = std::move(other);
        sec = own;
      }
    }
  }
  return split;
}

/// Takes a split that fits, if it is the best.
void Searcher::takeSplit(const Node &node, const StageProblem &stages,
                         const StageSplit &split) {
  PlanPoint plan =
      evaluatePlan(problem, outerOf(node),
                   placedOf(stages, split, heads[node.index].tables));
  LDBG() << report::seconds(plan.stepSec) << " for " << plan.outer.print();
  if (!winner || better(plan, *winner)) {
    winner = std::move(plan);
    won = node;
  }
  best = std::min(best, winner->stepSec);
}

/// Takes note of a leaf that fits by sums, if its programs do.
void Searcher::keepLeaf(const Node &node, StageProblem &stages,
                        const LeafTimes &times, StageSplit split,
                        double least) {
  double value = times.stepSec(split.objective);
  double sec = playLeaf(node, stages, split, value, least);
  split = withBestOnce(node, stages, std::move(split), sec);
  OuterChoice outer = outerOf(node);
  // Less room makes no leaf faster: others need not be made to fit.
  if (problem.measure &&
      (mayWin(sec) || alternatives.improves(outer, {sec, value}))) {
    bool isNew = false;
    split = fitted(node, stages, std::move(split), isNew);
    if (!split.fits())
      return;
    if (isNew) {
      value = times.stepSec(split.objective);
      sec = playLeaf(node, stages, split, value, least);
      split = withBestOnce(node, stages, std::move(split), sec);
    }
  }
  if (mayWin(sec))
    takeSplit(node, stages, split);
  // What is clearly slower and was not simulated comes after all that was.
  evaluated.push_back({node, std::move(split)});
  alternatives.noteLeaf(outer, {sec, value}, evaluated.size() - 1);
}
