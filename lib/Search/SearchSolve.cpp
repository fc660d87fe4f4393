//===- SearchSolve.cpp - candidate plans: the best split that fits --------===//
//
// A candidate plan is split by sums over layers. Where programs are measured,
// those that may become the best, or stand beside it in the explanation, are
// made to fit.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"
#include "StagesDetail.h"

#include "kerf/Support/Screen.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "search"

using namespace kerf;
using namespace kerf::search_detail;

/// Candidate plans are simulated on the timeline until so many tasks were
/// simulated.
static constexpr double kMostTasks = 2e8;

PlanPoint Searcher::planOf(const Evaluated &candidate) {
  CandidateTimes times;
  StageProblem stages = problemOf(candidate.part, times);
  return evaluatePlan(
      problem, outerOf(candidate.part),
      placedOf(stages, candidate.split, nodes[candidate.part.index].tables));
}

double search_detail::bordersOf(int64_t count, int64_t layers) {
  double ways = 1;
  for (int64_t k = 1; k < count; ++k)
    ways *= double(layers - k) / double(k);
  return ways;
}

/// Seconds on the timeline; never, where that was not asked.
double Searcher::simulateCandidate(const OpenPart &part,
                                   const StageProblem &stages,
                                   const StageSplit &split, double value,
                                   double least) {
  bool isClear = value > best * (1 + kPlayedSlack) && least >= best;
  if (isClear && value >= listedSec)
    return HUGE_VAL;
  OuterChoice outer = outerOf(part);
  tasks += 2.0 * static_cast<double>(outer.pp) *
           static_cast<double>(outer.microBatches * outer.chunks);
  if (winner && tasks > kMostTasks)
    return HUGE_VAL;
  return stepSecOf(problem, outer,
                   placedOf(stages, split, nodes[part.index].tables));
}

/// Whether a candidate plan of these seconds may be the result.
bool Searcher::mayWin(double sec) const {
  constexpr double kEqual = 2e-9; // then `better` decides
  return sec < HUGE_VAL && (!winner || sec <= winner->stepSec * (1 + kEqual));
}

