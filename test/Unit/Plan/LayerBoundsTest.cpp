//===- LayerBoundsTest.cpp - bounds of tables against the tables ----------===//

#include "kerf/Plan/LayerProblem.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace kerf;

namespace {

constexpr int64_t kBatch = 16, kTokens = 512;
enum Index : unsigned { B, S, K, N, E }; ///< factors of products

/// y = gelu(x w1) w2 with its backward pass: D model units, F inside. With
/// experts all values have a dimension of them, and tokens for each.
struct Builder {
  LayerKind kind;
  int64_t experts = 1;

  int value(llvm::ArrayRef<int64_t> shape, bool tokens, bool forward) {
    LayerValue value;
    value.shape.assign(shape.begin(), shape.end());
    value.classes.assign(shape.size(), IndexClass::Other);
    if (tokens) {
      value.classes[0] = IndexClass::Batch;
      value.classes[1] = IndexClass::Sequence;
    }
    value.elementBytes = 2;
    value.forward = forward;
    kind.values.push_back(value);
    return static_cast<int>(kind.values.size()) - 1;
  }

  int activation(int64_t width, bool forward = true) {
    if (experts == 1)
      return value({kBatch, kTokens, width}, true, forward);
    int result = value({kBatch, kTokens, experts, width}, true, forward);
    kind.values[result].classes[2] = IndexClass::Expert;
    return result;
  }

  int weight(int64_t n, int64_t k) {
    int result = experts == 1 ? value({n, k}, false, true)
                              : value({experts, n, k}, false, true);
    kind.values[result].param = static_cast<int>(kind.params.size());
    LayerParam param;
    param.expert = experts > 1;
    param.elements = double(experts * n * k);
    param.weightBytes = 2;
    param.masterBytes = param.gradientBytes = 4;
    param.stateBytes = 8;
    kind.params.push_back(param);
    return result;
  }

  int gradientOf(int weight) {
    LayerValue own = kind.values[weight];
    own.gradientOf = own.param;
    own.param = -1;
    own.forward = false;
    kind.values.push_back(own);
    return static_cast<int>(kind.values.size()) - 1;
  }

  void add(LayerOp op, LayerPhase phase, std::vector<int> operands,
           int result) {
    op.phase = phase;
    op.type = "bf16";
    for (int operand : operands)
      op.work.bytesRead += kind.values[operand].bytes();
    op.work.bytesWritten = kind.values[result].bytes();
    kind.values[result].producer = static_cast<int>(kind.ops.size());
    op.operands = std::move(operands);
    op.results = {result};
    kind.ops.push_back(std::move(op));
  }

  /// A product over the last factor of `sizes` that is a sum.
  LayerOp product(int64_t n, int64_t k, Index sum,
                  std::vector<TensorFactors> operands,
                  TensorFactors result) const {
    LayerOp op;
    auto factor = [&](const char *name, int64_t size, Index index,
                      IndexClass cls) {
      bool isSum = sum == index || (sum == B && index == S);
      op.factors.push_back(
          {{name, size, isSum ? FactorKind::Sum : FactorKind::Parallel}, cls});
    };
    factor("b", kBatch, B, IndexClass::Batch);
    factor("s", kTokens, S, IndexClass::Sequence);
    factor("k", k, K, IndexClass::Other);
    factor("n", n, N, IndexClass::Other);
    if (experts > 1)
      factor("e", experts, E, IndexClass::Expert);
    op.operandFactors = std::move(operands);
    op.resultFactors = {std::move(result)};
    op.work.matmulFlops = 2.0 * kBatch * kTokens * double(experts * n * k);
    return op;
  }

  /// Element by element over `operands` activations.
  LayerOp rows(int64_t width, int operands) const {
    LayerOp op;
    op.factors = {{{"b", kBatch, FactorKind::Parallel}, IndexClass::Batch},
                  {{"s", kTokens, FactorKind::Parallel}, IndexClass::Sequence},
                  {{"n", width, FactorKind::Parallel}, IndexClass::Other}};
    op.operandFactors.assign(operands, {{0}, {1}, {2}});
    op.resultFactors = {{{0}, {1}, {2}}};
    op.work.vectorFlops = double(kBatch * kTokens * experts * width);
    if (experts == 1)
      return op;
    op.factors.push_back(
        {{"e", experts, FactorKind::Parallel}, IndexClass::Expert});
    op.operandFactors.assign(operands, {{0}, {1}, {3}, {2}});
    op.resultFactors = {{{0}, {1}, {3}, {2}}};
    return op;
  }

