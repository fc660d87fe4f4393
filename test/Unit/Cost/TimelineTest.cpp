#include "kerf/Cost/Timeline.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace kerf;

static const std::vector<ScheduleKind> kinds = allSchedules();

/// Equal stages; a chunk takes `forward` and `backward` seconds, of which
/// `weight` may be deferred.
static StepWork evenStep(ScheduleKind kind, int64_t stages,
                         int64_t microBatches, int64_t chunks, double forward,
                         double backward, double weight) {
  StepWork step;
  step.schedule = kind;
  step.microBatches = microBatches;
  step.chunks = chunks;
  ChunkWork chunk;
  chunk.forwardSec = forward;
  chunk.backwardSec = backward;
  chunk.weightGradientSec = weight;
  StageWork stage;
  stage.chunks.assign(size_t(chunks), chunk);
  step.stages.assign(size_t(stages), stage);
  return step;
}

namespace {
struct Draw {
  std::mt19937 random{11};
  double uniform(double from, double to) {
    return from + (to - from) * (random() / 4294967296.0);
  }
  int64_t upTo(int64_t most) { return 1 + int64_t(random() % most); }

  /// A size at which `kind` can be simulated.
  StepWork sizes(ScheduleKind kind) {
    StepWork step;
    step.schedule = kind;
    step.stages.resize(size_t(upTo(6)));
    step.microBatches = upTo(14);
    if (kind == ScheduleKind::ZeroBubble)
      step.defer = upTo(8) - 2;
    if (kind == ScheduleKind::Interleaved) {
      step.chunks = upTo(4);
      step.microBatches = upTo(4) * int64_t(step.stages.size());
    }
    return step;
  }

  /// Everything uneven; with `traffic`, links are busy too.
  StepWork step(ScheduleKind kind, bool traffic) {
    StepWork step = sizes(kind);
    if (random() % 2)
      for (size_t border = 0; border < step.stages.size(); ++border)
        step.sendSec.push_back(random() % 2 ? uniform(0, 0.5) : 0.01);
    step.gradientOverlap = uniform(0, 1);
    step.weightOverlap = uniform(0, 1);
    step.updatedOverlap = uniform(0, 1);
    step.bubble = uniform(0.5, 1.5);
    step.constantSec = uniform(0, 1);
    for (StageWork &stage : step.stages) {
      for (int64_t c = 0; c < step.chunks; ++c)
        stage.chunks.push_back(chunk(traffic));
      stage.gradientSyncSec = uniform(0, 5);
      stage.updateSec = uniform(0, 1);
      stage.weightGatherSec = uniform(0, 3);
    }
    return step;
  }

  ChunkWork chunk(bool traffic) {
    ChunkWork chunk;
    chunk.forwardSec = uniform(0.1, 2);
    chunk.backwardSec = uniform(0.1, 4);
    chunk.weightGradientSec = chunk.backwardSec * uniform(0, 1);
    if (traffic) {
      chunk.forwardGatherSec = uniform(0, 1);
      chunk.backwardGatherSec = uniform(0, 1);
      chunk.gradientSec = uniform(0, 1);
    }
    return chunk;
  }
};
} // namespace

// One micro-batch goes through two stages and back:
//   F0 0..1, send, F1 1.5..2.5, B1 2.5..4.5, send, B0 5..7.
TEST(TimelineTest, OneMicroBatch) {
  StepWork step = evenStep(ScheduleKind::OneFOneB, 2, 1, 1, 1, 2, 1);
  step.sendSec = {0.5, 0.5};
  Timeline timeline = simulate(step, true);
  EXPECT_DOUBLE_EQ(timeline.totalSec, 7);
  EXPECT_DOUBLE_EQ(timeline.bubbleSec, 4);
  ASSERT_EQ(timeline.events.size(), 6u);
  EXPECT_EQ(timeline.events[1].kind, EventKind::Send);
  EXPECT_DOUBLE_EQ(timeline.events[1].endSec, 1.5);
}

