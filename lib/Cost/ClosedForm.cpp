//===- ClosedForm.cpp - a step's time without simulating it ---------------===//
//
// Problem: a lower bound of `simulate` that is its value for even stages with
// free sends.
//
// Idea: follow one stage i. It cannot start before a micro-batch has come
// through the stages before it, must do all of its own work, must idle where
// its first (last) micro-batch is away behind it and it has too little else to
// do, and when it has done its last backward that still has to go through all
// stages before it, whose own tails follow. Every stage gives such a bound; the
// largest counts.
//
//   f, b, w   seconds of forward, backward and, in ZB-H1, weight gradient; b is
//             then without w
//   n         forwards of the warm-up, min(m - 1, p - 1 - i) in 1F1B
//   R         round trip of a micro-batch behind the stage
//   gap       (R - n f)+ before the first backward, (R - n b)+ before the last
//             one; the larger of them if all forwards come before the backwards
//   tail      gradient sync that is not hidden, update, gather that is not
//   hidden
//
// GPipe is two flow shops of equal jobs: one pass takes the sum over stages
// once, and the slowest stage m - 1 times more.
//
// Even stages: the last one gives (p - 1)(f + b) + m (f + b) in 1F1B, divided
// by the chunks in the first term when interleaved, and in ZB-H1 m (f + b + w)
// + (p - 1) max(b, f, f + b - w) or less.
//
// Traffic per micro-batch: what is not hidden occupies the engine, but may do
// so while the engine idles; so it is taken off gaps and ends. The data link
// alone gives a bound too.
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Timeline.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>

using namespace kerf;

namespace {
/// One stage; seconds. `First` is of the first chunk, others of all chunks.
struct StageTimes {
  double forwardFirst = 0, backwardFirst = 0;
  double forward = 0, backward = 0, weight = 0;
  /// Engine held up by gathers and gradients, per micro-batch.
  double forwardHeld = 0, backwardHeld = 0, gradientHeld = 0;
  double traffic = 0; ///< on the data link, per micro-batch
  double tail = 0;    ///< after the last task
  double work() const { return forward + backward + weight; }
  double held() const { return forwardHeld + backwardHeld + gradientHeld; }
};
} // namespace

/// Gradient sync beyond what the last task hides, update, weights beyond what
/// the next step hides.
static double tailOf(const StepWork &step, const StageWork &stage) {
  bool split = splitsWeightGradient(step.schedule);
  const ChunkWork &first = stage.chunks.front();
  double last = split ? first.weightGradientSec : first.backwardSec;
  double sync = stage.gradientSyncSec;
  double gather = stage.weightGatherSec;
  return sync - std::min(step.gradientOverlap * sync, last) + stage.updateSec +
         gather - std::min(step.updatedOverlap * gather, first.forwardSec);
}

static StageTimes timesOf(const StepWork &step, const StageWork &stage) {
  bool split = splitsWeightGradient(step.schedule);
  double gathered = 1 - step.weightOverlap, summed = 1 - step.gradientOverlap;
  StageTimes t;
  for (const ChunkWork &c : stage.chunks) {
    double weight = split ? c.weightGradientSec : 0;
    t.forward += c.forwardSec;
    t.backward += c.backwardSec - weight;
    t.weight += weight;
    t.forwardHeld += gathered * c.forwardGatherSec;
    t.backwardHeld += gathered * c.backwardGatherSec;
    t.gradientHeld += summed * c.gradientSec;
    t.traffic += c.forwardGatherSec + c.backwardGatherSec + c.gradientSec;
  }
  const ChunkWork &first = stage.chunks.front();
  t.forwardFirst = first.forwardSec;
  t.backwardFirst = first.backwardSec - (split ? first.weightGradientSec : 0);
  t.tail = tailOf(step, stage);
  return t;
}

