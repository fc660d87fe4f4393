#include "kerf/Cost/PipelineBound.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace kerf;

static const std::vector<ScheduleKind> kinds = allSchedules();

namespace {
/// Steps that a search may come to: unlike stages or nearly equal ones, busy
/// links, gathers and gradients of each micro-batch.
struct Draw {
  std::mt19937 random{7};
  double uniform(double from, double to) {
    return from + (to - from) * (random() / 4294967296.0);
  }
  int64_t upTo(int64_t most) { return 1 + int64_t(random() % most); }
  bool coin() { return random() % 2; }

  ChunkWork chunk(double unlike, bool traffic) {
    ChunkWork chunk;
    chunk.forwardSec = 1 + uniform(0, unlike);
    chunk.backwardSec = 2 + uniform(0, 2 * unlike);
    chunk.weightGradientSec =
        chunk.backwardSec *
        std::clamp(0.5 + uniform(-0.3, 0.5) * unlike, 0.0, 1.0);
    if (traffic) {
      chunk.forwardGatherSec = uniform(0, 2);
      chunk.backwardGatherSec = uniform(0, 2);
      chunk.gradientSec = uniform(0, 1);
    }
    return chunk;
  }

  StepWork step(ScheduleKind kind) {
    StepWork step;
    step.schedule = kind;
    step.stages.resize(size_t(upTo(8)));
    step.microBatches = upTo(24);
    if (kind == ScheduleKind::ZeroBubble)
      step.defer = upTo(10) - 2;
    if (kind == ScheduleKind::Interleaved) {
      step.chunks = upTo(4);
      step.microBatches = upTo(4) * int64_t(step.stages.size());
    }
    constexpr double kUnlike[] = {0, 0.02, 0.2, 2};
    double unlike = kUnlike[random() % 4];
    bool traffic = random() % 4 == 0;
    // Borders are alike, or those of every k-th stage are slow.
    double send = coin() ? uniform(0, coin() ? 0.05 : 2) : 0;
    int64_t slow = upTo(4);
    if (send > 0 || coin())
      for (size_t border = 1; border <= step.stages.size(); ++border)
        step.sendSec.push_back(int64_t(border) % slow ? send / 8 : send);
    step.gradientOverlap = uniform(0, 1);
    step.weightOverlap = uniform(0, 1);
    step.updatedOverlap = uniform(0, 1);
    step.bubble = coin() ? 1 : uniform(0.5, 1.5);
    for (StageWork &stage : step.stages) {
      for (int64_t c = 0; c < step.chunks; ++c)
        stage.chunks.push_back(chunk(unlike, traffic));
      stage.gradientSyncSec = uniform(0, 3);
      stage.updateSec = uniform(0, 1);
      stage.weightGatherSec = uniform(0, 3);
    }
    return step;
  }
};

/// A stage's times, as `PipelineFacts` has them.
struct Stage {
  double sec = 0, forward = 0, backward = 0, weight = 0, work = 0, put = 0,
         ends = 0;
};
} // namespace

static Stage stageOf(const StepWork &step, const StageWork &stage) {
  double gathered = 1 - step.weightOverlap;
  bool split = step.schedule == ScheduleKind::ZeroBubble;
  Stage sum;
  for (const ChunkWork &c : stage.chunks) {
    double weight = split ? c.weightGradientSec : 0;
    double forward = std::max(c.forwardSec + gathered * c.forwardGatherSec,
                              c.forwardGatherSec);
    double backward =
        std::max(c.backwardSec - weight + gathered * c.backwardGatherSec,
                 c.backwardGatherSec);
    double gradient = (1 - step.gradientOverlap) * c.gradientSec;
    sum.forward += forward;
    sum.backward += backward + (split ? 0 : gradient);
    sum.weight += split ? weight + gradient : 0;
    sum.sec += forward + backward + weight + gradient;
    sum.work += c.forwardSec + c.backwardSec;
    if (&c == stage.chunks.data())
      sum.ends = forward - c.forwardSec + gradient;
    sum.put += forward + backward + weight + gradient - c.forwardSec -
               (c.backwardSec - weight);
  }
  return sum;
}

namespace {
/// All that a bound is given.
struct Known {
  PipelineFacts facts;
  double slowest = 0, sum = 0, tail = 0;
  double bound(BoundOver over) const {
    return pipelineBoundSec(facts, slowest, sum, tail, over);
  }
};
} // namespace

