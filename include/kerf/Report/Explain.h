//===- Explain.h - what a plan means, in numbers and words ----------------===//
//
// Everything that `--explain` and `--html` show is data first (`Explanation`),
// computed once; text, JSON and the difference of two plans are views of it.
// Seconds, bytes and flops without prefixes; shares are parts of 1.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_REPORT_EXPLAIN_H
#define KERF_REPORT_EXPLAIN_H

#include "kerf/Layer/LayerProblem.h"
#include "kerf/Search/Search.h"
#include "kerf/Step/LayerModel.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// Figures of the cluster's description that no datasheet has.
enum class Assumed {
  Matmul,
  Grouped,
  AttentionForward,
  AttentionBackward,
  Memory,
  Network,
  HiddenLayers,
  HiddenGradients,
  HiddenWeights,
  Headroom
};
struct Assumption {
  Assumed what = Assumed::Matmul;
  std::string name;   ///< "matmuls, of peak"
  double value = 0;   ///< part of 1
  std::string source; ///< of the description, or "assumed"
};

/// A plan that was found with a figure moved; its times are those under it.
struct Challenger {
  Assumption figure; ///< as it is
  double value = 0;  ///< to which it was moved
  PlanPoint plan;
};

/// What the explanation is made from; pointers are borrowed.
struct ExplainInput {
  const StepModel *step = nullptr;
  const Machine *machine = nullptr; ///< with its number of devices
  /// Devices of the machine, which may fill its tiers in part; 0: as many as it
  /// describes.
  int64_t devices = 0;
  int64_t perUnit = 0;  ///< used of each innermost unit; 0: units are filled
  double filledSec = 0; ///< best step with units filled; 0: that is this one
  Profile profile;
  const SearchResult *result = nullptr;
  /// The layout behind a point of a kind; may give null (unknown), may be
  /// empty.
  std::function<const LayerLayout *(int kind, const LayerPoint &)> layoutOf;
  /// The collectives of a layer at a point; without it none are known.
  std::function<std::vector<LayerCollective>(int kind, const LayerPoint &)>
      collectivesOf;
  /// The largest values of a layer at a point of a plan; without it none are
  /// known.
  std::function<std::vector<LayerBuffer>(const OuterChoice &outer, int kind,
                                         const LayerPoint &)>
      buffersOf;
  /// `SearchProblem::tiedShards`.
  std::function<TiedShards(const OuterChoice &, const LayerPoint &embedding,
                           const LayerPoint &head)>
      tiedShards;
  const Pins *asked = nullptr; ///< pins of a person; may be null
  /// Features that the target cannot execute, with the reason (`Pins`).
  std::vector<std::pair<std::string, std::string>> excluded;
  double tokens = 0; ///< of the run; 0: `kTokensPerParameter` per active one
  /// Rank plans again with figures moved (`SensitivityPart`).
  bool withSensitivity = false;
  std::vector<Challenger> challengers; ///< to be ranked, too
  bool searchesSensitivity = false;    ///< they were looked for
  double roomyHeadroom = 0; ///< that `SearchResult::roomy` was asked with
};

/// Memory that the plan of `RoomyPlan` leaves free.
constexpr double kRoomyHeadroom = 0.05;

/// Tokens per parameter at which a training budget is best spent (Hoffmann et
/// al. 2022, arXiv 2203.15556, table 3: about 20).
constexpr double kTokensPerParameter = 20;

//===----------------------------------------------------------------------===//
// 1. The plan
//===----------------------------------------------------------------------===//

/// One axis of the mesh, innermost first in `PlanPart`.
struct AxisRow {
  std::string name; ///< "tensor", "context", "expert", "data", "pipeline"
  Group group;
  std::string tier;    ///< outermost tier that its groups cross
  std::string carries; ///< what travels along it
};

/// Ranks of a stage: `size` that follow each other, in each of `blocks` blocks
/// of `period` ranks.
struct StageRanks {
  int64_t first = 0, size = 1, period = 1, blocks = 1;
};

