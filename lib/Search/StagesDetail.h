//===- StagesDetail.h - shared by the kinds of stage splits ---------------===//

#ifndef KERF_LIB_SEARCH_STAGESDETAIL_H
#define KERF_LIB_SEARCH_STAGESDETAIL_H

#include "kerf/Search/Stages.h"

#include "llvm/ADT/SmallVector.h"

#include <limits>

namespace kerf::stages_detail {

/// The time of what is not possible.
constexpr double kNever = std::numeric_limits<double>::infinity();

using Items = llvm::SmallVector<StageItem, 4>;

inline int64_t layersOf(const StageProblem &problem) {
  int64_t layers = 0;
  for (const StageItem &run : problem.layers)
    layers += run.count;
  return layers;
}

/// Layers [begin, end) of the sequence by run, with the first (last) kind.
Items itemsOf(const StageProblem &problem, int64_t begin, int64_t end,
              bool first, bool last);

/// The kinds of layers [begin, end) and their numbers: k, n, l, m, ...
std::vector<int64_t> signatureOf(const StageProblem &problem, int64_t begin,
                                 int64_t end);

/// Sets for how many micro-batches a stage holds what items save. With chunks:
/// the most over the schedule's states, layers dealt evenly.
void setFlight(const StageProblem &problem, int64_t stage, Items &items);

/// Layers of chunk `chunk` when `count` are dealt evenly: later chunks, which
/// are held for a shorter time, take the remainder.
inline int64_t dealt(int64_t count, int64_t chunks, int64_t chunk) {
  return count / chunks + (chunks - chunk <= count % chunks ? 1 : 0);
}

/// Whether all layers are of one kind.
bool isUniform(const StageProblem &problem);

/// Least time of a layer of a kind.
double fastestSec(const StageKind &kind);

/// slowestWeight x slowest + sumWeight x sum.
inline double objectiveOf(const StageProblem &problem, double slowest,
                          double sum) {
  return problem.slowestWeight * slowest + problem.sumWeight * sum;
}

/// `StageProblem::least`.
inline double leastOf(const StageProblem &problem, double slowest, double sum,
                      bool orSlower) {
  return problem.least ? problem.least(slowest, sum, orSlower)
                       : objectiveOf(problem, slowest, sum);
}

/// The layers that each stage gets when none has more than `limitSec` at the
/// fastest points, surplus taken off the first stages; empty when the layers do
/// not fit. Only for layers of one kind.
std::vector<int64_t> spreadLayers(const StageProblem &problem, double limitSec);

/// The least bottleneck of any distribution at the fastest points, contiguous
/// or not (a lower bound when there are several kinds of layers).
double leastBottleneck(const StageProblem &problem);

/// The points of given chunks: `chunks[stage][c]` has begin and end.
StageSplit fillChunks(const StageProblem &problem,
                      std::vector<std::vector<SplitChunk>> chunks);

/// What the points of a stage with `items`, layers of one kind in several
/// chunks, cannot go below, however they lie in these but for one in each of
/// `filled`: only its `boundSec` and whether it fits count.
Filled relaxChunks(const StageProblem &problem, int64_t stage,
                   const Items &items, llvm::ArrayRef<int64_t> filled);

/// Turns a split by numbers of layers (one chunk per stage) into one by chunks;
/// the objective may be a little worse, or none, where unequal chunks do not
/// fit.
StageSplit dealChunks(const StageProblem &problem, const StageSplit &byCount);

/// Stages of several chunks each: local search.
StageSplit splitChunks(const StageProblem &problem);

} // namespace kerf::stages_detail

#endif // KERF_LIB_SEARCH_STAGESDETAIL_H
