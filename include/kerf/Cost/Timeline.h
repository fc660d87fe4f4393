//===- Timeline.h - one step, event by event ------------------------------===//
//
// One representative rank per pipeline stage; each has a compute engine and one
// link per kind of traffic. The same timeline is searched, explained, drawn and
// traced.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_COST_TIMELINE_H
#define KERF_COST_TIMELINE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// `ZeroBubble` is ZB-H1 (Qi et al. 2023, arXiv 2401.10241): 1F1B whose weight
/// gradients are deferred into the bubble. `Interleaved` is Megatron's
/// (Narayanan et al. 2021, arXiv 2104.04473), with `chunks` chunks per stage.
/// Their names and facts are `kSchedules` (kerf/Support/Schedules.h), in this
/// order; docs/adding-to-the-planner.md says what else one needs.
enum class ScheduleKind { GPipe, OneFOneB, Interleaved, ZeroBubble };
llvm::StringRef nameOf(ScheduleKind kind); ///< as in `kSchedules`
std::optional<ScheduleKind> scheduleNamed(llvm::StringRef name);
/// All of them.
std::vector<ScheduleKind> allSchedules();

/// True for schedules that make weight gradients apart from input gradients,
/// and may defer them.
bool splitsWeightGradient(ScheduleKind kind);

/// Micro-batches whose weight gradients ZB-H1 lets wait on a stage at most; the
/// fewer, the less memory and the more idle time.
constexpr int64_t kDeferAll = -1; ///< as many as fill the bubble: i on stage i

/// How the stages of a pipeline take micro-batches in turn.
struct Pipelining {
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int64_t stages = 1, microBatches = 1, chunks = 1;
  int64_t defer = kDeferAll; ///< of ZB-H1
  /// Micro-batches that stage i is late with weight gradients: i, or `defer`
  /// where that is less; other schedules 0.
  int64_t lateBy(int64_t stage) const;
  friend auto operator<=>(const Pipelining &, const Pipelining &) = default;
};

/// What one micro-batch costs on one chunk of layers. Seconds of the compute
/// engine, in-layer collectives that are not hidden included.
struct ChunkWork {
  double forwardSec = 0;
  double backwardSec =
      0; ///< input and weight gradients, recomputation included
  double weightGradientSec = 0; ///< the part of it that may be deferred
  /// Traffic on the data link of weights that the chunk reads (ZeRO-3 gathers)
  /// and of gradients that it makes. It runs layer by layer beside the chunk:
  /// a share of it (`StepWork`) costs nothing where the chunk lasts as long;
  /// the rest holds up the compute engine, before (gathers) or after it
  /// (gradients).
  double forwardGatherSec = 0, backwardGatherSec = 0, gradientSec = 0;
};

/// Seconds of the messages that take a micro-batch through all chunks of a
/// pipeline, one way. `sendSec` as in `StepWork`.
double journeySec(llvm::ArrayRef<double> sendSec, int64_t chunks);

struct StageWork {
  std::vector<ChunkWork> chunks; ///< `StepWork::chunks` of them
  /// Once per step on the data link. Gradients: `gradientOverlap` of it, as far
  /// as the stage's last backward (ZB-H1: weight gradient) lasts, is hidden
  /// beside that. Weights, after the update: `updatedOverlap` of it, as far as
  /// the first forward lasts, is hidden beside the next step's first forward.
  double gradientSyncSec = 0, weightGatherSec = 0;
  double updateSec = 0; ///< optimizer
};

struct StepWork {
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int64_t microBatches = 1;
  int64_t chunks = 1;            ///< per stage; 1 unless interleaved
  int64_t defer = kDeferAll;     ///< of ZB-H1 (`Pipelining`)
  std::vector<StageWork> stages; ///< first to last
  /// Seconds of one message over each border, the mean of those of activations
  /// and of their gradients: entry b between stage b and b + 1, the last one
  /// between the last stage and the first (of interleaved chunks). Empty: free.
  /// A stage sends one message at a time, beside compute.
  std::vector<double> sendSec;
  double sendOver(size_t border) const {
    return sendSec.empty() ? 0 : sendSec[border];
  }
  /// Seconds of the messages that take a micro-batch through all chunks.
  double journeySec() const;
  /// Parts of traffic hidden beside compute: of gradients, of weights, and of
  /// weights after the update.
  double gradientOverlap = 0.5, weightOverlap = 0.5, updatedOverlap = 0;
  double bubble = 1;      ///< multiplier of idle time (a runtime profile's)
  double constantSec = 0; ///< per step
  /// What cannot be, or "": micro-batches no multiple of the stages with
  /// interleaving, and so on.
  std::string check() const;
  Pipelining pipelining() const {
    return {schedule, int64_t(stages.size()), microBatches, chunks, defer};
  }
};

