//===- Search.h - degrees, stages, schedule, state: the outer search ------===//
//
// Plain data in, plain data out; the layers are known only as tables. Best
// first branch and bound; the result is a certificate: how large the space was,
// what was pruned by memory and by bound, the best plan and the bound.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SEARCH_SEARCH_H
#define KERF_SEARCH_SEARCH_H

#include "kerf/Cost/Profile.h"
#include "kerf/Cost/Timeline.h"
#include "kerf/Layer/LayerTables.h"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kerf {

/// Axes of the mesh, in the order of `Layout::order` (innermost first).
enum class MeshAxis { Tensor, Context, Data, Pipeline };

/// Layers in a row of a plan that is given.
struct GivenLayers {
  int kind = 0;
  int64_t count = 0;
  int list = -1; ///< that their points have (`LayerPoint::list`); -1: any
};

/// What can be pinned, bounded or forbidden. Empty lists: anything.
struct Pins {
  std::vector<int64_t> tp, cp, ep, pp, dp, microBatch, microBatches, chunks,
      defer, zero, shardGroup, devices;
  std::vector<ScheduleKind> schedules;
  /// "none", "full", "selective" or empty (searched): of every layer.
  std::string recompute;
  /// How rows of experts whose number data decides reach them: "gather" (all
  /// ranks get all tokens), "all_to_all" (rows are exchanged) or empty.
  std::string moe;
  /// How ranks that share a sequence split it: "zigzag" (causal work is equal)
  /// or "plain"; empty: equal where it is possible.
  std::string cpOrder;
  /// Layers of each stage (embedding and head aside); empty: searched.
  std::vector<int64_t> stageLayers;
  /// The layers of a given plan: entry c * pp + s is chunk c of stage s. Empty:
  /// searched; so, too, where degrees are others.
  std::vector<std::vector<GivenLayers>> chunkLayers;
  /// Innermost first, as "tp,cp,dp,pp"; empty: searched.
  std::vector<MeshAxis> order;
  /// Values that are forbidden: {"tp", 4}; names as in `parsePins`.
  std::vector<std::pair<std::string, int64_t>> forbidden;
  /// Features that a target cannot execute, with the reason; for `--explain`.
  std::vector<std::pair<std::string, std::string>> excluded;
  /// Keys ("pp") that are fixed by the target, not by a person: no relief
  /// proposes to give them up.
  std::vector<std::string> targetKeys;
};

/// Everything that is decided outside layers.
struct OuterChoice {
  int64_t tp = 1, cp = 1, ep = 1, dp = 1, pp = 1; ///< ep divides dp
  std::vector<MeshAxis> order;                    ///< innermost first
  int64_t microBatch = 1, microBatches = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int64_t chunks = 1;
  int64_t defer = kDeferAll; ///< of ZB-H1, less than pp - 1
  int zero = 0; ///< shards 0 nothing, 1 optimizer, 2 + gradients, 3 + weights
  int64_t shardGroup = 1; ///< ranks (of dp x cp) over which state is sharded
  int64_t ranks() const { return tp * cp * dp * pp; }
  /// Micro-batches that the last stage is late with weight gradients.
  int64_t mostDeferred() const { return pipelining().lateBy(pp - 1); }
  Pipelining pipelining() const {
    return {schedule, pp, microBatches, chunks, defer};
  }
  /// True where all backward passes of a stage's chunk are over before those of
  /// the chunk before it begin.
  bool endsByChunk() const { return chunks > 1 && microBatches <= pp; }
  /// Whether sums of gradients over data ranks, made once per step, may run
  /// beside the last backward pass. In a pipeline the stages before wait for
  /// that pass, one after the other, for all of their sums; behind it these are
  /// made while a stage would be idle. Weight gradients that are deferred hold
  /// up nobody.
  bool sumsBesideBackward() const {
    return pp == 1 || splitsWeightGradient(schedule);
  }
  /// Ranks of an axis, and the distance of its neighbours in rank numbers.
  int64_t sizeOf(MeshAxis axis) const;
  int64_t strideOf(MeshAxis axis) const;
  std::string print() const; ///< "tp 8 cp 1 ep 1 pp 16 dp 8 | 32 x 1 | ..."
};

