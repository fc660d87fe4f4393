//===- Pricing.h - costs of layers and stages under an outer choice -------===//

#ifndef KERF_SEARCH_PRICING_H
#define KERF_SEARCH_PRICING_H

#include "kerf/Cost/Collectives.h"
#include "kerf/Search/Search.h"

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
/// is sharded, over `rest` the shards are copied.
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

/// Whether state can be sharded over so many of the innermost data ranks.
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
  double updateSec = 0;              ///< matmuls of updates, once per step
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
/// Bytes of the longest message from a stage to the next one, and of the
/// longest to the one before.
struct MessageBytes {
  double forward = 0, backward = 0;
};
MessageBytes messageBytes(const SearchProblem &problem, const PlanPoint &plan);
/// Seconds of a message of `bytes` over each border between stages, as in
/// `StepWork`.
std::vector<double> sendSecs(const SearchProblem &problem,
                             const OuterChoice &outer, double bytes);
/// Seconds in which the first and the last stage send each other `bytes` of a
/// gradient that both have; 0 with one stage.
double tiedSec(const SearchProblem &problem, const OuterChoice &outer,
               double bytes);

/// Bytes that a micro-batch moves per trained element to add up its gradient.
/// Programs add in the matmul that makes it (`Profile::fused`), but for
/// sharded ones (ZeRO 2 and 3) and tables of an embedding.
double accumulatedBytes(const Profile &profile, int64_t microBatches,
                        bool isSharded, bool isEmbedding);

/// Mean over micro-batches of `LayerPoint::addingSec`.
double addingSec(const LayerPoint &point, int64_t microBatches);

/// Bytes of the accumulated gradient of a parameter that an earlier stage holds
/// too.
double tiedBytes(const Pricing &pricing, const LayerPoint &point);

/// A collective that moves a tied table between the ways in which embedding and
/// head have it, sharded along other dimensions. It is stored as the embedding
/// has it.
struct TiedMove {
  CollectiveKind kind = CollectiveKind::AllToAll;
  Group group;
  double bytes = 0, calls = 1;
  bool isGradient = false; ///< else the weight, which the head's stage moves
  double sec(GroupMemo &memo) const;
};
std::vector<TiedMove> tiedMoves(const Pricing &pricing, const PlanPoint &plan);

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

} // namespace kerf::search_detail

#endif // KERF_SEARCH_PRICING_H