struct StageRow {
  StageRanks ranks;
  std::string layers;    ///< "embedding, 16 decoder"
  std::string recompute; ///< "nothing", "12 all, 4 nothing"
};

/// How some ops of a kind are split over an axis, in the field's words.
struct LayoutWords {
  std::string axis;             ///< "tensor"
  std::string words;            ///< "column-parallel"
  std::vector<std::string> ops; ///< weights or ops: "q_proj", "swiglu"
};

/// Matmuls of a kind, and attention, that are computed in one number type.
struct PrecisionWords {
  std::string type;             ///< "fp8", "bf16"
  std::vector<std::string> ops; ///< weights or ops: "q_proj", "attention"
  std::string why;              ///< they are not in fp8, or ""
};

struct KindRow {
  std::string name;
  int64_t count = 0;                     ///< layers of this kind in the model
  std::vector<LayoutWords> layout;       ///< empty: unknown, or one rank
  std::vector<PrecisionWords> precision; ///< of steps in fp8; else empty
};

struct PlanPart {
  std::string model, cluster, device, type;
  std::string typeNote; ///< why it is this type, or ""
  /// Whose peak counts, where the devices state none of `type` and may not be
  /// as fast; else "".
  std::string ratedAs;
  int64_t batch = 0, sequence = 0;
  double parameters = 0;
  int64_t devices = 0, spares = 0; ///< asked for; those without a rank
  bool sharesMachine = false; ///< ranks are processes on the cores of machines
  int64_t perUnit = 0;  ///< used of each innermost unit; 0: units are filled
  std::string unit;     ///< the name of such a unit
  double filledSec = 0; ///< best step with units filled; 0: that is this one
  OuterChoice outer;
  std::vector<AxisRow> axes;
  std::vector<StageRow> stages;
  std::vector<KindRow> kinds;
  std::string state; ///< where weights, gradients, optimizer state rest
  /// Ranks that `outer.ep` counts have all experts each: data ranks.
  bool holdsAllExperts = false;
  std::vector<std::string> idlePins; ///< as `idlePins` says them
};

/// "column-parallel", "sequence-parallel", "replicated", ... for a forward op
/// under an option; `shardsWords`: what it shards are the vocabulary's words.
std::string wordsFor(const LayerOp &op, const OpOption &option,
                     bool shardsWords);

//===----------------------------------------------------------------------===//
// 2. Memory
//===----------------------------------------------------------------------===//

/// A value of one micro-batch, as a rank has it.
struct BufferRow {
  std::string layer;                   ///< kind of layer: "head"
  llvm::SmallVector<int64_t> stages;   ///< that have such layers, ascending
  std::string op;                      ///< that makes it: "linear lm_head"
  llvm::SmallVector<int64_t, 4> shape; ///< on the rank
  double bytes = 0, elementBytes = 0;
  std::string place;                  ///< "model.mlir:17", or ""
  std::vector<std::string> wholeOver; ///< axes that do not split it
  /// What may make it smaller: "cp=2,mb=4" (`Pins`).
  std::vector<std::string> pins;
  /// Where axes are there and do not split it: the op as a plan names it
  /// ("forward 6 0"); else "".
  std::string rule;
};

/// Bytes of each stage's most loaded rank.
struct MemoryPart {
  double capacity = 0; ///< physical bytes of a rank's device
  std::vector<StageMemory> stages;
  Reserve reserve;                ///< of what `stages` call reserved
  int tightest = 0;               ///< stage with the least headroom
  std::vector<BufferRow> buffers; ///< the largest of the plan
  double headroom(size_t stage) const {
    return capacity - stages[stage].total();
  }
};

//===----------------------------------------------------------------------===//
// 3. Time of a step
//===----------------------------------------------------------------------===//

/// `TrafficRow::axis` of what the ends of a pipeline without data ranks tell
/// each other of a table that both have.
inline constexpr llvm::StringLiteral kTiedWeights = "tied weights";