// Sends of a stage leave one after the other. With messages of 3 seconds, three
// forwards of 1 reach the second stage at 4, 7 and 10, so they are done at 11;
// its backwards end at 12, 13 and 14 and arrive at 15, 18 and 21.
TEST(TimelineTest, SendsShareTheLink) {
  StepWork step = evenStep(ScheduleKind::GPipe, 2, 3, 1, 1, 1, 0);
  step.sendSec = {3, 3};
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 22);
}

// Three stages, the first border at 1 second, the second at 4; interleaved
// chunks go back to the first stage over the last border, at 2. The first
// micro-batch is through its chunks of the second stage at 3 and 13, where its
// message waits for those of the two other micro-batches, 4 seconds each, until
// 15; it arrives at 19.
TEST(TimelineTest, BordersHaveTheirOwnTimes) {
  StepWork step = evenStep(ScheduleKind::Interleaved, 3, 3, 2, 1, 1, 0);
  step.sendSec = {1, 4, 2};
  EXPECT_DOUBLE_EQ(step.journeySec(), 12);
  Timeline timeline = simulate(step, true);
  double first = 0;
  for (const Event &event : timeline.events)
    if (event.kind == EventKind::Forward && event.microBatch == 0)
      first = std::max(first, event.endSec);
  EXPECT_DOUBLE_EQ(first, 20);
  step.sendSec = {1, 4};
  EXPECT_EQ(step.check(), "2 times of messages between 3 stages");
}

// The published times of even stages: (m + p - 1)(f + b) for GPipe and 1F1B, a
// bubble divided by the chunks for interleaving (Narayanan et al. 2021), and
// (p - 1)(F + B - W) of bubble for ZB-H1 with F = B = W (Qi et al. 2023).
TEST(TimelineTest, PublishedTimes) {
  for (int64_t p : {1, 2, 3, 4, 8})
    for (int64_t rounds : {1, 2, 3, 7}) {
      double m = double(p * rounds);
      for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB})
        EXPECT_NEAR(
            simulate(evenStep(kind, p, p * rounds, 1, 1, 2, 1)).totalSec,
            3 * (m + p - 1), 1e-9);
      for (int64_t v : {1, 2, 3}) {
        StepWork step =
            evenStep(ScheduleKind::Interleaved, p, p * rounds, v, 1, 2, 1);
        EXPECT_NEAR(simulate(step).totalSec, 3 * (m * v + p - 1), 1e-9);
      }
      StepWork step =
          evenStep(ScheduleKind::ZeroBubble, p, p * rounds, 1, 1, 2, 1);
      EXPECT_NEAR(simulate(step).totalSec, 3 * m + p - 1, 1e-9);
    }
}

// Even stages with free sends: the closed form is the simulated time.
TEST(TimelineTest, ClosedFormOfEvenStages) {
  Draw draw;
  for (int round = 0; round < 2000; ++round) {
    ScheduleKind kind = kinds[round % kinds.size()];
    StepWork sizes = draw.sizes(kind);
    double backward = draw.uniform(0.1, 4);
    StepWork step = evenStep(
        kind, int64_t(sizes.stages.size()), sizes.microBatches, sizes.chunks,
        draw.uniform(0.1, 3), backward, backward * draw.uniform(0, 1));
    step.bubble = draw.uniform(0.5, 1.5);
    for (StageWork &stage : step.stages) {
      stage.gradientSyncSec = 2;
      stage.updateSec = 0.5;
      stage.weightGatherSec = 1;
    }
    EXPECT_NEAR(closedFormSec(step), simulate(step).totalSec, 1e-9)
        << nameOf(kind).str() << " p " << step.stages.size() << " m "
        << step.microBatches << " v " << step.chunks << " f "
        << step.stages[0].chunks[0].forwardSec << " b " << backward << " w "
        << step.stages[0].chunks[0].weightGradientSec;
  }
}