/// Bytes by which the programs of each stage go beyond the memory.
std::vector<double> Searcher::excessOf(const OpenPart &part,
                                       const StageProblem &stages,
                                       const StageSplit &split) {
  PlanPoint plan;
  plan.outer = outerOf(part);
  plan.stages = placedOf(stages, split, nodes[part.index].tables);
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
StageSplit Searcher::fitted(const OpenPart &part, StageProblem &stages,
                            StageSplit split, bool &isNew) {
  constexpr int kTries = 4;
  double bound = split.boundObjective;
  std::vector<double> whole = stages.budget;
  for (int i = 0; split.fits(); ++i) {
    std::vector<double> excess = excessOf(part, stages, split);
    if (maxOf(excess) == 0)
      return split;
    isNew = true;
    if (i == kTries)
      break;
    for (auto [room, bytes] : llvm::zip(stages.budget, excess))
      room -= (1 << i) * bytes;
    split = splitOf(problem, stages, nodes[part.index].tables);
    split.boundObjective = bound;
  }
  split = squeezed(part, stages, whole);
  split.boundObjective = bound;
  return split;
}

/// As `fitted`, from the other end: the split that needs the least by the sums
/// is the first whose programs are measured. Where they fit, stages get as much
/// more room as programs allow.
StageSplit Searcher::squeezed(const OpenPart &part, StageProblem &stages,
                              llvm::ArrayRef<double> whole) {
  constexpr int kCoarse = 6, kFine = 6, kMeasured = 4;
  constexpr double kNear = 0.05; // of the memory; more than that is hopeless
  double none = 0, least = 1, most = 1; // shares of the room
  auto splitAt = [&](double share) {
    for (auto [room, all] : llvm::zip(stages.budget, whole))
      room = share * all;
    return splitOf(problem, stages, nodes[part.index].tables);
  };
  auto excessAt = [&](double share, StageSplit &split) {
    split = splitAt(share);
    return split.fits() ? maxOf(excessOf(part, stages, split)) : HUGE_VAL;
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

/// What no split of a candidate plan can go below, as far as it matters;
/// `split` is the one that was found.
double Searcher::leastOf(const OpenPart &part, const StageProblem &stages,
                         bool byPrograms, const CandidateTimes &times,
                         const StageSplit &split) {
  double least = std::max(part.bound, split.boundObjective);
  if (stages.chunks == 1)
    return least;
  // Of chunks not all splits are tried, and memory is not in their bound yet.
  double known = std::min(best, times.stepSec(split.objective));
  const SearchNode &node = nodes[part.index];
  if (least < known && !byPrograms)
    least = std::max(least, nodeBounds.secondsOf(outerOf(part), node.tables,
                                                 node.layouts[part.layouts]));
  if (least < known)
    least = std::max(least, boundOfChunks(stages));
  return least;
}

/// Turns a candidate plan's problem from sums over layers into what programs
/// need, where that is known.
bool Searcher::toPrograms(const OpenPart &part, StageProblem &stages,
                          const SearchProblem::MeasureLayers &measure) {
  OuterChoice outer = outerOf(part);
  Pricing pricing(problem, outer, memo);
  std::optional<StageProblem> programs =
      programsOf(pricing, nodes[part.index].tables, stages, measure);
  if (programs)
    stages = std::move(*programs);
  return programs.has_value();
}

/// Whether a candidate plan is of no use by what lasts in its programs alone:
/// most that do not fit need not be simulated.
bool Searcher::isHopeless(const OpenPart &part, StageProblem stages) {
  const Pins &pins = problem.pins;
  bool isPinned = !pins.stageLayers.empty() || !pins.chunkLayers.empty();
  if (isPinned || !toPrograms(part, stages, problem.measureLasting))
    return false;
  double least = stages.chunks > 1 ? boundOfChunks(stages)
                                   : splitStages(stages).boundObjective;
  return least >= stages.worth;
}

void Searcher::solvePart(const OpenPart &part) {
  CandidateTimes times;
  StageProblem stages = problemOf(part, times);
  stages.worth = best * (1 + kPlayedSlack);
  // Solved for its bound alone: that of others is no higher.
  if (!problem.prove && later.byBound && part.guess >= best)
    stages.worth = std::min(stages.worth, looseBound);
  if (listedSec > 0)
    stages.worth = listedSec;
  if (isHopeless(part, stages)) {
    ++certificate.evaluated;
    return;
  }
  bool byPrograms = toPrograms(part, stages, problem.measureLayers);
  // Chunks of unlike layers take long.
  if (stages.chunks > 1 && stages.layers.size() > 1) {
    const SearchNode &node = nodes[part.index];
    double least = byPrograms
                       ? boundOfChunks(stages)
                       : nodeBounds.secondsOf(outerOf(part), node.tables,
                                              node.layouts[part.layouts]);
    if (least >= stages.worth)
      return;
  }
  StageSplit split = splitOf(problem, stages, nodes[part.index].tables);
  ++certificate.evaluated;
  // Also of a candidate plan of which no split, or no programs, that fit were
  // found.
  double least = leastOf(part, stages, byPrograms, times, split);
  if (least < best) {
    openCandidates.push_back({least, part});
    if (!hasFewSplits(outerOf(part)))
      looseBound = std::min(looseBound, least);
  }
  if (split.fits())
    keepCandidate(part, stages, times, std::move(split), least);
}

/// Whether a split needs no more memory than there is.
bool Searcher::fitsMemory(const OpenPart &part, const StageProblem &stages,
                          const StageSplit &split) {
  if (problem.measure)
    return maxOf(excessOf(part, stages, split)) == 0;
  PlanPoint plan =
      evaluatePlan(problem, outerOf(part),
                   placedOf(stages, split, nodes[part.index].tables));
  return fits(problem, plan);
}

/// True where embedding and head have a table that both read sharded along
/// other dimensions, so that it is moved in each step.
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
StageSplit Searcher::withBestOnce(const OpenPart &part,
                                  const StageProblem &stages, StageSplit split,
                                  double &sec) {
  constexpr double kSlack = 0.1; // of the best; what is slower stays slower
  constexpr int64_t kFewMicroBatches = 16;
  OuterChoice outer = outerOf(part);
  const TableList &tables = nodes[part.index].tables;
  if (!split.fits() || sec > std::max(best, listedSec) * (1 + kSlack) ||
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
      if (own < sec * (1 - 1e-9) && fitsMemory(part, stages, other)) {
        split = std::move(other);
        sec = own;
      }
    }
  }
  return split;
}

/// Takes a split that fits, if it is the best.
void Searcher::takeSplit(const OpenPart &part, const StageProblem &stages,
                         const StageSplit &split) {
  PlanPoint plan =
      evaluatePlan(problem, outerOf(part),
                   placedOf(stages, split, nodes[part.index].tables));
  LDBG() << report::seconds(plan.stepSec) << " for " << plan.outer.print();
  if (!winner || better(plan, *winner)) {
    winner = std::move(plan);
    won = part;
  }
  best = std::min(best, winner->stepSec);
}

/// Takes note of a candidate plan that fits by sums, if its programs do.
void Searcher::keepCandidate(const OpenPart &part, StageProblem &stages,
                             const CandidateTimes &times, StageSplit split,
                             double least) {
  double value = times.stepSec(split.objective);
  double sec = simulateCandidate(part, stages, split, value, least);
  split = withBestOnce(part, stages, std::move(split), sec);
  OuterChoice outer = outerOf(part);
  // Less room makes no candidate plan faster: others need not be made to fit.
  if (problem.measure &&
      (mayWin(sec) || alternatives.improves(outer, {sec, value}))) {
    bool isNew = false;
    split = fitted(part, stages, std::move(split), isNew);
    if (!split.fits())
      return;
    if (isNew) {
      value = times.stepSec(split.objective);
      sec = simulateCandidate(part, stages, split, value, least);
      split = withBestOnce(part, stages, std::move(split), sec);
    }
  }
  if (mayWin(sec))
    takeSplit(part, stages, split);
  // What is clearly slower and was not simulated comes after all that was.
  evaluated.push_back({part, std::move(split)});
  alternatives.noteCandidate(outer, {sec, value}, evaluated.size() - 1);
}