/// Traffic along one axis, mean over stages.
struct TrafficRow {
  std::string axis, tier;
  double totalSec = 0;   ///< of the links
  double exposedSec = 0; ///< that the compute engine waits for
};

/// What a rank sends along some axes of the mesh in a step, in one kind of
/// collective; mean over the stages. Messages that it receives are one more.
struct PricedCollective {
  std::string kind; ///< "all_reduce", ..., "message"
  std::string axes; ///< "tp", "dp ep"; of the mesh, the slowest first; of
                    ///< messages "forward" or "backward"
  double calls = 0; ///< as they are priced: one for each group of parameters
  double bytes = 0; ///< as in kerf/Cost/Collectives.h
  double sec = 0;   ///< of the links, hidden or not
};

/// A resource, and the step without it.
struct Roof {
  std::string name; ///< "compute", "memory", "network", "launches", "pipeline"
  double stepSec = 0; ///< if the resource were infinitely fast
};

/// Parts of one step, mean over the stages; they add to `stepSec`.
struct TimePart {
  double stepSec = 0; ///< on the timeline
  /// Chains of tasks through one stage at a time (`closedFormSec`): no more
  /// than `stepSec`, but for rounding.
  double closedFormSec = 0;
  // Compute. Recomputation holds all compute of it.
  double matmulSec = 0, attentionSec = 0, rowSec = 0, launchSec = 0,
         recomputeSec = 0, optimizerSec = 0;
  std::vector<TrafficRow> traffic;           ///< rows without traffic left out
  std::vector<PricedCollective> collectives; ///< of `traffic`, by kind, axes
  // Coordination. `constantSec`: the runtime's fixed time per step.
  double bubbleSec = 0, imbalanceSec = 0, constantSec = 0;

  double modelFlops = 0;      ///< of the step, nothing recomputed
  double recomputedFlops = 0; ///< estimated: as the times of recomputation
  double peak = 0;            ///< flop/s of all ranks' devices together
  double mfu = 0;             ///< modelFlops / (stepSec x peak)
  double hfu = 0;             ///< with recomputed flops
  /// Step of devices that reach their best rate of matmuls and never wait /
  /// this step.
  double ofIdeal = 0;
  /// Bytes sent per rank / flops per rank: link time x bandwidth, so latencies
  /// count as bytes (an upper bound).
  double bytesPerFlop = 0;
  std::vector<Roof> roofs; ///< the most binding one first
  Roof next; ///< the most binding one if the first vanished, with both gone

  double computeSec() const {
    return matmulSec + attentionSec + rowSec + launchSec + recomputeSec +
           optimizerSec;
  }
  double exposedSec() const;
  double coordinationSec() const {
    return bubbleSec + imbalanceSec + constantSec;
  }
};

/// The collectives and messages that the price of a plan counts.
std::vector<PricedCollective> priceCollectives(const ExplainInput &input,
                                               const PlanPoint &plan);

/// Accounts for the time of a step. `simulate(plan.work)` gives the total.
TimePart accountTime(const StepModel &step, const Machine &machine,
                     const Profile &profile, const PlanPoint &plan);

//===----------------------------------------------------------------------===//
// 4. Alternatives
//===----------------------------------------------------------------------===//

struct AlternativeRow {
  std::string what, why;
  double stepSec = 0;  ///< 0: not evaluated, or it does not fit
  std::string layout;  ///< in short
  double boundSec = 0; ///< no such plan takes less; 0: evaluated, or not known
};

/// The fastest plan found that leaves more memory free.
struct RoomyPlan {
  double headroom = 0; ///< part of the memory; 0: it was not asked for
  double stepSec = 0;  ///< 0: none was found
  std::string layout;
  bool isBest = false; ///< it is the plan that is explained
};