// A stage waits for the round trip behind it after its first forwards and again
// before its last backwards. Forward and backward take 4 s each in the first
// stage and 3 s in the second: F0 F1, 2 s later B0, then back to back until B2;
// B3 is 2 s late, too.
TEST(TimelineTest, ClosedFormHasBothWaits) {
  StepWork step = evenStep(ScheduleKind::OneFOneB, 2, 4, 1, 4, 4, 0);
  step.stages[1].chunks[0].forwardSec = 3;
  step.stages[1].chunks[0].backwardSec = 3;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 4 * 8 + 2 + 2);
  EXPECT_DOUBLE_EQ(closedFormSec(step), 4 * 8 + 2 + 2);
}

// It is never above the simulated time, however uneven the stages and however
// busy the links.
TEST(TimelineTest, ClosedFormIsALowerBound) {
  Draw draw;
  for (int round = 0; round < 6000; ++round) {
    StepWork step = draw.step(kinds[round % kinds.size()], round % 8 < 4);
    ASSERT_EQ(step.check(), "");
    double sec = simulate(step).totalSec;
    EXPECT_LE(closedFormSec(step), sec * (1 + 1e-12))
        << nameOf(step.schedule).str() << " round " << round;
    EXPECT_GE(closedFormSec(step), 0.2 * sec);
  }
}

/// Largest number of forwards whose backward (in ZB-H1: weight gradient) has
/// not come, counted along the order.
static int64_t countInFlight(const std::vector<Task> &order, bool split) {
  int64_t now = 0, most = 0;
  EventKind release = split ? EventKind::WeightGradient : EventKind::Backward;
  for (const Task &task : order) {
    now += task.kind == EventKind::Forward;
    now -= task.kind == release;
    most = std::max(most, now);
  }
  return most;
}

/// Micro-batches between two tasks of a stage with one chunk, at most.
static double countBetween(llvm::ArrayRef<Task> order, EventKind first,
                           EventKind last) {
  double now = 0, most = 0;
  for (const Task &task : order) {
    now += task.kind == first;
    most = std::max(most, now);
    now -= task.kind == last;
  }
  return most;
}

// ZB-H1 keeps apart what the backward pass reads, what weight gradients read
// and what the one hands to the other.
TEST(TimelineTest, PartsInFlight) {
  for (int64_t p : {1, 2, 4, 7})
    for (int64_t m : {1, 2, 4, 5, 16})
      for (int64_t n = 0; n < 3 * p; ++n) {
        int64_t i = n % p, defer = kDeferAll + n / p;
        Pipelining own = {ScheduleKind::ZeroBubble, p, m, 1, defer};
        auto order = stageOrder(own, i);
        HeldParts parts = partsInFlight(own, i);
        EXPECT_EQ(parts.early,
                  countBetween(order, EventKind::Forward, EventKind::Backward));
        EXPECT_EQ(parts.late, countBetween(order, EventKind::Forward,
                                           EventKind::WeightGradient));
        EXPECT_EQ(parts.handed, countBetween(order, EventKind::Backward,
                                             EventKind::WeightGradient));
        own.schedule = ScheduleKind::OneFOneB;
        HeldParts others = partsInFlight(own, i);
        EXPECT_EQ(others.early, others.late);
        EXPECT_EQ(others.handed, 0);
      }
}

