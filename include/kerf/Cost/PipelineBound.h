//===- PipelineBound.h - what no split of layers can go below -------------===//
//
// A search knows of a pipeline whose layers are not dealt out yet how long its
// slowest stage and all stages together take, at least. `pipelineBoundSec` says
// what that makes of a step on the timeline, whichever stages are slow.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_COST_PIPELINEBOUND_H
#define KERF_COST_PIPELINEBOUND_H

#include "kerf/Cost/Timeline.h"

namespace kerf {

/// What is known of all stages of a pipeline. A stage's time is that of a
/// micro-batch on its compute engine: forward and backward, all chunks, and the
/// part of gathers and gradients that stops the engine (each pass no shorter
/// than its gather).
struct PipelineFacts {
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int64_t stages = 1, microBatches = 1, chunks = 1;
  /// Messages, set by `setSends`: seconds of one over the fastest border and
  /// over the slowest between neighbours; of those that take a micro-batch
  /// through all chunks; of those of a micro-batch that the busiest stage
  /// sends.
  double leastSendSec = 0, mostSendSec = 0, journeySendSec = 0,
         busiestSendSec = 0;
  double bubble = 1; ///< as in `StepWork`
  /// No stage's forward, its backward, its weight gradient (ZB-H1; else 0), its
  /// waits for data traffic, of these the first gather's and the last
  /// gradient's are a larger part of its time.
  double mostForward = 1, mostBackward = 1, mostWeight = 1, mostHeld = 0,
         mostEnds = 0;
  /// Of all stages together at most: waits for data traffic and, in ZB-H1,
  /// weight gradients.
  double deferredSec = 0;
  /// Forward and backward of a stage's first chunk at least, without waits.
  double firstChunkSec = 0;
  /// What all first chunks together may lack to that.
  double firstLackSec = 0;

  /// `sendSec` as in `StepWork`. `stages` and `chunks` must be set.
  void setSends(llvm::ArrayRef<double> sendSec);
};

/// Which pipelines a bound is for.
enum class BoundOver {
  These, ///< whose slowest stage takes just `slowestSec`
  Slower ///< whose slowest stage takes that or more; grows with both times
};

/// `simulate` of no such step is faster, `StepWork::constantSec` aside. The
/// slowest stage takes `slowestSec`, all stages together `sumSec` or more. What
/// comes after the last backward (ZB-H1: weight gradient) of the first stage
/// takes `tailSec` or more.
double pipelineBoundSec(const PipelineFacts &facts, double slowestSec,
                        double sumSec, double tailSec,
                        BoundOver over = BoundOver::These);

/// The most seconds that stage `stage` (from 0) may take where the step takes
/// `stepSec` or less; negative where no step does. The other arguments as
/// above. It knows where the stage is, so that stages with whole layers are
/// bounded more tightly: they have no place for them all.
double longestStageSec(const PipelineFacts &facts, int64_t stage,
                       double stepSec, double sumSec, double tailSec);

} // namespace kerf

#endif // KERF_COST_PIPELINEBOUND_H