/// "tp 8 dp 4 pp 2 | 16 x 2 | 1f1b | zero 1".
std::string shortLayout(const OuterChoice &outer);

//===----------------------------------------------------------------------===//
// 5. The run
//===----------------------------------------------------------------------===//

/// A run over `tokens`; all devices of the machine are paid for, spares too.
/// How wrong the time of a step, and so of a run and its price, may be: it may
/// take so much less or more, parts of 1; and where that is from.
struct ErrorBand {
  double less = 0, more = 0;
  std::string source;
  std::string when;        ///< measured or compared, "2026-11-26"; "": assumed
  bool isOfOthers = false; ///< published steps of other runtimes are so far off
};

struct RunPart {
  ErrorBand band; ///< of `seconds`, `deviceHours`, `joules` and `price`
  double tokens = 0, steps = 0;
  double tokensPerSec = 0;
  double tokensPerParameter = 0; ///< that a token is multiplied by
  bool hasExperts = false;       ///< of which a token chooses some
  double seconds = 0; ///< with the time lost to failures and checkpoints
  double deviceHours = 0;
  double joules = 0; ///< at the devices' rated power, cooling (PUE) included
  double flopsPerJoule = 0;
  std::string currency; ///< "" without a price
  double price = 0;
  double devicePrice = 0;    ///< of one of the `deviceHours`
  bool isPriceGiven = false; ///< on the command line, not in the description
  int64_t sharing = 1; ///< ranks among which a described device is divided
  double carbonKg = 0; ///< 0: not stated
  // Failures; 0 without a stated reliability.
  double failuresPerDay = 0;
  double checkpointBytes = 0;       ///< of the whole model
  double checkpointSec = 0;         ///< until one is written, beside training
  std::string checkpointBound;      ///< what bounds that: "storage"
  double checkpointStallSec = 0;    ///< for which one stops training
  double checkpointIntervalSec = 0; ///< between the beginnings of two
  double goodput = 1; ///< part of the time that makes progress (ExplainRun.cpp)
  /// Failures leave time for steps: more than one part in 10,000.
  bool ends() const { return goodput > 1e-4; }
  // With copies in the memory of another machine beside these (kerf-run
  // --peer-copies=1); 0 where there is no other one, or it has no room.
  double copyIntervalSec = 0;
  double copyStallSec = 0; ///< for which one stops training
  double copyGoodput = 0;
};

/// A run on `devices` devices of a machine; `tokens` 0: `kTokensPerParameter`
/// per active parameter.
RunPart planRun(const StepModel &step, const Machine &machine, int64_t devices,
                double stepSec, double tokens);

//===----------------------------------------------------------------------===//
// 6. What it rests on
//===----------------------------------------------------------------------===//

/// Steps of Kerf that were timed on a kind of device (docs/hardware.md,
/// docs/prediction-figures.md).
struct MeasuredSteps {
  llvm::StringRef chip;      ///< a part of such devices' names, lower case
  llvm::StringRef where;     ///< "one H100"
  llvm::StringRef type;      ///< of numbers: "bf16"
  llvm::StringRef what;      ///< "five models"
  llvm::StringRef when;      ///< "2026-11-26"
  double less = 0, more = 0; ///< steps took so much less or more, parts of 1
  llvm::StringRef remark;
};

/// Those on such devices, of all number types; none of other runtimes.
std::vector<MeasuredSteps> measuredStepsOn(const Machine &machine,
                                           const Profile &profile);

/// From steps that were measured on such a device; else from published steps of
/// other runtimes.
ErrorBand errorBandOf(const StepModel &step, const Machine &machine,
                      const Profile &profile, const OuterChoice &outer);

struct TrustPart {
  std::vector<Assumption> figures;
  std::vector<std::string> assumptions, notModelled;
  /// Kerf's own steps were measured on such devices, in this number type and on
  /// one rank (CPUs: on several, too). Otherwise times are a projection, and
  /// the error is that of other runtimes' steps.
  bool isMeasured = false;
  std::vector<MeasuredSteps> measured; ///< on such devices, in any type
  ErrorBand band;
  Certificate certificate;
  std::vector<std::pair<std::string, std::string>> excluded;
  /// That no programs are made for these devices, and what can be done; empty
  /// where they are.
  std::string notCompiled;
};