// What a stage holds is what its order says.
TEST(TimelineTest, ChunksInFlight) {
  Draw draw;
  for (int round = 0; round < 2000; ++round) {
    ScheduleKind kind = kinds[round % kinds.size()];
    StepWork step = draw.sizes(kind);
    int64_t p = int64_t(step.stages.size());
    for (int64_t i = 0; i < p; ++i) {
      auto order = stageOrder(step.pipelining(), i);
      EXPECT_EQ(chunksInFlight(step.pipelining(), i),
                countInFlight(order, kind == ScheduleKind::ZeroBubble));
    }
  }
  // 1F1B holds p - i, and ZB-H1 no more than its first stage (Qi et al. 2023).
  EXPECT_EQ(chunksInFlight({ScheduleKind::OneFOneB, 4, 16}, 0), 4);
  EXPECT_EQ(chunksInFlight({ScheduleKind::OneFOneB, 4, 16}, 3), 1);
  EXPECT_EQ(chunksInFlight({ScheduleKind::ZeroBubble, 4, 16}, 3), 4);
  EXPECT_EQ(chunksInFlight({ScheduleKind::ZeroBubble, 4, 16, 1, 1}, 3), 2);
  // Korthikanti et al. 2022: p (1 + (p - 1) / (p v)) layers' worth, times v.
  EXPECT_EQ(chunksInFlight({ScheduleKind::Interleaved, 4, 16, 2}, 0),
            4 * 2 + 3);
}

using Key =
    std::tuple<EventKind, int, int, int64_t>; // kind, stage, chunk, micro

/// Compute events by what they are; fails on a task that runs twice.
static std::map<Key, Event> tasksOf(const Timeline &timeline) {
  std::map<Key, Event> tasks;
  for (const Event &event : timeline.events)
    if (event.engine == Engine::Compute && event.microBatch >= 0)
      EXPECT_TRUE(tasks
                      .emplace(Key(event.kind, event.stage, event.chunk,
                                   event.microBatch),
                               event)
                      .second);
  return tasks;
}

/// Events of one engine of one stage come one after the other.
static void expectExclusive(const Timeline &timeline) {
  std::map<std::pair<int, Engine>, double> busyUntil;
  for (const Event &event : timeline.events) {
    double &until = busyUntil[{event.stage, event.engine}];
    EXPECT_GE(event.startSec, until - 1e-9);
    EXPECT_GE(event.endSec, event.startSec);
    until = std::max(until, event.endSec);
  }
}

/// A forward comes after the one of the layers before, a backward after the one
/// of the layers behind and its own forward, each a message later.
static void expectDependencies(const StepWork &step,
                               const std::map<Key, Event> &tasks) {
  int p = int(step.stages.size()), last = p * int(step.chunks) - 1;
  // Of the border behind a chunk.
  auto send = [&](int s) {
    return p > 1 ? step.sendOver(static_cast<size_t>(s % p)) : 0;
  };
  for (int64_t m = 0; m < step.microBatches; ++m)
    for (int s = 0; s <= last; ++s) {
      auto at = [&](EventKind kind, int s) {
        return tasks.at({kind, s % p, s / p, m});
      };
      Event forward = at(EventKind::Forward, s);
      Event backward = at(EventKind::Backward, s);
      EXPECT_GE(backward.startSec, forward.endSec - 1e-9);
      if (s > 0)
        EXPECT_GE(forward.startSec,
                  at(EventKind::Forward, s - 1).endSec + send(s - 1) - 1e-9);
      if (s < last)
        EXPECT_GE(backward.startSec,
                  at(EventKind::Backward, s + 1).endSec + send(s) - 1e-9);
      if (step.schedule == ScheduleKind::ZeroBubble)
        EXPECT_GE(at(EventKind::WeightGradient, s).startSec,
                  backward.endSec - 1e-9);
    }
}

// Whatever the size: every task runs once, nothing comes before what it needs,
// no engine does two things at a time, and no step beats its busiest stage.
TEST(TimelineTest, RandomSteps) {
  Draw draw;
  for (int round = 0; round < 800; ++round) {
    StepWork step = draw.step(kinds[round % kinds.size()], round % 8 < 4);
    Timeline timeline = simulate(step, true);
    auto tasks = tasksOf(timeline);
    size_t perChunk = step.schedule == ScheduleKind::ZeroBubble ? 3 : 2;
    ASSERT_EQ(tasks.size(), perChunk * step.stages.size() *
                                size_t(step.chunks * step.microBatches));
    expectExclusive(timeline);
    expectDependencies(step, tasks);
    for (double busy : timeline.busySec)
      EXPECT_GE(timeline.totalSec, busy);
    // The quick way gives the same.
    EXPECT_EQ(simulate(step).totalSec, timeline.totalSec);
  }
}

