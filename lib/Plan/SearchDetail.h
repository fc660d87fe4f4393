//===- SearchDetail.h - shared by the parts of the outer search -----------===//

#ifndef KERF_LIB_PLAN_SEARCHDETAIL_H
#define KERF_LIB_PLAN_SEARCHDETAIL_H

#include "kerf/Cost/Collectives.h"
#include "kerf/Cost/PipelineBound.h"
#include "kerf/Plan/Search.h"
#include "kerf/Plan/Stages.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <map>
#include <memory>

namespace kerf::search_detail {

using Groups = llvm::SmallVector<Group, 2>;

//===----------------------------------------------------------------------===//
// Groups and traffic (Traffic.cpp)
//===----------------------------------------------------------------------===//

/// Micro-batches that an interleaved stage holds of each chunk, as vectors that
/// no other covers.
using HeldChunks = std::vector<std::vector<double>>;
HeldChunks heldChunks(int64_t stages, int64_t stage, int64_t microBatches,
                      int64_t chunks);

/// What is asked for again and again: costs of collectives by group and size of
/// message, and what interleaved stages hold.
class GroupMemo {
public:
  GroupMemo(const Machine &machine, const Profile &profile)
      : machine(machine), profile(profile) {}
  const GroupCosts &of(Group group, double bytes);
  /// Which algorithm is best changes with the size of the message: four
  /// classes, each priced at its lower end.
  static constexpr double kClasses[] = {64e3, 1e6, 16e6, 256e6};
  /// `heldChunks` of all stages of a pipeline.
  const std::vector<HeldChunks> &heldBy(int64_t stages, int64_t microBatches,
                                        int64_t chunks);

private:
  const Machine &machine;
  const Profile &profile;
  llvm::DenseMap<uint64_t, GroupCosts> known;
  std::map<std::array<int64_t, 3>, std::vector<HeldChunks>> held;
};

/// Ranks that hold the same parameters, innermost first: over `shard` the state
/// is cut, over `rest` the shards are copied.
struct Replicas {
  Groups shard, rest;
};

/// Replicas of dense parameters (data x context), or of expert ones (of these,
/// the expert ranks left out). With ZeRO-0 all are `rest`.
/// `overContext` false: without context ranks, of what each of them has whole.
Replicas replicasOf(const OuterChoice &outer, bool expert,
                    bool overContext = true);

/// Data ranks that are no inner axis; none: no group.
Groups outerDataGroups(const OuterChoice &outer);

int64_t ranksOf(const Groups &groups);

/// Whether state can be cut over so many of the innermost data ranks.
bool canShard(const OuterChoice &outer, int64_t shardGroup);

/// Members of the data ranks inside one unit of `tier`: hybrid sharding.
int64_t dataRanksWithin(const Machine &machine, const OuterChoice &outer,
                        size_t tier);

/// Seconds of `calls` collectives that move `bytes` together, over groups
/// inside each other: reduce-scatters go outwards on ever smaller parts,
/// all-gathers come back, and an all-reduce is both.
double scatterSec(GroupMemo &memo, const Groups &groups, double bytes,
                  double calls);
double gatherSec(GroupMemo &memo, const Groups &groups, double bytes,
                 double calls);
double reduceSec(GroupMemo &memo, const Groups &groups, double bytes,
                 double calls);

/// Seconds of so many maxima, one by one: programs wait for each of them.
double maximaSec(GroupMemo &memo, const Groups &groups, int count);

/// When data ranks exchange gradients, weights and maxima: for every layer and
/// micro-batch, or once per step.
enum class DataTime {
  Gradient,
  ForwardGather,
  BackwardGather,
  ForwardMaxima,
  BackwardMaxima,
  Sync,
  Update
};

/// Collectives of data ranks over groups inside each other, of so many bytes
/// together: one for each group, or, of an all-reduce, also back.
struct DataExchange {
  DataTime time = DataTime::Sync;
  CollectiveKind kind = CollectiveKind::AllReduce;
  const Groups *groups = nullptr;
  double bytes = 0, calls = 1;
  double sec(GroupMemo &memo) const;
};
using VisitExchange = llvm::function_ref<void(const DataExchange &)>;

//===----------------------------------------------------------------------===//
// Layers and stages (Price.cpp)
//===----------------------------------------------------------------------===//

/// What a choice makes of parameters and their traffic; for one outer choice.
struct Pricing {
  const SearchProblem &problem;
  const OuterChoice &outer;
  GroupMemo &memo;
  /// Of dense parameters, of experts, and of experts whose gradients context
  /// ranks make whole (`LayerPoint::expertsWhole`).
  Replicas dense, expert, whole;
  /// Data ranks, without those of the inner axes; for maxima.
  Groups data;
  double bytesPerSec = 0; ///< of streaming kernels
  double share = 1;       ///< ranks that share a device's memory
  Pricing(const SearchProblem &problem, const OuterChoice &outer,
          GroupMemo &memo);
  /// Of experts, too, but where `point` has them whole.
  const Replicas &replicas(bool isExpert, const LayerPoint &point) const;
  int64_t shards(bool isExpert, const LayerPoint &point) const;
};

/// What data ranks exchange of one group of parameters; bytes.
struct ParamTraffic {
  double gradients = 0, weights = 0; ///< whole ones, of trained parameters
  double gathers = 0; ///< weights that ZeRO-3 gathers, frozen ones too
  /// Parameters, each of which has a collective of its own (`Profile::fused`).
  double tensors = 0, trained = 0;
  void add(const ParamTraffic &other, double count);
  void keepLeast(const ParamTraffic &other);
};

/// A layer at a point under an outer choice.
struct LayerPrice {
  ChunkWork work; ///< of one layer
  double weights = 0, masters = 0, gradients = 0, optimizer = 0; ///< bytes
  double bufferBytes = 0;            ///< communication
  double updateElements = 0;         ///< that the update touches
  ParamTraffic dense, expert, whole; ///< as `Pricing` has their ranks
  int gathers = 2;                   ///< for a micro-batch (`gathersOf`)
  double tensorSyncSec = 0;          ///< once per step
  int forwardMaxima = 0, backwardMaxima = 0; ///< as `LayerPoint` has them
  double stateBytes() const {
    return weights + masters + gradients + optimizer;
  }
  /// Of a micro-batch on the compute engine, waits for data traffic included as
  /// the timeline has them.
  double stageSec(const Profile &profile) const;
};
LayerPrice priceOf(const Pricing &pricing, int kind, const LayerPoint &point);
/// How often ZeRO-3 gathers the weights of a kind for a micro-batch: forward,
/// and backward but for tables, which no gradient reads, and for a head, whose
/// backward pass follows at once.
int gathersOf(const SearchProblem &problem, int kind);
/// What data ranks exchange for a priced layer of each micro-batch.
void visitLayerExchanges(const Pricing &pricing, const LayerPrice &price,
                         VisitExchange visit);
/// Collectives once per step for so many parameters that take `bytes`: one for
/// each in our programs, else buckets.
double callsOf(const Profile &profile, double tensors, double bytes);
/// And once per step, for the sum of a stage's layers.
void visitStepExchanges(const Pricing &pricing, const LayerPrice &sum,
                        VisitExchange visit);
/// Bytes that a stage hands to the next one; the longest message counts.
double messageBytes(const SearchProblem &problem, const PlanPoint &plan);
/// The groups of the first and the last stage.
Groups endsOf(const OuterChoice &outer);

/// Bytes that a micro-batch moves per trained element to add up its gradient.
/// Programs add in the product that makes it (`Profile::fused`), but for cut
/// ones (ZeRO 2 and 3) and tables of an embedding.
double accumulatedBytes(const Profile &profile, int64_t microBatches,
                        bool isCut, bool isEmbedding);

/// Mean over micro-batches of `LayerPoint::addingSec`.
double addingSec(const LayerPoint &point, int64_t microBatches);

/// Bytes of the accumulated gradient of a parameter that an earlier stage holds
/// too.
double tiedBytes(const Pricing &pricing, const LayerPoint &point);

/// What a stage does once per step.
struct StepPrice {
  double gradientSyncSec = 0, weightGatherSec = 0, updateSec = 0;
};
StepPrice stepPrice(const Pricing &pricing, const LayerPrice &sum);
/// Adds what of a layer counts once per step.
void addOnce(LayerPrice &sum, const LayerPrice &layer, double count);
/// Keeps the smaller of each of these.
void keepLeast(LayerPrice &least, const LayerPrice &price);

/// Bytes of a rank's memory that are reserved. Where layers are not known:
/// `exchangesRows` false, at least so many.
double reservedOf(const SearchProblem &problem, const OuterChoice &outer,
                  bool exchangesRows = false);
/// `SearchProblem::measure` of a plan whose layers are placed, with what is
/// reserved; empty where nothing is known.
std::vector<StageMemory> measuredOf(const SearchProblem &problem,
                                    const PlanPoint &plan);
/// Seconds of `evaluatePlan`, without memory.
double stepSecOf(const SearchProblem &problem, const OuterChoice &outer,
                 std::vector<PlacedStage> stages);
/// Extra bytes of logits on the last stage (`Profile::logitBytes`).
double logitBytesOf(const SearchProblem &problem, const OuterChoice &outer);
/// Whether a kind is a layer, not the embedding or the head.
bool isLayer(const SearchProblem &problem, int kind);
int64_t layersOf(const SearchProblem &problem);
int embeddingOf(const SearchProblem &problem); ///< kind, or -1
int headOf(const SearchProblem &problem);      ///< kind, or -1
/// Kinds in order of their first run.
llvm::SmallVector<int, 4> kindsOf(const SearchProblem &problem);

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
using StateCut = std::pair<int, int64_t>; ///< ZeRO level, shard group
std::vector<StateCut> stateCutsOf(const SearchProblem &problem,
                                  const OuterChoice &outer);

//===----------------------------------------------------------------------===//
// Leaves (Leaf.cpp)
//===----------------------------------------------------------------------===//

/// What no plan of a leaf can go below on the timeline, by what its slowest
/// stage and all stages take.
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
  double gradientOverlap = 0, weightOverlap = 0;
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
struct LeafTimes {
  double slowestWeight = 0, sumWeight = 0, onceSec = 0;
  double linkSec = 0; ///< what messages take at least, and what comes once
  std::shared_ptr<const StepBound> bound; ///< in `StageProblem::least`, too
  /// Of a split whose weighted stages take `objective`, or of a bound of it.
  double stepSec(double objective) const {
    return std::max(objective + onceSec, linkSec);
  }
};

/// Tables of one head: by kind (empty for kinds that do not occur).
using TableList = std::vector<const LayerTable *>;

/// Which layout each kind of layer has; -1: any (kinds that occur once).
using LayoutChoice = llvm::SmallVector<int, 4>;
std::vector<LayoutChoice> layoutsOf(const SearchProblem &problem,
                                    const TableList &tables, bool &all);

/// Prices of all points of all kinds under an outer choice.
using PriceList = std::vector<std::vector<LayerPrice>>;
PriceList pricesOf(const Pricing &pricing, const TableList &tables);

/// The bound of a leaf: the points that `stages` has.
StepBound stepBoundOf(const Pricing &pricing, const StageProblem &stages,
                      const TableList &tables, const PriceList &prices);

/// The stages' problem of a leaf (the choice that is priced, and layouts) and
/// what the closed form adds; `forBound` leaves memory out. `kinds` is empty
/// where no point is allowed.
StageProblem stageProblemOf(const Pricing &pricing, const LayoutChoice &layouts,
                            const TableList &tables, const PriceList &prices,
                            bool forBound, LeafTimes &times);

/// The same leaf by what its programs need at least
/// (`measure`, one of `SearchProblem`), in place of sums over layers: every
/// split whose programs fit, fits here too. Nothing where that is not known.
std::optional<StageProblem>
programsOf(const Pricing &pricing, const TableList &tables, StageProblem stages,
           const SearchProblem::MeasureLayers &measure);

/// Layers with their points, from a split.
std::vector<PlacedStage> placedOf(const StageProblem &stages,
                                  const StageSplit &split,
                                  const TableList &tables);

/// Whether a leaf's layers exchange rows of experts: all points of a kind do,
/// or none (`layoutsOf`).
bool exchangesRows(const StageProblem &stages, const TableList &tables);
/// Tables of all kinds under a choice; solves what is not known yet.
TableList tablesOf(const SearchProblem &problem, const OuterChoice &outer);

/// The split of a leaf: that of a given plan, that of `pins.stageLayers`, or
/// the best one.
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

std::string formatBytes(double bytes); ///< "91.2 GiB"

} // namespace kerf::search_detail

#endif // KERF_LIB_PLAN_SEARCHDETAIL_H