/// The table that layers of `kind` need under a choice. Expert ranks are the
/// innermost `ep` of the data axis.
TableKey keyOf(const OuterChoice &outer, int kind);

/// A run of equal layers on one chunk: `count` layers of `kind` with `point`.
struct PlacedLayers {
  int kind = 0;
  int64_t count = 0;
  LayerPoint point;
};
struct PlacedChunk {
  std::vector<PlacedLayers> layers;
};

/// Bytes of a stage's most loaded rank by class.
struct StageMemory {
  double weights = 0, masters = 0, gradients = 0, optimizer = 0,
         activations = 0, temporaries = 0, communication = 0, reserved = 0;
  /// Part of `temporaries`: gradients beyond sums that are stored as their
  /// weights are (ZeRO 2 and 3: sharded). They are on their way between ranks,
  /// or stored as ops make them.
  double transit = 0;
  double total() const {
    return weights + masters + gradients + optimizer + activations +
           temporaries + communication + reserved;
  }
};

/// What of a rank's memory is never its arena's. Bytes.
struct Reserve {
  double fixed = 0;                  ///< whatever the plan is
  double context = 0, libraries = 0; ///< parts of it; 0: not stated apart
  int64_t connections = 0;           ///< to neighbours in communicators
  double connection = 0;             ///< for each
  double total() const { return fixed + double(connections) * connection; }
};
/// That of a plan. A rank has a neighbour among all ranks and on each axis, two
/// in a pipeline, and all others of its group where experts exchange rows.
Reserve reserveOf(const Machine &machine, const Profile &profile,
                  const OuterChoice &outer, bool exchangesRows);

struct PlacedStage {
  std::vector<PlacedChunk> chunks;
  StageMemory memory;
};

/// What the programs of a stage need at least for one of its layers, whatever
/// else lies there. With n micro-batches held of a chunk, an arena has at least
/// the sum of all `rest` and n x `kept`, n x the least `once` for each chunk,
/// and `work` of one layer (or of embedding or head): of each, and so of the
/// largest, but of an unknown layer where the schedule defers weight
/// gradients, ends by chunk (`OuterChoice`) or a stage has one micro-batch at a
/// time, for then what was kept goes as the backward pass proceeds. Bytes.
struct LayerBytes {
  double rest = 0; ///< weights, sums of gradients, state
  double kept = 0; ///< of a micro-batch, from forward to backward
  /// Of a schedule that defers weight gradients: from forward to these, and
  /// from backward to these. `HeldParts` has the micro-batches of each.
  double late = 0, handed = 0;
  double once = 0; ///< as `kept`, but once for all layers of a chunk
  double work = 0; ///< while the layer runs
};

/// A whole plan, evaluated.
struct PlanPoint {
  OuterChoice outer;
  std::vector<PlacedStage> stages;
  StepWork work;
  double stepSec = 0;
  /// Whether some layer exchanges rows between ranks of experts.
  bool exchangesRows() const;
};

/// One alternative that lost, for the explanation.
/// Seconds that a step takes at least, and what they are: layers at their
/// fastest, gradients of data ranks; the rest is filling the pipeline and, of
/// some runtimes, a fixed time.
struct LowerBound {
  double sec = HUGE_VAL;
  double layerSec = 0;  ///< computing, and traffic inside layers
  double dataSec = 0;   ///< traffic of gradients
  bool traffic = false; ///< ranks share layers: `layerSec` has traffic, too
};