// A stage computes as long as its work says, and idle time is what is left
// over.
TEST(TimelineTest, TimesAddUp) {
  Draw draw;
  for (int round = 0; round < 400; ++round) {
    StepWork step = draw.step(kinds[round % kinds.size()], true);
    Timeline timeline = simulate(step, true);
    double end = 0, own = 0;
    for (const Event &event : timeline.events)
      end = std::max(end, event.endSec);
    for (size_t s = 0; s < step.stages.size(); ++s) {
      double busy = step.stages[s].updateSec;
      for (const ChunkWork &chunk : step.stages[s].chunks)
        busy += step.microBatches * (chunk.forwardSec + chunk.backwardSec);
      EXPECT_NEAR(timeline.busySec[s], busy, 1e-9);
      EXPECT_GE(timeline.exposedDataSec[s], -1e-9);
      own = std::max(own, busy + timeline.exposedDataSec[s]);
    }
    EXPECT_NEAR(timeline.bubbleSec, step.bubble * (end - own), 1e-9);
    EXPECT_NEAR(timeline.totalSec, own + timeline.bubbleSec + step.constantSec,
                1e-9);
  }
}

// One stage, one micro-batch, half of the traffic hidden: the gather of 2 holds
// up the forward for 1 (1..2), that of 2 the backward (3..5), gradients of 2
// leave until 6, the sync of 4 until 10, half of it would have been hidden but
// the link was busy; update 10..11, weights of 6: the next forward of 1
// hides 1.
TEST(TimelineTest, DataTraffic) {
  StepWork step = evenStep(ScheduleKind::OneFOneB, 1, 1, 1, 1, 2, 0);
  step.stages[0].chunks[0].forwardGatherSec = 2;
  step.stages[0].chunks[0].backwardGatherSec = 2;
  step.stages[0].chunks[0].gradientSec = 2;
  step.stages[0].gradientSyncSec = 4;
  step.stages[0].updateSec = 1;
  step.stages[0].weightGatherSec = 6;
  Timeline timeline = simulate(step);
  EXPECT_DOUBLE_EQ(timeline.totalSec, 17);
  EXPECT_DOUBLE_EQ(timeline.busySec[0], 4);
  EXPECT_DOUBLE_EQ(timeline.exposedDataSec[0], 13);
  EXPECT_DOUBLE_EQ(timeline.bubbleSec, 0);
}

// Gradient sync hides beside the last backward, at most as long as that lasts.
TEST(TimelineTest, GradientSyncHides) {
  StepWork step = evenStep(ScheduleKind::OneFOneB, 1, 4, 1, 1, 2, 0);
  step.stages[0].gradientSyncSec = 3;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 12 + 1.5);
  step.stages[0].gradientSyncSec = 10;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 12 + 8);
  step.gradientOverlap = step.weightOverlap = 0;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 12 + 10);
}

// Weights that the update has made are waited for, unless a runtime gathers
// them beside its next step.
TEST(TimelineTest, UpdatedWeights) {
  StepWork step = evenStep(ScheduleKind::OneFOneB, 1, 4, 1, 1, 2, 0);
  step.stages[0].weightGatherSec = 1;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 12 + 1);
  step.updatedOverlap = 0.5;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 12 + 0.5);
  step.stages[0].weightGatherSec = 10;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 12 + 9);
  step.updatedOverlap = 1.5;
  EXPECT_EQ(step.check(), "the overlap of data traffic is not between 0 and 1");
}

