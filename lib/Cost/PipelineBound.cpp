//===- PipelineBound.cpp - what no split of layers can go below -----------===//
//
// Problem: only the slowest stage's time T and the sum S of all p stages are
// known. What does a step of m micro-batches take at least on the timeline?
//
// Idea: every chain of tasks that wait for each other is a bound, and some
// chains are there wherever the slowest stage is. A journey is a micro-batch
// that goes from the first stage to the last and back:
//
//   J = S - (what it does not wait for) + 2 (p - 1) messages
//
// GPipe: the slowest stage k does its m - 1 other forwards when the first
//   micro-batch is there, and its m - 1 other backwards so, too: J + (m - 1) T,
//   or the same with messages, where these take longer.
// 1F1B:
//   - F_0(0) .. F_k(0), then at k all its work, but for the n k-th part: its
//     first backward comes no sooner than a round trip behind it after the
//     first forward, of which the n = min(p - 1 - k, m - 1) forwards of the
//     warm-up fill n f. From the other end n b. So J + (m - 1) T - n min(f, b).
//   - The first stage begins micro-batch x + p when x is back. So q journeys
//     follow each other, and once a journey is over stage k is warm, and takes
//     T per micro-batch: (1 + q) J + (m - 1 - q p) T for any whole
//     1 <= q <= (m - 1) / p. It grows with q or falls: the ends count.
//     q = 1 is J + (m - 1) T less what other stages lack to T.
// ZB-H1: the same with journeys that wait for no weight gradient. n forwards,
//   and the weight gradients that stage k still has after its last backward,
//   one for each stage before it, are less than p - 1 of the longer kind.
// Interleaved: stage k does all of its work after the first micro-batch has
//   come through the first chunks before it, and before the last gradient goes
//   back through them: m T_k + k c. With stages of T_k <= T that add up to S
//   this is T m + x at least where sum (k c - x)+ <= m (p T - S).
//
// Gathers and gradients of every micro-batch that hold up the engine are in T.
// A stage's first gather may be over when its first micro-batch comes, and its
// last gradients leave beside what comes after it.
//
// Example: 1F1B, 4 stages, 8 micro-batches, T = 3, S = 10 (3, 3, 2, 2), f =
// T / 3: max(8 x 3, 10 + 7 x 3 - 3 x 1, 20 + 3 x 3) = 29; the timeline 29.
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/PipelineBound.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>

using namespace kerf;

/// What chains through the slowest stage take besides a journey, in its times.
static double ownSteps(const PipelineFacts &facts) {
  double others = double(facts.microBatches - 1);
  double behind = double(facts.stages - 1), lost = 0;
  if (facts.schedule == ScheduleKind::OneFOneB)
    lost = std::min(behind, others) *
           std::min(facts.mostForward, facts.mostBackward);
  if (facts.schedule == ScheduleKind::ZeroBubble)
    lost = std::min(behind, 2 * others) *
           std::max(facts.mostForward, facts.mostWeight);
  return std::max(0.0, others - lost);
}

/// Journeys one after the other, and the slowest stage's own work.
static double journeysSec(const PipelineFacts &facts, double journey,
                          double slowest) {
  int64_t others = facts.microBatches - 1;
  double longest = journey + ownSteps(facts) * slowest;
  for (int64_t q : {int64_t(1), others / facts.stages})
    if (q >= 1 && q * facts.stages <= others)
      longest =
          std::max(longest, double(1 + q) * journey +
                                double(others - q * facts.stages) * slowest);
  return longest;
}

/// Two flow shops; a link is a machine, too.
static double flowShopSec(const PipelineFacts &facts, double journey,
                          double slowest) {
  double others = double(facts.microBatches - 1);
  return journey +
         std::max(ownSteps(facts) * slowest, 2 * others * facts.mostSendSec);
}

/// m T + x of interleaved stages; see above.
static double interleavedSec(const PipelineFacts &facts, double slowest,
                             double sum, BoundOver over) {
  double m = double(facts.microBatches), p = double(facts.stages);
  double each = facts.firstChunkSec + 2 * facts.leastSendSec;
  double own = std::max(0.0, m - facts.mostEnds) * slowest;
  // The mean over the stages.
  double mean =
      std::max(0.0, m - facts.mostEnds) * sum / p + (p - 1) * each / 2;
  mean = std::max(0.0, mean - facts.firstLackSec);
  if (over == BoundOver::Slower || each <= 0)
    return std::max(own, mean);
  // The r last stages may lack this much.
  double lack = std::max(0.0, m * (p * slowest - sum)), more = 0;
  for (int64_t r = 1; r < facts.stages; ++r) {
    // All of r stages come to x = (their mean k) c - lack / r.
    double middle = p - 1 - double(r - 1) / 2;
    more =
        std::max(more, middle * each - facts.firstLackSec - lack / double(r));
  }
  return std::max(mean, own + more);
}