/// Seconds that a stage must idle between its first forward and its last
/// backward. `behind` stages follow, whose round trip takes `roundTrip`.
static double gapOf(const StepWork &step, const StageTimes &t, int64_t behind,
                    double roundTrip) {
  if (step.schedule == ScheduleKind::GPipe ||
      step.schedule == ScheduleKind::Interleaved)
    return 0;
  double others = double(std::min(step.microBatches - 1, behind));
  double first =
      roundTrip - others * (t.forward + t.forwardHeld) - t.backwardHeld;
  first = std::max(0.0, first);
  if (splitsWeightGradient(step.schedule))
    return first;
  double last = roundTrip - t.backwardHeld -
                others * (t.backward + t.backwardHeld + t.gradientHeld);
  last = std::max(0.0, last);
  bool apart = step.microBatches - 1 > behind;
  return apart ? first + last : std::max(first, last);
}

/// Two flow shops; 0 for other schedules.
static double flowShopSec(const StepWork &step,
                          llvm::ArrayRef<StageTimes> stages) {
  if (step.schedule != ScheduleKind::GPipe)
    return 0;
  double forward = 0, backward = 0, sum = 0;
  for (const StageTimes &t : stages) {
    forward = std::max(forward, t.forward);
    backward = std::max(backward, t.backward);
    sum += t.forward + t.backward;
  }
  return sum + 2 * step.journeySec() +
         double(step.microBatches - 1) * (forward + backward) +
         stages.front().tail;
}

/// Largest bound over the stages, without the step's constant.
static double longestPath(const StepWork &step,
                          llvm::ArrayRef<StageTimes> stages) {
  Pipelining pipelining = step.pipelining();
  double m = double(step.microBatches);
  double roundTrip = 0; // behind the stage that is looked at
  // A stage's share: its own passes and the messages from and to the one
  // before.
  auto shareOf = [&](size_t i) {
    double messages = i > 0 ? 2 * step.sendOver(i - 1) : 0;
    return stages[i].forward + stages[i].backward + messages;
  };
  for (size_t i = 0; i < stages.size(); ++i)
    roundTrip += shareOf(i);
  double before = 0, best = flowShopSec(step, stages);
  double after = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < stages.size(); ++i) {
    const StageTimes &t = stages[i];
    int64_t behind = int64_t(stages.size() - 1 - i);
    roundTrip -= shareOf(i);
    double end = before + m * (t.work() + t.held()) +
                 gapOf(step, t, behind, std::max(0.0, roundTrip));
    // The first gather may be over before the first micro-batch arrives.
    if (i > 0)
      end -= t.forwardHeld;
    // Weight gradients that come after the last backward.
    double late = std::min(m, double(pipelining.lateBy(int64_t(i)) + 1)) *
                  (t.weight + t.gradientHeld);
    bool split = splitsWeightGradient(step.schedule);
    best = std::max(best, end + t.tail);
    best = std::max(best, end - (split ? late : t.gradientHeld) + after);
    double here = (split ? late : 0) + t.tail;
    after = std::max(after, here) + t.backwardFirst + step.sendOver(i);
    // The stage before sees its own backward, then the message.
    before += t.forwardFirst + step.sendOver(i);
  }
  return best;
}

/// The data link of a stage does one thing at a time.
static double linkSec(const StepWork &step, llvm::ArrayRef<StageTimes> stages) {
  double longest = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const StageWork &stage = step.stages[i];
    longest = std::max(longest, double(step.microBatches) * stages[i].traffic +
                                    stage.gradientSyncSec + stage.updateSec);
  }
  return longest;
}

double kerf::closedFormSec(const StepWork &step) {
  llvm::SmallVector<StageTimes, 16> stages;
  double own = 0, traffic = 0;
  for (const StageWork &stage : step.stages) {
    StageTimes t = timesOf(step, stage);
    own = std::max(own, double(step.microBatches) * t.work() + t.tail);
    traffic += t.traffic;
    stages.push_back(t);
  }
  double total =
      std::max({own, longestPath(step, stages), linkSec(step, stages)});
  // The multiplier of idle time. With traffic `own` is only a lower bound of
  // what is no idle time, so that a multiplier above 1 cannot be applied.
  if (step.bubble <= 1 || traffic == 0)
    total = own + step.bubble * (total - own);
  return total + step.constantSec;
}
