//===- EvaluateTest.cpp - plans that are given, by hand -------------------===//

#include "SearchTesting.h"

#include "kerf/Search/Pins.h"

#include "gtest/gtest.h"

using namespace kerf;
using namespace kerf::search_testing;

namespace {

PlanPoint pinned(Instance &instance, llvm::StringRef text) {
  std::vector<std::string> errors;
  instance.problem.pins = parsePins(text, errors);
  std::optional<PlanPoint> plan = evaluatePinned(instance.problem, errors);
  EXPECT_TRUE(plan.has_value());
  for (const std::string &error : errors)
    ADD_FAILURE() << error;
  return plan ? *plan : PlanPoint();
}

/// What the closed form says of the only plan that pins leave, as a part of
/// what the timeline says.
double closedFormPart(Instance &instance, const std::string &text) {
  std::vector<std::string> errors;
  instance.problem.pins = parsePins(text, errors);
  SearchResult result = search(instance.problem);
  EXPECT_TRUE(errors.empty() && result.best) << text;
  return result.best ? result.certificate.bestSec / result.best->stepSec : 0;
}

// In ZB-H1 few micro-batches wait for few messages.
TEST(Search, ClosedFormKnowsSlowLinks) {
  for (int64_t microBatches : {1, 2, 3, 4, 8, 16}) {
    auto instance = handInstance();
    SearchProblem &problem = instance->problem;
    problem.runs = {{1, 4}};
    problem.hasEmbedding = problem.hasHead = false;
    problem.batch = microBatches;
    instance->machine.tiers[0].latencySec = 0;
    instance->machine.tiers[0].bytesPerSec = 1e8 / 0.8 / 4e-4;
    double part = closedFormPart(
        *instance,
        "tp=1,cp=1,ep=1,dp=1,pp=4,mb=1,recompute=none,schedule=zb-h1");
    EXPECT_NEAR(part, 1, 0.02) << microBatches;
  }
}

// Where stages wait for a backward pass, sums of gradients come behind it.
TEST(Search, PipelinesHideNoSumsOfGradients) {
  auto instance = handInstance();
  instance->machine.device.memoryBytes = 1e15;
  double overlap = instance->problem.profile.gradientOverlap;
  EXPECT_GT(overlap, 0);
  auto hidden = [&](const std::string &pins) {
    return pinned(*instance, "tp=1,cp=1,ep=1,mb=1," + pins)
        .work.gradientOverlap;
  };
  EXPECT_EQ(hidden("dp=4,pp=2,zero=0,schedule=1f1b"), 0);
  EXPECT_EQ(hidden("dp=4,pp=2,zero=0,schedule=zb-h1"), overlap);
  EXPECT_EQ(hidden("dp=8,pp=1,zero=0"), overlap);
  EXPECT_EQ(hidden("dp=4,pp=2,zero=2,schedule=1f1b"), overlap);
  instance->problem.profile.fused = false;
  EXPECT_EQ(hidden("dp=4,pp=2,zero=0,schedule=1f1b"), overlap);
}

// Gradients of a large embedding: the first stage is late, not the mean one.
TEST(Search, ClosedFormKnowsLargeEmbeddings) {
  auto instance = handInstance();
  instance->tables->kinds[0].denseElements = 1e10;
  instance->machine.device.memoryBytes = 1e15;
  double part = closedFormPart(
      *instance, "tp=1,cp=1,ep=1,dp=4,pp=2,mb=1,zero=0,schedule=1f1b");
  EXPECT_NEAR(part, 1, 0.05);
}

// One device: 8 micro-batches of (4 x 1 ms + 0.5 ms) x 3. Memory: 5e8 elements
// of 18 bytes, one micro-batch of 5 x 1e8 + 4 x 1e9 saved... by hand.
TEST(EvaluatePinned, OneDevice) {
  auto instance = handInstance();
  PlanPoint plan = pinned(*instance, "dp=1,mb=1,m=8,recompute=none");
  EXPECT_NEAR(plan.stepSec, 8 * 3 * 4.5e-3, 1e-9);
  ASSERT_EQ(plan.stages.size(), 1u);
  const StageMemory &memory = plan.stages[0].memory;
  EXPECT_DOUBLE_EQ(memory.weights, 5e8 * 2);
  EXPECT_DOUBLE_EQ(memory.masters, 5e8 * 4);
  EXPECT_DOUBLE_EQ(memory.gradients, 5e8 * 4);
  EXPECT_DOUBLE_EQ(memory.optimizer, 5e8 * 8);
  EXPECT_DOUBLE_EQ(memory.activations, 4 * 1.1e9);
  EXPECT_DOUBLE_EQ(memory.temporaries, 2e8);
  EXPECT_DOUBLE_EQ(memory.communication, 0);
}

// A pipeline of two stages: (m - 1) x the slower (2 layers and the head) +
// both; two micro-batches in flight on the first stage, one on the last.
TEST(EvaluatePinned, TwoStages) {
  auto instance = handInstance();
  instance->machine.tiers[0].latencySec = 0;
  instance->machine.tiers[0].bytesPerSec = 1e30;
  PlanPoint plan = pinned(*instance, "pp=2,dp=1,mb=1,m=8,recompute=full");
  // Everything is recomputed: 4 forwards' worth per layer.
  double first = 2 * 4e-3, last = 2 * 4e-3 + 3 * 0.5e-3;
  EXPECT_NEAR(plan.stepSec, 7 * last + first + last, 1e-4 * plan.stepSec);
  EXPECT_DOUBLE_EQ(plan.stages[0].memory.activations, 2 * 2 * 1e8);
  EXPECT_DOUBLE_EQ(plan.stages[1].memory.activations, 2 * 1e8);
  EXPECT_DOUBLE_EQ(plan.stages[0].memory.weights, 2.5e8 * 2);
}

// Kernels that take less time than their launches: a device of a higher rate
// makes no step slower. Weight gradients fill the bubble, and are launched too.
TEST(EvaluatePlan, MoreRateIsNeverSlowerThanLaunches) {
  auto instance = handInstance();
  PlanPoint plan =
      pinned(*instance, "pp=2,dp=1,mb=1,m=8,schedule=zb-h1,recompute=none");
  instance->machine.device.launchSec = 1e-3;
  double before = HUGE_VAL;
  for (int halvings = 0; halvings < 8; ++halvings) {
    double sec =
        evaluatePlan(instance->problem, plan.outer, plan.stages).stepSec;
    EXPECT_LE(sec, before * (1 + 1e-9)) << halvings;
    before = sec;
    for (PlacedStage &stage : plan.stages)
      for (PlacedLayers &layers : stage.chunks.front().layers) {
        layers.point.kernels = layers.kind == 1 ? 3 : 0;
        layers.point.forward.matmulSec /= 2;
        layers.point.backward.matmulSec /= 2;
        layers.point.weightGradientSec /= 2;
      }
  }
}

// Each rank of experts is connected to all others where rows are exchanged, not
// where they might be.
TEST(EvaluatePlan, ReservesConnectionsThatAreUsed) {
  auto instance = handInstance();
  PlanPoint plan = pinned(*instance, "dp=4,ep=4,mb=1,m=2,recompute=none");
  instance->problem.exchangesRows = true;
  instance->machine.device.connectionBytes = 1e8;
  auto reserved = [&] {
    return evaluatePlan(instance->problem, plan.outer, plan.stages)
        .stages[0]
        .memory.reserved;
  };
  // All ranks, data ranks, expert ranks.
  EXPECT_DOUBLE_EQ(reserved(), 3e8);
  plan.stages[0].chunks[0].layers[1].point.exchangesRows = true;
  EXPECT_DOUBLE_EQ(reserved(), 5e8);
}

// ZeRO cuts class by class over the data ranks; with sharding over a part of
// them, by so much less.
TEST(EvaluatePinned, ZeroCutsState) {
  auto instance = handInstance();
  auto memory = [&](llvm::StringRef text) {
    return pinned(*instance, text).stages[0].memory;
  };
  StageMemory zero0 = memory("dp=8,mb=1,zero=0");
  StageMemory zero1 = memory("dp=8,mb=1,zero=1");
  StageMemory zero2 = memory("dp=8,mb=1,zero=2");
  StageMemory zero3 = memory("dp=8,mb=1,zero=3");
  StageMemory half = memory("dp=8,mb=1,zero=3,shard=4");
  EXPECT_DOUBLE_EQ(zero1.optimizer, zero0.optimizer / 8);
  EXPECT_DOUBLE_EQ(zero1.masters, zero0.masters / 8);
  EXPECT_DOUBLE_EQ(zero1.gradients, zero0.gradients);
  EXPECT_DOUBLE_EQ(zero2.gradients, zero0.gradients / 8);
  EXPECT_DOUBLE_EQ(zero2.weights, zero0.weights);
  EXPECT_DOUBLE_EQ(zero3.weights, zero0.weights / 8);
  EXPECT_DOUBLE_EQ(half.weights, zero0.weights / 4);
  // Two layers' weights and a gradient are whole while they are used.
  EXPECT_DOUBLE_EQ(zero3.communication, 3 * 1e8 * 2);
}

// Traffic of gradients and weights, against the collectives one by one.
TEST(EvaluatePinned, DataTraffic) {
  auto instance = handInstance();
  const Machine &machine = instance->machine;
  const Profile &profile = instance->problem.profile;
  double gradients = 5e8 * 4, weights = 5e8 * 2;
  Group all{8, 1};
  auto work = [&](llvm::StringRef text) {
    return pinned(*instance, text).work.stages[0];
  };
  StageWork zero0 = work("dp=8,mb=1,zero=0");
  EXPECT_NEAR(zero0.gradientSyncSec,
              allReduceSec(machine, profile, all, gradients), 1e-6);
  EXPECT_EQ(zero0.weightGatherSec, 0);
  StageWork zero1 = work("dp=8,mb=1,zero=1");
  EXPECT_NEAR(zero1.gradientSyncSec,
              reduceScatterSec(machine, profile, all, gradients), 1e-6);
  EXPECT_NEAR(zero1.weightGatherSec,
              allGatherSec(machine, profile, all, weights), 1e-6);
  StageWork zero3 = work("dp=8,mb=1,zero=3");
  EXPECT_EQ(zero3.gradientSyncSec, 0);
  EXPECT_EQ(zero3.weightGatherSec, 0);
  // 4 layers, embedding and head are gathered one by one.
  EXPECT_NEAR(zero3.chunks[0].forwardGatherSec,
              4 * allGatherSec(machine, profile, all, 2e8) +
                  2 * allGatherSec(machine, profile, all, 1e8),
              1e-5);
  // No gradient reads a table, and the head's follows its forward pass.
  EXPECT_NEAR(zero3.chunks[0].backwardGatherSec,
              4 * allGatherSec(machine, profile, all, 2e8), 1e-5);
  EXPECT_NEAR(zero3.chunks[0].gradientSec,
              4 * reduceScatterSec(machine, profile, all, 4e8) +
                  2 * reduceScatterSec(machine, profile, all, 2e8),
              1e-5);
  // Hybrid: scattered over 4, the shards added up over the other 2.
  StageWork hybrid = work("dp=8,mb=1,zero=1,shard=4");
  EXPECT_NEAR(hybrid.gradientSyncSec,
              reduceScatterSec(machine, profile, {4, 1}, gradients) +
                  allReduceSec(machine, profile, {2, 4}, gradients / 4),
              1e-6);
}

// A parameter that embedding and head share is held once on one stage, and
// twice, with its gradients added up, on two.
TEST(EvaluatePinned, TiedEmbedding) {
  auto instance = handInstance();
  instance->tables->kinds[2].sharedElements = 4e7;
  PlanPoint alone = pinned(*instance, "dp=1,mb=1,m=8");
  EXPECT_DOUBLE_EQ(alone.stages[0].memory.weights, (5e8 - 4e7) * 2);
  PlanPoint two = pinned(*instance, "pp=2,dp=1,mb=1,m=8");
  EXPECT_DOUBLE_EQ(two.stages[1].memory.weights, 2.5e8 * 2);
  // One message each way, at the same time.
  EXPECT_NEAR(
      two.work.stages[0].gradientSyncSec,
      messageCost(instance->machine, instance->problem.profile, 0)(4e7 * 4),
      1e-12);
}

// Bounds, overlap and accumulation of a runtime's profile.
TEST(EvaluatePinned, Profile) {
  auto instance = handInstance();
  Profile &profile = instance->problem.profile;
  profile.leastForwardSec = 2e-3;
  profile.leastBackwardSec = 5e-3;
  profile.fused = false;
  profile.accumulateBytes = 8;
  profile.stepSec = 0.25;
  PlanPoint plan = pinned(*instance, "dp=1,mb=1,m=8,recompute=none");
  double layers = 4 * 7e-3, head = 1.5e-3, accumulate = 8 * 5e8 / 2e12;
  EXPECT_NEAR(plan.stepSec, 0.25 + 8 * (layers + head + accumulate), 1e-9);
  // What is recomputed is launched again.
  plan = pinned(*instance, "dp=1,mb=1,m=8,recompute=full");
  EXPECT_NEAR(plan.stepSec, 0.25 + 8 * (4 * 9e-3 + head + accumulate), 1e-9);
  profile.logitBytes = 16;
  instance->problem.vocabulary = 1000;
  double before = plan.stages[0].memory.temporaries;
  plan = pinned(*instance, "dp=1,mb=2,m=4,recompute=full");
  EXPECT_DOUBLE_EQ(plan.stages[0].memory.temporaries,
                   2 * before + 16.0 * 2 * 128 * 1000);
}

// A plan that does not fit is costed all the same; its memory says so.
TEST(EvaluatePinned, TooLargeIsCosted) {
  auto instance = handInstance();
  instance->machine.device.memoryBytes = 5e9;
  PlanPoint plan = pinned(*instance, "dp=1,mb=1,m=8");
  EXPECT_FALSE(fits(instance->problem, plan));
  EXPECT_GT(plan.stepSec, 0);
  // It comes closest with everything recomputed.
  EXPECT_DOUBLE_EQ(plan.stages[0].memory.activations, 4 * 1e8);
}

// Everything that cannot be is told at once.
TEST(EvaluatePinned, ListsErrors) {
  auto instance = handInstance();
  std::vector<std::string> errors;
  instance->problem.pins =
      parsePins("tp=1|2,dp=3,mb=1,m=3,pp=2,ep=2,layers=1.2", errors);
  EXPECT_FALSE(evaluatePinned(instance->problem, errors).has_value());
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_EQ(errors[0], "'tp' is not fixed: found 2 values");
  EXPECT_EQ(errors[1],
            "dp 3 x mb 1 x m 3 = 9 sequences, expected the batch, 8");
  EXPECT_EQ(errors[2], "ep=2 does not divide dp=3");
  EXPECT_EQ(errors[3], "'layers' has 3 layers on 2 stages, expected 4 on 2");
}

} // namespace