/// Seconds of what a stage sends of each micro-batch. The first one sends no
/// gradient of its first chunk, the last one nothing after its last.
static double sentBy(llvm::ArrayRef<double> sendSec, int64_t chunks,
                     size_t stage) {
  size_t last = sendSec.size() - 1;
  double forward = double(chunks - (stage == last)) * sendSec[stage];
  double backward =
      double(chunks - (stage == 0)) * sendSec[stage == 0 ? last : stage - 1];
  return forward + backward;
}

void PipelineFacts::setSends(llvm::ArrayRef<double> sendSec) {
  leastSendSec = mostSendSec = busiestSendSec = 0;
  journeySendSec = journeySec(sendSec, chunks);
  if (sendSec.size() < 2)
    return;
  leastSendSec = *llvm::min_element(sendSec);
  mostSendSec = *llvm::max_element(sendSec.drop_back());
  for (size_t stage = 0; stage < sendSec.size(); ++stage)
    busiestSendSec = std::max(busiestSendSec, sentBy(sendSec, chunks, stage));
}

double kerf::pipelineBoundSec(const PipelineFacts &facts, double slowestSec,
                              double sumSec, double tailSec, BoundOver over) {
  double own = double(facts.microBatches) * slowestSec;
  if (facts.stages == 1)
    return own + tailSec;
  // A stage sends one message at a time.
  double end = double(facts.microBatches) * facts.busiestSendSec;
  double journey =
      std::max(0.0, sumSec - facts.deferredSec) + 2 * facts.journeySendSec;
  switch (facts.schedule) {
  case ScheduleKind::GPipe:
    end = std::max(end, flowShopSec(facts, journey, slowestSec));
    break;
  case ScheduleKind::OneFOneB:
  case ScheduleKind::ZeroBubble:
    end = std::max(end, journeysSec(facts, journey, slowestSec));
    break;
  case ScheduleKind::Interleaved:
    end = std::max(
        {end, journey, interleavedSec(facts, slowestSec, sumSec, over)});
  }
  // Weight gradients of a late stage may come after all else.
  double held = facts.mostEnds * slowestSec;
  if (facts.schedule != ScheduleKind::ZeroBubble)
    end = std::max(end, own - held);
  end = std::max(end + tailSec, own - held);
  if (facts.bubble >= 1)
    return end;
  double busy = own * (1 - facts.mostHeld);
  return busy + facts.bubble * std::max(0.0, end - busy);
}

namespace {
/// Steps of a + b T seconds or more, T those of a stage.
struct Line {
  double a, b;
};
} // namespace

/// What the warm-up and deferred weight gradients may take off the work of a
/// stage; in its times.
static double lostAt(const PipelineFacts &facts, int64_t stage) {
  double others = double(facts.microBatches - 1);
  double behind = std::min(double(facts.stages - 1 - stage), others);
  if (facts.schedule == ScheduleKind::OneFOneB)
    return behind * std::min(facts.mostForward, facts.mostBackward);
  if (facts.schedule == ScheduleKind::ZeroBubble)
    return behind * facts.mostForward +
           std::min(double(stage), others) * facts.mostWeight;
  return 0;
}

/// Chains through a stage; the tail follows all but, in ZB-H1, the first.
static llvm::SmallVector<Line, 5> chainsAt(const PipelineFacts &facts,
                                           int64_t stage, double journey) {
  int64_t others = facts.microBatches - 1, p = facts.stages;
  llvm::SmallVector<Line, 5> chains;
  double own = double(facts.microBatches) - facts.mostEnds;
  if (facts.schedule == ScheduleKind::Interleaved) {
    double each = facts.firstChunkSec + 2 * facts.leastSendSec;
    chains.push_back(
        {std::max(0.0, double(stage) * each - facts.firstLackSec), own});
    chains.push_back({journey, 0});
    return chains;
  }
  chains.push_back({0, own});
  double steps = double(others) - lostAt(facts, stage);
  chains.push_back({journey, std::max(0.0, steps)});
  if (facts.schedule == ScheduleKind::GPipe)
    return chains;
  for (int64_t q : {int64_t(1), others / p})
    if (q >= 1 && q * p <= others)
      chains.push_back({double(1 + q) * journey, double(others - q * p)});
  return chains;
}

double kerf::longestStageSec(const PipelineFacts &facts, int64_t stage,
                             double stepSec, double sumSec, double tailSec) {
  double journey =
      std::max(0.0, sumSec - facts.deferredSec) + 2 * facts.journeySendSec;
  double busy = double(facts.microBatches) * (1 - facts.mostHeld);
  double part = std::min(1.0, facts.bubble);
  double longest = HUGE_VAL;
  bool isFirst = true;
  for (Line chain : chainsAt(facts, stage, journey)) {
    bool tailOut = isFirst && facts.schedule == ScheduleKind::ZeroBubble;
    double a = part * (chain.a + (tailOut ? 0 : tailSec));
    double b = part * chain.b + (1 - part) * std::min(busy, chain.b);
    longest = std::min(longest, b > 0          ? (stepSec - a) / b
                                : a <= stepSec ? HUGE_VAL
                                               : -1);
    isFirst = false;
  }
  return longest;
}
