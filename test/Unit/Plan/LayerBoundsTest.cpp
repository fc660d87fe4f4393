//===- LayerBoundsTest.cpp - bounds of tables against the tables ----------===//

#include "LayerTesting.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <random>

using namespace kerf;
using namespace kerf::layer_testing;

namespace {

// No point of a solved table is below what is known of it without solving it:
// neither its time for the parameters that it holds, nor that time without
// weight gradients, nor what it recomputes for the bytes that it keeps. The
// bounds are not idle: some points are near, on several axes too.
TEST(LayerBounds, HoldForSolvedTables) {
  int points = 0, near = 0, nearTogether = 0, nearRest = 0, sloped = 0;
  for (double slow : {2e10, 1e11})
    for (auto [d, f] : {std::pair<int64_t, int64_t>(1024, 4096), {512, 512}}) {
      StepModel step;
      step.batch = kBatch;
      step.sequence = kTokens;
      step.type = "bf16";
      step.kinds = {Builder(d, f).kind};
      step.runs = {{0, 4, 0}};
      Machine machine = twoTiers(slow);
      SolvedTables tables(LayerContext{&step, &machine, Profile()});
      std::mt19937 random(7);
      for (int tries = 0; tries < 60; ++tries) {
        auto pick = [&](int most) { return int64_t(1) << random() % most; };
        TableKey key;
        key.microBatch = pick(3);
        int64_t stride = 1;
        for (Group &group : key.groups) {
          int64_t size = pick(3);
          if (size > 1)
            group = {size, stride};
          stride *= size;
        }
        if (stride > 16)
          continue;
        KeptCurve kept = tables.lowerBoundKept(key);
        StateBound state = tables.lowerBoundState(key);
        sloped += state.seconds.size() > 1;
        for (const LayerPoint &point : tables.get(key).points) {
          ++points;
          double own = seconds(point.forward, point.backward);
          double least = at(state.seconds, point.denseElements);
          EXPECT_GE(own, least);
          EXPECT_GE(own, tables.lowerBoundSec(key));
          near += own < 1.2 * least;
          auto cut = [](const Group &group) { return group.size > 1; };
          nearTogether +=
              llvm::count_if(key.groups, cut) > 1 && own < 1.15 * least;
          double rest = own - point.weightGradientSec;
          EXPECT_GE(rest * (1 + 1e-9), state.restSec);
          nearRest += rest < 1.2 * state.restSec;
          EXPECT_GE(seconds(point.recompute, {}) * (1 + 1e-9),
                    at(kept, point.savedBytes));
          EXPECT_GE(point.savedBytes * (1 + 1e-9),
                    tables.lowerBoundSavedBytes(key));
          EXPECT_GE(point.denseElements * (1 + 1e-9), state.denseElements);
        }
      }
    }
  EXPECT_GT(points, 300);
  EXPECT_GT(near, 50);
  EXPECT_GT(nearTogether, 50);
  EXPECT_GT(nearRest, 50);
  EXPECT_GT(sloped, 20);
}

/// A key of random groups, or of one device more than there are.
TableKey randomKey(std::mt19937 &random, int64_t devices) {
  auto pick = [&](int most) { return int64_t(1) << random() % most; };
  TableKey key;
  key.microBatch = pick(3);
  int64_t stride = 1;
  for (Group &group : key.groups) {
    int64_t size = pick(3);
    if (size > 1)
      group = {size, stride};
    stride *= size;
  }
  if (stride > devices)
    key.microBatch = 0;
  return key;
}

// The same where ranks hold parts of the experts; shapes of matmuls are part
// of the bounds.
TEST(LayerBounds, HoldForExperts) {
  int points = 0, cut = 0, near = 0;
  for (double slow : {2e10, 1e11})
    for (const char *arch : {"", "sm_90"}) {
      StepModel step;
      step.batch = kBatch;
      step.sequence = kTokens;
      step.type = "bf16";
      step.kinds = {Builder(512, 1024, 8).kind};
      step.runs = {{0, 4, 0}};
      Machine machine = twoTiers(slow);
      machine.device.arch = arch;
      if (*arch)
        machine.device.target = BackendTarget::Cuda;
      auto isExpert = [](const LayerFactor &factor) {
        return factor.index == IndexClass::Expert;
      };
      auto filter = [&](const LayerOp &op, InnerAxis axis,
                        const OpOption &option) {
        return axis != InnerAxis::Expert ||
               !llvm::any_of(op.factors, isExpert) ||
               (option.factor >= 0 && isExpert(op.factors[option.factor]));
      };
      SolvedTables tables(LayerContext{&step, &machine, Profile()}, filter);
      std::mt19937 random(11);
      for (int tries = 0; tries < 40; ++tries) {
        TableKey key = randomKey(random, 16);
        if (key.microBatch == 0)
          continue;
        StateBound bound = tables.lowerBoundState(key);
        for (const LayerPoint &point : tables.get(key).points) {
          ++points;
          cut += key.groups[2].size > 1;
          double own = seconds(point.forward, point.backward);
          double held = point.denseElements + point.expertElements;
          EXPECT_GE(own * (1 + 1e-9), at(bound.seconds, held));
          EXPECT_GE(own - point.weightGradientSec, bound.restSec * (1 - 1e-9));
          EXPECT_GE(point.expertElements * (1 + 1e-9), bound.expertElements);
          EXPECT_GE(point.denseElements * (1 + 1e-9), bound.denseElements);
          near += own < 1.2 * bound.seconds.back().second;
        }
      }
    }
  EXPECT_GT(points, 300);
  EXPECT_GT(cut, 150);
  EXPECT_GT(near, 30);
}

// Experts that all expert ranks hold are one more copy of them on each, as
// everything dense is: their gradients are summed over these ranks, too.
TEST(LayerCost, ExpertsHeldWholeAreDense) {
  StepModel step;
  step.batch = kBatch;
  step.sequence = kTokens;
  step.type = "bf16";
  step.kinds = {Builder(512, 1024, 8).kind};
  step.runs = {{0, 4, 0}};
  Machine machine = twoTiers(1e9);
  auto cutsNone = [](const LayerOp &op, InnerAxis, const OpOption &option) {
    return option.factor < 0 ||
           op.factors[option.factor].index != IndexClass::Expert;
  };
  SolvedTables tables(LayerContext{&step, &machine, Profile()}, cutsNone);
  TableKey alone, two;
  two.groups[2] = {2, 1};
  const LayerPoint &one = tables.get(alone).points.front();
  const LayerPoint &fast = tables.get(two).points.front();
  EXPECT_GT(one.expertElements, 0);
  EXPECT_EQ(fast.expertElements, 0);
  EXPECT_EQ(fast.denseElements, one.denseElements + one.expertElements);
}

// Groups that cross the tiers in the same way share a table, which is the one
// that either would have alone; others do not.
TEST(SolvedTables, ShareAlikeGroups) {
  StepModel step;
  step.batch = kBatch;
  step.sequence = kTokens;
  step.type = "bf16";
  step.kinds = {Builder(4096, 16384).kind};
  step.runs = {{0, 4, 0}};
  Machine machine = twoTiers(2e10);
  LayerContext context{&step, &machine, Profile()};
  auto keyOf = [](int64_t size, int64_t stride) {
    TableKey key;
    key.groups[0] = Group{size, stride};
    return key;
  };
  // Of the layout that holds the least, which must communicate.
  auto traffic = [](const LayerTable &table) {
    double most = 0;
    for (const LayerPoint &point : table.points)
      most = std::max(most, point.forward.commSec[0]);
    return most;
  };
  SolvedTables tables(context);
  double inside = traffic(tables.get(keyOf(2, 2)));
  double across = traffic(tables.get(keyOf(2, 8)));
  EXPECT_EQ(tables.solved(), 2);
  EXPECT_LT(inside, across);
  for (auto [stride, other] : {std::pair<int64_t, double>(1, inside),
                               std::pair<int64_t, double>(4, across)}) {
    SolvedTables alone(context);
    const LayerTable &own = alone.get(keyOf(2, stride));
    const LayerTable &shared = tables.get(keyOf(2, stride));
    EXPECT_EQ(traffic(own), other);
    ASSERT_EQ(own.points.size(), shared.points.size());
    for (auto [a, b] : llvm::zip(own.points, shared.points)) {
      EXPECT_EQ(seconds(a.forward, a.backward), seconds(b.forward, b.backward));
      EXPECT_EQ(a.savedBytes, b.savedBytes);
    }
  }
  EXPECT_EQ(tables.solved(), 2);
  tables.get(keyOf(4, 1));
  tables.get(keyOf(4, 2)); // two of its four ranks in each unit
  EXPECT_EQ(tables.solved(), 4);
}

// Values of any size may be recomputed: the price at which all are is no sum
// that a table of costs cannot hold.
TEST(SolvedTables, LargeValuesAreRecomputed) {
  auto leastPart = [](double elementBytes) {
    StepModel step;
    step.batch = kBatch;
    step.sequence = kTokens;
    step.type = "bf16";
    step.kinds = {Builder(4096, 16384).kind};
    for (LayerValue &value : step.kinds.front().values)
      value.elementBytes = elementBytes;
    step.runs = {{0, 4, 0}};
    Machine machine = twoTiers(2e10);
    SolvedTables tables(LayerContext{&step, &machine, Profile()});
    TableKey key;
    key.microBatch = kBatch;
    double least = HUGE_VAL, most = 0;
    for (const LayerPoint &point : tables.get(key).points) {
      least = std::min(least, point.savedBytes);
      most = std::max(most, point.savedBytes);
    }
    return least / most;
  };
  double part = leastPart(2);
  EXPECT_LT(part, 0.5);
  for (double larger : {32.0, 2048.0, 32768.0}) // 9 TiB of values
    EXPECT_NEAR(leastPart(2 * larger), part, 1e-9);
}

// Where sums once per step weigh, the best layout of a step of one micro-batch
// is in the table.
TEST(SolvedTables, FewMicroBatchesHaveALayout) {
  StepModel step;
  step.batch = kBatch;
  step.sequence = kTokens;
  step.type = "bf16";
  step.kinds = {Builder(1024, 512).kind};
  step.runs = {{0, 4, 0}};
  Machine machine = twoTiers(2e10);
  LayerContext context{&step, &machine, Profile()};
  auto stepOfOne = [](const LayerPoint &point) {
    return seconds(point.forward, point.backward) + point.tensorSyncSec;
  };
  LayerQuery query;
  query.key.groups[0] = Group{4, 1};
  query.microBatches = 1;
  query.restFree = false;
  query.commWeight = 1 - context.profile.tensorOverlap;
  double best = stepOfOne(solveLayer(context, query).cost.point);
  SolvedTables tables(context);
  double least = HUGE_VAL;
  for (const LayerPoint &point : tables.get(query.key).points)
    least = std::min(least, stepOfOne(point));
  EXPECT_LE(least, best * (1 + 1e-9));
}

// The collectives of a point are what its communication is priced with.
TEST(SolvedTables, CollectivesAreThePrice) {
  StepModel step;
  step.batch = kBatch;
  step.sequence = kTokens;
  step.type = "bf16";
  step.kinds = {Builder(4096, 16384).kind};
  step.runs = {{0, 4, 0}};
  Machine machine = twoTiers(2e10);
  machine.device.target = BackendTarget::Cuda;
  SolvedTables tables(LayerContext{&step, &machine, Profile()});
  TableKey key;
  key.microBatch = 2;
  key.groups = {Group{4, 1}, Group{2, 4}, Group{1, 1}};
  int many = 0;
  for (const LayerPoint &point : tables.get(key).points) {
    std::array<double, kInnerAxes> sums = {};
    double once = 0;
    for (const LayerCollective &own : tables.collectivesOf(key, point)) {
      EXPECT_GT(own.bytes, 0);
      (own.perStep ? once : sums[static_cast<size_t>(own.axis)]) += own.sec;
    }
    for (int axis = 0; axis < kInnerAxes; ++axis) {
      double all = point.forward.commSec[axis] + point.backward.commSec[axis] +
                   point.recompute.commSec[axis];
      EXPECT_NEAR(sums[axis], all, 1e-9 * all);
      many += all > 0;
    }
    EXPECT_NEAR(once, point.tensorSyncSec, 1e-9 * once);
  }
  EXPECT_GT(many, 1);
}

} // namespace