// With all traffic hidden a step takes its compute or its traffic, not both.
TEST(TimelineTest, HiddenTraffic) {
  StepWork step = evenStep(ScheduleKind::OneFOneB, 1, 5, 1, 1, 2, 0);
  step.gradientOverlap = step.weightOverlap = 1;
  ChunkWork &chunk = step.stages[0].chunks[0];
  chunk.forwardGatherSec = 0.9;
  chunk.backwardGatherSec = 0.9;
  chunk.gradientSec = 0.9;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 15);
  chunk.gradientSec = 9;
  EXPECT_GE(simulate(step).totalSec, 5 * (0.9 + 0.9 + 9));
  EXPECT_LE(simulate(step).totalSec, 5 * (0.9 + 0.9 + 9) + 3);
  EXPECT_GE(closedFormSec(step), 5 * (0.9 + 0.9 + 9) - 1e-9);
  // A task is not over before its weights have come.
  step.microBatches = 1;
  chunk.forwardGatherSec = 5;
  chunk.backwardGatherSec = chunk.gradientSec = 0;
  EXPECT_DOUBLE_EQ(simulate(step).totalSec, 5 + 2);
  EXPECT_DOUBLE_EQ(simulate(step).exposedDataSec[0], 4);
}

// More traffic or slower sends never make a step faster.
TEST(TimelineTest, MonotoneInTraffic) {
  Draw draw;
  for (int round = 0; round < 1000; ++round) {
    StepWork step = draw.step(kinds[round % kinds.size()], true);
    step.bubble = 1;
    double sec = simulate(step).totalSec;
    StepWork more = step;
    StageWork &stage = more.stages[draw.random() % more.stages.size()];
    switch (draw.random() % 5) {
    case 0:
      more.sendSec.resize(more.stages.size(), 0);
      more.sendSec[draw.random() % more.sendSec.size()] += 0.3;
      break;
    case 1:
      stage.gradientSyncSec += 1;
      break;
    case 2:
      stage.weightGatherSec += 1;
      break;
    case 3:
      stage.chunks[0].gradientSec += 0.5;
      break;
    case 4:
      stage.updateSec += 1;
      break;
    }
    EXPECT_GE(simulate(more).totalSec, sec - 1e-9);
  }
}

// What cannot be simulated is said.
TEST(TimelineTest, Refusals) {
  StepWork step = evenStep(ScheduleKind::Interleaved, 4, 8, 2, 1, 2, 1);
  EXPECT_EQ(step.check(), "");
  step.microBatches = 6;
  EXPECT_EQ(step.check(),
            "interleaving needs micro-batches in multiples of the 4 "
            "stages, found 6");
  step.schedule = ScheduleKind::OneFOneB;
  EXPECT_EQ(step.check(), "2 chunks per stage, '1f1b' has 1");
  step.chunks = 1;
  EXPECT_EQ(step.check(), "a stage has 2 chunks, expected 1");
  step = evenStep(ScheduleKind::ZeroBubble, 4, 8, 1, 1, 2, 3);
  EXPECT_EQ(step.check(),
            "the weight gradient of a chunk takes longer than its backward");
  step = evenStep(ScheduleKind::GPipe, 4, 8, 1, -1, 2, 0);
  EXPECT_EQ(step.check(), "a time of a chunk is negative or not finite");
  step = evenStep(ScheduleKind::GPipe, 4, 0, 1, 1, 2, 0);
  EXPECT_EQ(step.check(), "no micro-batches");
  step.stages.clear();
  EXPECT_EQ(step.check(), "no stages");
  step = evenStep(ScheduleKind::GPipe, 1, 1, 1, 1, 2, 0);
  step.gradientOverlap = step.weightOverlap = 1.5;
  EXPECT_EQ(step.check(), "the overlap of data traffic is not between 0 and 1");
}

// Names of schedules are read as they are written.
TEST(TimelineTest, Names) {
  for (ScheduleKind kind : kinds)
    EXPECT_EQ(scheduleNamed(nameOf(kind)), kind);
  EXPECT_EQ(scheduleNamed("2f2b"), std::nullopt);
}