enum class EventKind {
  Forward,
  Backward,
  WeightGradient,
  Send,
  Gather,
  GradientSync,
  WeightGather,
  Update
};
/// "forward", "weight gradient", ...
llvm::StringRef nameOf(EventKind kind);

/// Where an event runs. Events of one engine and stage do not overlap.
enum class Engine { Compute, PipeLink, DataLink };
llvm::StringRef
nameOf(Engine engine); ///< "compute", "pipeline link", "data link"

/// `GradientSync` with a micro-batch is a chunk's `gradientSec`, without one
/// (-1) the stage's `gradientSyncSec`. A `WeightGather` shows what is not
/// hidden.
struct Event {
  EventKind kind = EventKind::Forward;
  Engine engine = Engine::Compute;
  int stage = 0;
  int chunk = 0;
  int64_t microBatch = -1;
  double startSec = 0, endSec = 0;
};

struct Timeline {
  /// Own work of the slowest stage + bubbleSec + constantSec.
  double totalSec = 0;
  std::vector<double> busySec; ///< per stage, compute
  std::vector<double>
      exposedDataSec; ///< per stage: compute waits for data traffic
  /// `StepWork::bubble` x (end of the last stage to end - own work of the
  /// slowest stage), where own work is busySec + exposedDataSec.
  double bubbleSec = 0;
  /// In order of start; empty unless asked for. The multiplier of the bubble
  /// and the constant are not in their times.
  std::vector<Event> events;
};

/// One entry of a stage's order.
struct Task {
  EventKind kind; ///< Forward, Backward or WeightGradient
  int chunk;
  int64_t microBatch;
};
/// The order in which a stage's compute engine takes its work. Only ZB-H1 has
/// tasks of weight gradients.
std::vector<Task> stageOrder(const Pipelining &pipelining, int64_t stage);

/// Simulates the step. `work.check()` must be empty. Linear in the tasks.
Timeline simulate(const StepWork &work, bool keepEvents = false);

/// Time of even stages with free sends and without traffic per micro-batch, and
/// a lower bound of `simulate` otherwise; tens of nanoseconds per stage.
/// 1F1B, even: (micro-batches + stages - 1) x a stage's forward and backward.
double closedFormSec(const StepWork &work);

/// Micro-batches whose activations a stage holds at once, in chunks: forwards
/// whose backward (ZB-H1: weight gradient) is not done. 1F1B min(m, p - i);
/// ZB-H1 min(m, p) on all stages, less where fewer are deferred; interleaved
/// min(m v, 2 (p - i - 1) + (v - 1) p + 1); GPipe m.
double chunksInFlight(const Pipelining &pipelining, int64_t stage);

/// The same of a stage with one chunk, by what is held: until the backward pass
/// (`early`), from forward to weight gradient (`late`), and what the backward
/// pass leaves for the weight gradient (`handed`). ZB-H1, d late on stage i:
/// min(m, p - i), min(m, p - i + d) and min(m, d + 1); others hold all until
/// the backward pass.
struct HeldParts {
  double early = 1, late = 1, handed = 0;
};
HeldParts partsInFlight(const Pipelining &pipelining, int64_t stage);

/// Chrome / Perfetto trace as JSON: one process per stage, one thread per
/// engine, microseconds.
std::string traceOf(const Timeline &timeline);
/// The schedule as an SVG picture, 1200 wide: one row per stage, one box per
/// task; data traffic as a strip below. Thousands of tasks become columns,
/// which show the share of each kind of work. `timeline` must have its events.
/// `facts` stand below the title.
std::string svgOf(const Timeline &timeline, llvm::StringRef title,
                  llvm::StringRef facts);

} // namespace kerf

#endif // KERF_COST_TIMELINE_H
