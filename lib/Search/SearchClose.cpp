//===- SearchClose.cpp - all splits of the candidate plans that are left --===//
//
// Problem: what is proven ends at candidate plans whose bound is below the best
// plan, though none of their splits may be faster.
//
// Idea: where a candidate plan has few splits, each is simulated on the
// timeline. The points of a split are the fastest that fit by sums over layers;
// where their programs do not, the next ones are measured, until programs fit
// or are of no use.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"
#include "StagesDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::search_detail;

/// All splits of candidate plans are simulated until so many tasks were
/// simulated.
static constexpr double kMostClosed = 2e7;
/// Combinations of points that are tried for a proof.
static constexpr int64_t kProvenFills = 100'000;

namespace {
/// Goes through the borders of `count` chunks of `layers` layers.
struct Borders {
  int64_t count, layers;
  std::vector<int64_t> ends; ///< of each chunk
  Borders(int64_t count, int64_t layers) : count(count), layers(layers) {
    for (int64_t k = 1; k < count; ++k)
      ends.push_back(k);
    ends.push_back(layers);
  }
  bool next() {
    for (int64_t k = count - 2; k >= 0; --k) {
      if (ends[k] + 1 > layers - (count - 1 - k))
        continue;
      ++ends[k];
      for (int64_t later = k + 1; later + 1 < count; ++later)
        ends[later] = ends[later - 1] + 1;
      return true;
    }
    return false;
  }
};
} // namespace

/// Whether equal layers are dealt evenly to the chunks of each stage: then the
/// later chunks have one more.
static bool isDealt(llvm::ArrayRef<int64_t> ends, int64_t stages) {
  for (int64_t stage = 0; stage < stages; ++stage) {
    int64_t fewest = ends.back(), most = 0;
    for (size_t k = stage; k < ends.size(); k += stages) {
      int64_t own = ends[k] - (k ? ends[k - 1] : 0);
      if (own < most)
        return false;
      fewest = std::min(fewest, own);
      most = std::max(most, own);
    }
    if (most > fewest + 1)
      return false;
  }
  return true;
}

bool Searcher::hasFewSplits(const OuterChoice &outer) const {
  constexpr double kMostSplits = 3000;
  const Pins &pins = problem.pins;
  bool isPinned = !pins.stageLayers.empty() || !pins.chunkLayers.empty();
  return !isPinned &&
         bordersOf(outer.pp * outer.chunks, layersOf(problem)) <= kMostSplits;
}

/// The fastest points for borders whose programs fit, of all that stages may
/// have; with `split`'s they do not. Points that are of no use count as
/// fitting. False where there are too many to try.
bool Searcher::fillPrograms(const OpenPart &part, StageProblem stages,
                            llvm::ArrayRef<int64_t> ends, StageSplit &split) {
  constexpr int64_t kMeasured = 200, kMeasuredToProve = 20000;
  if (stages.chunks > 1)
    return false;
  int64_t left = problem.prove ? kMeasuredToProve : kMeasured;
  stages.accepts = [&](int64_t stage, const Filled &own) {
    StageSplit other = split;
    other.stages[stage][0].parts = own.parts;
    if (--left < 0 || excessOf(part, stages, other)[stage] == 0)
      return true;
    return !mayWin(
        stepSecOf(problem, outerOf(part),
                  placedOf(stages, other, nodes[part.index].tables)));
  };
  bool isExact = false;
  StageSplit filled = fillBorders(stages, ends, isExact);
  split = std::move(filled);
  return isExact && left >= 0;
}

/// Simulates all splits of a candidate plan, where these are few. Takes the
/// fastest that fits, and raises what none of them goes below. False where they
/// are too many.
bool Searcher::closeCandidate(OpenCandidate &candidate) {
  OuterChoice outer = outerOf(candidate.part);
  int64_t layers = layersOf(problem), count = outer.pp * outer.chunks;
  double simulated = bordersOf(count, layers) * 2.0 *
                     static_cast<double>(count * outer.microBatches);
  if (!hasFewSplits(outer) || closed + simulated > kMostClosed)
    return false;
  closed += simulated;
  CandidateTimes times;
  StageProblem stages = problemOf(candidate.part, times);
  toPrograms(candidate.part, stages, problem.measureLayers);
  if (problem.prove)
    stages.exactFills = kProvenFills;
  bool isUniform = stages_detail::isUniform(stages);
  double least = HUGE_VAL;
  Borders borders(count, layers);
  do {
    if (isUniform && stages.chunks > 1 && !isDealt(borders.ends, stages.stages))
      continue;
    bool isExact = false;
    StageSplit split = fillBorders(stages, borders.ends, isExact);
    if (!split.fits() && isExact)
      continue;
    if (!split.fits() || !isExact)
      return false;
    double sec =
        stepSecOf(problem, outer,
                  placedOf(stages, split, nodes[candidate.part.index].tables));
    split = withBestOnce(candidate.part, stages, std::move(split), sec);
    if (mayWin(sec) && problem.measure &&
        !fitsMemory(candidate.part, stages, split)) {
      if (!fillPrograms(candidate.part, stages, borders.ends, split)) {
        least = std::min(least, sec); // slower points may fit
        continue;
      }
      if (!split.fits())
        continue;
      sec = stepSecOf(
          problem, outer,
          placedOf(stages, split, nodes[candidate.part.index].tables));
      split = withBestOnce(candidate.part, stages, std::move(split), sec);
    }
    if (mayWin(sec))
      takeSplit(candidate.part, stages, split);
    else
      least = std::min(least, sec);
  } while (borders.next());
  candidate.least =
      std::max(candidate.least, winner ? std::min(least, best) : least);
  return true;
}

/// Closes what is left, the lowest first, until a candidate plan has too many
/// splits.
void Searcher::closeCandidates() {
  auto isLower = [](const OpenCandidate &a, const OpenCandidate &b) {
    return a.least < b.least;
  };
  llvm::sort(openCandidates, isLower);
  for (OpenCandidate &candidate : openCandidates)
    if (candidate.least >= best * (1 - 1e-9) || !closeCandidate(candidate))
      break;
}
