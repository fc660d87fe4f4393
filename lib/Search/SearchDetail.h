//===- SearchDetail.h - shared by the parts of the outer search -----------===//

#ifndef KERF_LIB_SEARCH_SEARCHDETAIL_H
#define KERF_LIB_SEARCH_SEARCHDETAIL_H

#include "kerf/Cost/PipelineBound.h"
#include "kerf/Search/Pricing.h"
#include "kerf/Search/Stages.h"

namespace kerf::search_detail {

//===----------------------------------------------------------------------===//
// The space (Space.cpp)
//===----------------------------------------------------------------------===//

/// Degrees and micro-batches; order, schedule and state are open.
struct Shape {
  int64_t tp = 1, cp = 1, ep = 1, pp = 1, dp = 1, microBatch = 1,
          microBatches = 1;
  OuterChoice outer() const;
};

/// Degrees that make sense, ascending: what divides the useful size, powers of
/// two, and what fills the innermost tiers.
std::vector<int64_t> tensorDegrees(const SearchProblem &problem);
std::vector<int64_t> contextDegrees(const SearchProblem &problem);
std::vector<int64_t> expertDegrees(const SearchProblem &problem);

/// All shapes that the pins allow, in a fixed order.
std::vector<Shape> shapesOf(const SearchProblem &problem);
/// Orders of the axes that give different groups.
std::vector<std::vector<MeshAxis>> ordersOf(const SearchProblem &problem,
                                            const Shape &shape);
/// A schedule with its chunks and what it defers.
using Schedule = std::tuple<ScheduleKind, int64_t, int64_t>;
/// `OuterChoice::defer` of a pin.
inline int64_t deferOf(int64_t pinned, int64_t stages) {
  return pinned < stages - 1 ? pinned : kDeferAll;
}
std::vector<Schedule> schedulesOf(const SearchProblem &problem,
                                  const Shape &shape);
using StateSharding = std::pair<int, int64_t>; ///< ZeRO level, shard group
std::vector<StateSharding> stateShardingsOf(const SearchProblem &problem,
                                            const OuterChoice &outer);

//===----------------------------------------------------------------------===//
// Candidate plans (SearchCandidate.cpp)
//===----------------------------------------------------------------------===//

/// What no split of a candidate plan can go below on the timeline, by what its
/// slowest stage and all stages take.
struct StepBound {
  PipelineFacts facts; ///< but for `firstChunkSec`
  double constantSec = 0;
  int64_t layers = 0;
  bool isUniform = false; ///< layers of one kind
  /// Of a layer at its slowest point, at its fastest; of the embedding at its
  /// slowest. `workSec`: without waits for data traffic, at least.
  double slowLayerSec = 0, fastLayerSec = 0, slowFirstSec = 0;
  double workSec = 0;
  /// Backward (ZB-H1: weight gradient) and forward of a layer and of the
  /// embedding at most: what traffic at the end may hide beside.
  double lastLayerSec = 0, lastFirstSec = 0;
  double firstLayerSec = 0, firstFirstSec = 0;
  double gradientOverlap = 0, weightOverlap = 0, updatedOverlap = 0;
  /// After the last backward, with n layers beside the embedding on the first
  /// stage: entry n.
  std::vector<StepPrice> tails;
  double at(double slowestSec, double sumSec, bool orSlower) const;
  /// `StageProblem::most`.
  void most(double stepSec, double sumSec,
            llvm::MutableArrayRef<double> most) const;

private:
  int64_t fewestLayers(double slowestSec, double sumSec) const;
  bool setFirstChunk(PipelineFacts &known, int64_t fewest,
                     double slowestSec) const;
  double tailSec(int64_t fewest, double slowestSec, bool orSlower) const;
};

/// How time depends on the stages in the closed form:
///   slowestWeight x slowest stage + sumWeight x all stages + onceSec.
/// It is an estimate: what is likely to be fast is looked at first.
struct CandidateTimes {
  double slowestWeight = 0, sumWeight = 0, onceSec = 0;
  double linkSec = 0; ///< what messages take at least, and what comes once
  std::shared_ptr<const StepBound> bound; ///< in `StageProblem::least`, too
  /// Of a split whose weighted stages take `objective`, or of a bound of it.
  double stepSec(double objective) const {
    return std::max(objective + onceSec, linkSec);
  }
};

/// Tables of one node: by kind (empty for kinds that do not occur).
using TableList = std::vector<const LayerTable *>;

/// Which layout each kind of layer has; -1: any (kinds that occur once).
using LayoutChoice = llvm::SmallVector<int, 4>;
std::vector<LayoutChoice> layoutsOf(const SearchProblem &problem,
                                    const TableList &tables, bool &all);

/// Prices of all points of all kinds under an outer choice.
using PriceList = std::vector<std::vector<LayerPrice>>;
PriceList pricesOf(const Pricing &pricing, const TableList &tables);

/// The bound of a candidate plan: the points that `stages` has.
StepBound stepBoundOf(const Pricing &pricing, const StageProblem &stages,
                      const TableList &tables, const PriceList &prices);

/// The stages' problem of a candidate plan (the choice that is priced, and
/// layouts) and what the closed form adds; `forBound` leaves memory out.
/// `kinds` is empty where no point is allowed.
StageProblem stageProblemOf(const Pricing &pricing, const LayoutChoice &layouts,
                            const TableList &tables, const PriceList &prices,
                            bool forBound, CandidateTimes &times);

/// The same candidate plan by what its programs need at least
/// (`measure`, one of `SearchProblem`), in place of sums over layers: every
/// split whose programs fit, fits here too. Nothing where that is not known.
std::optional<StageProblem>
programsOf(const Pricing &pricing, const TableList &tables, StageProblem stages,
           const SearchProblem::MeasureLayers &measure);

/// Layers with their points, from a split.
std::vector<PlacedStage> placedOf(const StageProblem &stages,
                                  const StageSplit &split,
                                  const TableList &tables);

/// Whether a candidate plan's layers exchange rows of experts: all points of a
/// kind do, or none (`layoutsOf`).
bool exchangesRows(const StageProblem &stages, const TableList &tables);
/// Tables of all kinds under a choice; solves what is not known yet.
TableList tablesOf(const SearchProblem &problem, const OuterChoice &outer);

/// The split of a candidate plan: that of a given plan, that of
/// `pins.stageLayers`, or the best one.
StageSplit splitOf(const SearchProblem &problem, const StageProblem &stages,
                   const TableList &tables);

/// Layers of each stage: as pinned, or even, the first stages one more.
std::vector<int64_t> evenLayers(const SearchProblem &problem,
                                const OuterChoice &outer);

/// The fastest plan of one outer choice and split: layouts and points are
/// tried. Without `mustFit` all layers keep the least they can, memory has no
/// limit, and what needs least of it is taken.
std::optional<PlanPoint> placeBest(const SearchProblem &problem,
                                   const OuterChoice &outer,
                                   const TableList &tables,
                                   llvm::ArrayRef<int64_t> counts,
                                   bool mustFit);

/// Whether a pin on recomputation allows a point.
bool allowsPoint(const Pins &pins, const LayerTable &table,
                 const LayerPoint &point);

//===----------------------------------------------------------------------===//
// Feasibility (Feasibility.cpp)
//===----------------------------------------------------------------------===//

/// The problem with the sizes of its kinds: where they are not stated, from the
/// tables of one rank.
SearchProblem withSizes(const SearchProblem &problem);

/// The best plan without alternatives and explanations.
std::optional<PlanPoint> searchQuietly(const SearchProblem &problem);

/// The fastest plan found that leaves `headroom` of the memory free, among the
/// choices of `result`, which has a best plan.
std::optional<PlanPoint> withHeadroom(const SearchProblem &problem,
                                      const SearchResult &result,
                                      double headroom);

/// Why no plan fits, and what would help.
Infeasible explainMisfit(const SearchProblem &problem);

/// `Profile::gradientOverlap`, as far as programs of a plan hide sums of
/// gradients (`OuterChoice::sumsBesideBackward`).
double gradientOverlapOf(const Profile &profile, const OuterChoice &outer);

std::string formatBytes(double bytes); ///< "91.2 GiB"

} // namespace kerf::search_detail

#endif // KERF_LIB_SEARCH_SEARCHDETAIL_H