  Builder(int64_t d, int64_t f, int64_t experts = 1) : experts(experts) {
    TensorFactors in = {{B}, {S}, {K}}, out = {{B}, {S}, {N}}, w = {{N}, {K}};
    if (experts > 1) {
      in.insert(in.begin() + 2, {E});
      out.insert(out.begin() + 2, {E});
      w.insert(w.begin(), {E});
    }
    auto forward = LayerPhase::Forward;
    auto inputs = LayerPhase::InputGradient;
    auto weights = LayerPhase::WeightGradient;
    int x = activation(d), w1 = weight(f, d), h = activation(f);
    add(product(f, d, K, {in, w}, out), forward, {x, w1}, h);
    int a = activation(f);
    add(rows(f, 1), forward, {h}, a);
    int w2 = weight(d, f), y = activation(d);
    add(product(d, f, K, {in, w}, out), forward, {a, w2}, y);
    int dy = activation(d, false), da = activation(f, false);
    add(product(d, f, N, {out, w}, in), inputs, {dy, w2}, da);
    add(product(d, f, B, {out, in}, w), weights, {dy, a}, gradientOf(w2));
    int dh = activation(f, false);
    add(rows(f, 2), inputs, {h, da}, dh);
    add(product(f, d, B, {out, in}, w), weights, {dh, x}, gradientOf(w1));
    int dx = activation(d, false);
    add(product(f, d, N, {out, w}, in), inputs, {dh, w1}, dx);
    kind.input = x;
    kind.output = y;
    kind.outputGradient = dy;
    kind.inputGradient = dx;
  }
};

/// The convex curve at x; before its start nothing is possible.
double at(const KeptCurve &curve, double x) {
  x *= 1 + 1e-9;
  if (x < curve.front().first)
    return HUGE_VAL;
  for (size_t i = 1; i < curve.size(); ++i) {
    auto [x0, y0] = curve[i - 1];
    auto [x1, y1] = curve[i];
    if (x <= x1)
      return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
  }
  return curve.back().second;
}

Machine twoTiers(double slow) {
  Machine machine;
  machine.device.memoryBytes = 80e9;
  machine.device.memoryBytesPerSec = 2e12;
  machine.device.peak = {{"bf16", 3e14}, {"f32", 2e13}};
  machine.device.efficiency = {0.8, 0.5, 0.9, 0.8, 0.8};
  machine.tiers.resize(2);
  machine.tiers[0].size = 4;
  machine.tiers[0].bytesPerSec = 2e11;
  machine.tiers[0].latencySec = 2e-6;
  machine.tiers[1].size = 4;
  machine.tiers[1].bytesPerSec = slow;
  machine.tiers[1].latencySec = 5e-6;
  return machine;
}

double seconds(const TimeParts &a, const TimeParts &b) {
  return a.computeSec() + a.allCommSec() + b.computeSec() + b.allCommSec();
}

// No point of a solved table is below what is known of it without solving it:
// neither its time for the parameters that it holds, nor that time without
// weight gradients, nor what it makes again for the bytes that it keeps. The
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
        StateFloor state = tables.lowerBoundState(key);
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

// All points of a layout lie above one of the cases of its key: expert ranks
// hold all experts, or parts of them. Shapes of products are part of them.
TEST(LayerBounds, CasesHoldForSolvedTables) {
  int layouts = 0, split = 0, near = 0;
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
      SolvedTables tables(LayerContext{&step, &machine, Profile()});
      std::mt19937 random(11);
      for (int tries = 0; tries < 40; ++tries) {
        TableKey key = randomKey(random, 16);
        if (key.microBatch == 0)
          continue;
        StateFloor both = tables.lowerBoundState(key);
        std::vector<StateFloor> cases = tables.lowerBoundStates(key);
        ASSERT_EQ(cases.size(), key.groups[2].size > 1 ? 2u : 1u);
        split += cases.size() == 2;
        const LayerTable &table = tables.get(key);
        for (int layout = 0; layout < table.layouts; ++layout) {
          ++layouts;
          auto holds = [&](const StateFloor &floor) {
            return llvm::all_of(table.points, [&](const LayerPoint &point) {
              double own = seconds(point.forward, point.backward);
              double held = point.denseElements + point.expertElements;
              return point.layout != layout ||
                     (own >= at(floor.seconds, held) &&
                      own - point.weightGradientSec >=
                          floor.restSec * (1 - 1e-9) &&
                      point.expertElements * (1 + 1e-9) >=
                          floor.expertElements);
            });
          };
          EXPECT_TRUE(llvm::any_of(cases, holds));
        }
        for (const LayerPoint &point : table.points)
          near += seconds(point.forward, point.backward) <
                  1.2 * both.seconds.back().second;
        if (cases.size() == 2) {
          EXPECT_GE(cases[0].expertElements,
                    double(key.groups[2].size) * both.expertElements);
          EXPECT_EQ(cases[1].expertElements, both.expertElements);
        }
      }
    }
  EXPECT_GT(layouts, 60);
  EXPECT_GT(split, 30);
  EXPECT_GT(near, 30);
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

} // namespace