struct Alternative {
  std::string what; ///< "tp=4"
  std::string why;  ///< "slower", "needs 91.2 GiB on stage 0", "not legal: ..."
  std::optional<PlanPoint> plan; ///< the fastest with that property, if it fits
  /// What no plan with that property goes below, where none was evaluated; 0:
  /// not known, or it does not fit.
  double boundSec = 0;
};

/// What the search can say about its result.
///
/// `bestSec` is `PlanPoint::stepSec` of the best plan; no plan of the space
/// that `model` names takes less than `boundSec` on the timeline.
struct Certificate {
  double space = 0; ///< outer choices; stages and points of layers aside
  /// Ways in which an outer choice splits equal layers into chunks, at most.
  double splits = 1;
  int64_t nodes = 0; ///< combinations of degrees, micro-batch, order
  int64_t prunedByMemory = 0, prunedByBound = 0, illegal = 0; ///< of the nodes
  int64_t leftOut = 0;   ///< nodes whose tables the budget did not allow
  int64_t evaluated = 0; ///< candidate plans
  int64_t tablesSolved = 0, tablesBounded = 0;
  double bestSec = 0, boundSec = 0; ///< boundSec <= bestSec
  bool complete = false;  ///< nothing is left whose bound is below the best
  bool isMixed = false;   ///< bounds are by mean bytes (`KindSize::isMixed`)
  bool allLayouts = true; ///< of tables were looked at where they are many
  double gap() const { return boundSec > 0 ? bestSec / boundSec - 1 : 0; }
  std::string model; ///< what it holds for, in words
};

/// Why nothing fits: the smallest clash and the cheapest relief.
struct Infeasible {
  std::vector<std::string> reasons;
  std::optional<PlanPoint> least; ///< the plan that needs the least memory
  std::vector<std::string> reliefs;
};

/// Elements of a kind's parameters, unsharded, and bytes per element, the mean
/// where parameters differ: what bounds know of a layer before its table is
/// solved. Zero is always legal, but weak.
struct KindSize {
  double denseElements = 0, expertElements = 0;
  double weightBytes = 0, masterBytes = 0, gradientBytes = 0, stateBytes = 0;
  double trainedShare = 1;       ///< of the elements: others are frozen
  double trainedWeightBytes = 2; ///< as `weightBytes`, of the trained alone
  double denseTrained = 0, expertTrained = 0; ///< parameters
  /// Parameters take so unlike bytes (adapters and a frozen base) that bounds
  /// by the mean may be above the truth.
  bool isMixed = false;
  /// What solving a table of the kind takes, in tables of a kind of 100 ops.
  double tableCost = 1;
};