static Known knownOf(const StepWork &step) {
  Known known;
  PipelineFacts &facts = known.facts;
  facts.schedule = step.schedule;
  facts.stages = int64_t(step.stages.size());
  facts.microBatches = step.microBatches;
  facts.chunks = step.chunks;
  facts.setSends(step.sendSec);
  facts.bubble = step.bubble;
  facts.mostForward = facts.mostBackward = facts.mostWeight = 0;
  facts.firstChunkSec = 1e9;
  for (const StageWork &stage : step.stages) {
    Stage own = stageOf(step, stage);
    known.slowest = std::max(known.slowest, own.sec);
    known.sum += own.sec;
    facts.mostForward = std::max(facts.mostForward, own.forward / own.sec);
    facts.mostBackward = std::max(facts.mostBackward, own.backward / own.sec);
    facts.mostWeight = std::max(facts.mostWeight, own.weight / own.sec);
    facts.mostHeld = std::max(facts.mostHeld, 1 - own.work / own.sec);
    facts.mostEnds = std::max(facts.mostEnds, own.ends / own.sec);
    facts.deferredSec += own.put;
    const ChunkWork &first = stage.chunks.front();
    facts.firstChunkSec =
        std::min(facts.firstChunkSec, first.forwardSec + first.backwardSec);
  }
  const StageWork &first = step.stages.front();
  known.tail = (1 - step.gradientOverlap) * first.gradientSyncSec +
               (1 - step.updatedOverlap) * first.weightGatherSec +
               first.updateSec;
  return known;
}

// No step that is simulated is faster, whatever its stages, messages and data
// traffic are, and for nearly equal stages it is near.
TEST(PipelineBoundTest, HoldsForTheTimeline) {
  Draw draw;
  for (int round = 0; round < 40000; ++round) {
    StepWork step = draw.step(kinds[round % kinds.size()]);
    ASSERT_EQ(step.check(), "");
    double sec = simulate(step).totalSec;
    Known known = knownOf(step);
    double bound = known.bound(BoundOver::These);
    ASSERT_LE(bound, sec * (1 + 1e-9))
        << nameOf(step.schedule).str() << " p " << step.stages.size() << " m "
        << step.microBatches << " v " << step.chunks << " round " << round;
    ASSERT_LE(known.bound(BoundOver::Slower), bound * (1 + 1e-9));
    ASSERT_GE(bound, 0.3 * sec);
  }
}

// Nor does any stage of a step that is simulated take longer than it may.
TEST(PipelineBoundTest, HoldsForEachStage) {
  Draw draw;
  for (int round = 0; round < 40000; ++round) {
    StepWork step = draw.step(kinds[round % kinds.size()]);
    double sec = simulate(step).totalSec;
    Known known = knownOf(step);
    for (auto [index, stage] : llvm::enumerate(step.stages))
      if (step.stages.size() > 1)
        ASSERT_GE(longestStageSec(known.facts, int64_t(index), sec * (1 + 1e-9),
                                  known.sum, known.tail),
                  stageOf(step, stage).sec * (1 - 1e-9))
            << nameOf(step.schedule).str() << " p " << step.stages.size()
            << " m " << step.microBatches << " stage " << index << " round "
            << round;
  }
}

// Even stages with free messages are met but for the part of ZB-H1's bubble
// that depends on where the slowest stage is.
TEST(PipelineBoundTest, MeetsEvenStages) {
  for (ScheduleKind kind : kinds)
    for (int64_t p : {1, 2, 4, 8})
      for (int64_t rounds : {2, 3, 8}) {
        StepWork step;
        step.schedule = kind;
        step.microBatches = p * rounds;
        step.chunks = kind == ScheduleKind::Interleaved ? 3 : 1;
        StageWork stage;
        stage.chunks.assign(size_t(step.chunks), {1, 2, 1});
        stage.updateSec = 0.5;
        step.stages.assign(size_t(p), stage);
        double sec = simulate(step).totalSec;
        double slack = kind == ScheduleKind::ZeroBubble ? 1 : 0;
        EXPECT_NEAR(knownOf(step).bound(BoundOver::These), sec, slack + 1e-9)
            << nameOf(kind).str() << " p " << p << " rounds " << rounds;
      }
}

// The bound grows with what is known: a search puts in what times are at least.
TEST(PipelineBoundTest, GrowsWithTimes) {
  Draw draw;
  for (int round = 0; round < 4000; ++round) {
    Known known = knownOf(draw.step(kinds[round % kinds.size()]));
    double bound = known.bound(BoundOver::These);
    double slower = known.bound(BoundOver::Slower);
    known.sum *= 1 + draw.uniform(0, 0.1);
    EXPECT_LE(bound, known.bound(BoundOver::These) * (1 + 1e-12));
    known.slowest *= 1 + draw.uniform(0, 0.1);
    EXPECT_LE(slower, known.bound(BoundOver::Slower) * (1 + 1e-12));
    EXPECT_LE(slower, known.bound(BoundOver::These) * (1 + 1e-12));
  }
}

// Four unlike stages: 1F1B takes 29 s, for the slow ones begin.
TEST(PipelineBoundTest, SlowStagesFirst) {
  StepWork step;
  step.microBatches = 8;
  for (double sec : {3, 3, 2, 2})
    step.stages.push_back({{{sec / 3, 2 * sec / 3, 0}}, 0, 0, 0});
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 29);
  EXPECT_DOUBLE_EQ(knownOf(step).bound(BoundOver::These), 29);
}