//===----------------------------------------------------------------------===//
// 7. When another plan would win
//===----------------------------------------------------------------------===//

/// The range of a figure in which the plan stays the fastest of those that were
/// ranked again, the others unmoved.
struct SensitivityRow {
  std::string name;
  double value = 0, from = 0, to = 0; ///< parts of 1
  /// Layouts that win just outside; empty: the range ends where nobody looked.
  std::string below, above;
  bool isChoice = false; ///< of a person (memory kept free), not of nature
};

struct SensitivityPart {
  std::vector<SensitivityRow> rows; ///< empty: it was not asked for
  int64_t plans = 0;                ///< ranked, this one included
  bool isSearched = false; ///< also with each figure at the ends of its range
};

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

struct Explanation {
  bool feasible = false;
  PlanPart plan;
  MemoryPart memory;
  TimePart time;
  std::vector<AlternativeRow> alternatives;
  RoomyPlan roomy;
  RunPart run;
  TrustPart trust;
  SensitivityPart sensitivity;
  Infeasible infeasible; ///< when nothing fits
  /// Of the plan that needs the least, when nothing fits.
  std::vector<BufferRow> leastBuffers;
};

/// Explains `result->best`; without one, why nothing fits.
Explanation explain(const ExplainInput &input);

/// What one must know, in about twelve lines: what, whether it fits, why this
/// plan, the next best, what to doubt. Colors and refusals as `printText`.
std::string printShort(const Explanation &explanation, bool color = false);
/// Layout, step, memory: "tp 2 dp 4 | 16 x 2; step 1.20 s, 3 GiB of 80 GiB".
std::string printLine(const Explanation &explanation);
/// The whole screen, at most 110 columns; with `color`, headings stand out on a
/// terminal. Of an infeasible problem: error and notes in the house form.
std::string printText(const Explanation &explanation, bool color = false);
/// What stands below the title of a picture of the schedule: "8 stages, step
/// 2.944 s, 5.0 % pipeline bubble", as the screens say it; one stage has none.
std::string scheduleWords(const Explanation &explanation);
/// A page for a browser that needs nothing else: all of it, with bars, and the
/// picture of the schedule (an `<svg>` element). Prints on a few sheets.
std::string printHtml(const Explanation &explanation, llvm::StringRef schedule);
/// All data as JSON with sorted keys and `"version": 2`.
std::string printJson(const Explanation &explanation);

/// "no plan fits ...", and notes with reasons and reliefs, without the words
/// "error" and "note".
struct Refusal {
  std::string message;
  std::vector<std::string> notes;
};
Refusal refusalOf(const Explanation &explanation);

//===----------------------------------------------------------------------===//
// Two plans
//===----------------------------------------------------------------------===//

/// A decision that differs.
struct DecisionRow {
  std::string what, a, b;
};
/// A quantity of both plans; the unit is that of its table.
struct QuantityRow {
  std::string what;
  double a = 0, b = 0;
};
struct PlanDifference {
  std::vector<DecisionRow> decisions; ///< those that differ
  std::vector<QuantityRow> time;      ///< seconds; the first is the step
  std::vector<QuantityRow> memory;    ///< bytes of the tightest stage by class
  std::vector<QuantityRow> rates;     ///< MFU, tokens per second, device-hours
};

/// Both must be feasible.
PlanDifference difference(const Explanation &a, const Explanation &b);
std::string printText(const PlanDifference &difference, llvm::StringRef nameA,
                      llvm::StringRef nameB, bool color = false);
std::string printJson(const PlanDifference &difference);

} // namespace kerf

#endif // KERF_REPORT_EXPLAIN_H