struct SearchProblem {
  const Machine *machine = nullptr; ///< with its number of devices
  Profile profile;
  LayerTables *tables = nullptr;
  /// Layers in order: kind, count. The first is an embedding, the last a head,
  /// unless said otherwise; they are no layers: they stay on the first and the
  /// last stage.
  std::vector<std::pair<int, int64_t>> runs;
  bool hasEmbedding = true, hasHead = true;
  /// Layers may exchange rows between ranks of experts (`moeBuffer`).
  bool exchangesRows = false;
  std::vector<KindSize> sizes; ///< by kind; empty: unknown
  int64_t vocabulary = 0;      ///< for `Profile::logitBytes`
  int64_t batch = 1;           ///< sequences of a step
  int64_t sequence = 1;        ///< tokens of one
  double flopsPerStep = 0;     ///< matmuls and attention, nothing recomputed
  std::string type;            ///< "bf16": which peak counts
  int64_t maxTensor = 1, maxContext = 1, maxExpert = 1; ///< useful sizes
  Pins pins;
  /// What tables that are solved may cost (`tableCost`); alternatives may have
  /// a tenth more.
  double budget = 600;
  /// Nodes whose memory is bounded before a search that found no plan that fits
  /// gives up.
  int64_t hopeless = std::numeric_limits<int64_t>::max();
  bool prove = false; ///< spend whatever is needed
  /// A plan that fits is wanted, not the best: soon after one is found the
  /// search ends.
  bool isQuick = false;
  /// A plan on another number of devices of the cluster, if one is soon found;
  /// empty: `machine` is taken with more devices.
  std::function<std::optional<PlanPoint>(int64_t devices)> tryDevices;
  /// Also a plan that leaves this part of the memory free; 0: none is wanted.
  double roomyHeadroom = 0;
  /// Steps that take as long are of no interest: there is one.
  double enoughSec = HUGE_VAL;
  /// Bytes of the programs of a plan by stage, where they are known better than
  /// as sums over layers (`ProgramMemory`); may give nothing. What is
  /// reserved is not in it. A plan fits when these do.
  std::function<std::vector<StageMemory>(const PlanPoint &)> measure;
  /// With `measure`: bytes that no program with a layer of a key can go below,
  /// reserved ones aside; strides of its groups do not matter.
  std::function<double(const TableKey &)> measureLeast;
  /// With `measure`: what programs need for the layers of a plan, by kind
  /// (empty for those that are not asked for) and point, given all points that
  /// its layers may take. `measure` of such a plan is never below
  /// (`ProgramBounds`).
  using MeasureLayers = std::function<std::vector<std::vector<LayerBytes>>(
      const OuterChoice &,
      const std::vector<std::vector<const LayerPoint *>> &)>;
  MeasureLayers measureLayers;
  /// The same with `work` left out (0), which takes far less time.
  MeasureLayers measureLasting;
  /// How embedding and head, at points of a plan, have the table that both
  /// read; empty where layouts are not known.
  std::function<TiedShards(const OuterChoice &, const LayerPoint &embedding,
                           const LayerPoint &head)>
      tiedShards;
  /// What is wrong: every violation, with legal values and the nearest fix.
  std::vector<std::string> check() const;
};

struct SearchResult {
  std::optional<PlanPoint> best;
  Certificate certificate;
  std::vector<Alternative> alternatives;
  /// The fastest plan found with `SearchProblem::roomyHeadroom`, which may be
  /// the best one; none where it was not wanted or not found.
  std::optional<PlanPoint> roomy;
  Infeasible infeasible; ///< when there is no best
};

/// The best plan; deterministic. `problem.check()` must be empty.
SearchResult search(const SearchProblem &problem);

/// What the search knows of a node (degrees, micro-batches and order of axes of
/// `node`) before its tables are solved: seconds that no plan of it can go
/// below; infinite when none fits.
double nodeBoundSec(const SearchProblem &problem, const OuterChoice &node);

/// Everything tried, for small problems; judges `search`.
SearchResult searchExhaustively(const SearchProblem &problem);

/// A plan whose layers, points and stages are given: `stages[i].chunks` are
/// read, all else of the result is worked out. Needs no tables.
PlanPoint evaluatePlan(const SearchProblem &problem, const OuterChoice &outer,
                       std::vector<PlacedStage> stages);

/// Bytes of a rank's memory that a plan may take, reserved ones included (of a
/// shared device: the rank's part): all but the headroom. A plan fits when no
/// stage's `StageMemory::total` is larger.
double capacityBytes(const SearchProblem &problem);
bool fits(const SearchProblem &problem, const PlanPoint &plan);

/// One fully pinned plan: stages split as `pins.stageLayers` or evenly,
/// recompute as pinned; evaluated even if it does not fit (`memory` says so).
/// What is not pinned: tp, cp, ep, pp, mb 1; dp from m, or all devices; 1f1b;
/// ZeRO 0, else sharded over all data ranks; order tp, cp, dp, pp; recompute:
/// what each stage needs.
std::optional<PlanPoint> evaluatePinned(const SearchProblem &problem,
                                        std::vector<std::string> &errors);

} // namespace kerf

#endif // KERF_SEARCH_SEARCH_H
