//===- LayerCostTest.cpp - costs of layers made by hand -------------------===//

#include "LayerTesting.h"

#include "kerf/Cost/Kernels.h"
#include "kerf/Layer/LayerProblem.h"
#include "kerf/Layer/LayerTerms.h"

#include "llvm/ADT/ArrayRef.h"

#include <gtest/gtest.h>

using namespace kerf;

namespace {

constexpr int64_t kBatch = 64, kSequence = 16, kVocabulary = 512, kWidth = 32;

Machine machineOfOne() {
  Machine machine;
  machine.device.memoryBytesPerSec = 1e12;
  machine.device.peak = {{"bf16", 1e14}, {"f32", 1e13}};
  machine.device.efficiency = {1, 1, 1, 0.5, 1};
  return machine;
}

LayerValue valueOf(const char *name, llvm::ArrayRef<int64_t> shape,
                   int producer, double elementBytes = 2) {
  LayerValue value;
  value.name = name;
  value.shape.assign(shape.begin(), shape.end());
  value.classes.assign(shape.size(), IndexClass::Other);
  if (shape.front() == kBatch)
    value.classes.front() = IndexClass::Batch;
  value.elementBytes = elementBytes;
  value.producer = producer;
  return value;
}

LayerFactor factorOf(const char *name, int64_t size) {
  return {{name, size, FactorKind::Parallel},
          name == llvm::StringRef("b") ? IndexClass::Batch : IndexClass::Other};
}

/// One sequence of one rank.
LayerQuery queryOfOne() {
  LayerQuery query;
  query.key.microBatch = 1;
  query.restFree = false;
  for (Group &group : query.key.groups)
    group = {1, 1};
  return query;
}

struct Problem {
  StepModel step;
  Machine machine = machineOfOne();
  Profile profile;

  explicit Problem(LayerKind kind) {
    step.batch = kBatch;
    step.kinds = {std::move(kind)};
  }
  LayerPoint cost(std::vector<AxisState> kept) const {
    LayerLayout layout;
    layout.axes[0].kept = std::move(kept);
    return costOf({&step, &machine, profile}, queryOfOne(), layout).point;
  }
};

/// A row op and two views in a row of what it makes: x -> y -> y' -> y''.
Problem chainOfViews() {
  LayerKind kind;
  kind.values = {
      valueOf("x", {kBatch, kWidth}, -1), valueOf("y", {kBatch, kWidth}, 0),
      valueOf("y'", {kBatch, kWidth}, 1), valueOf("y''", {kBatch, kWidth}, 2)};
  kind.input = 0;
  kind.output = 3;
  for (int i = 0; i < 3; ++i) {
    LayerOp op;
    op.name = i == 0 ? "gelu" : "reshape";
    op.factors = {factorOf("b", kBatch), factorOf("d", kWidth)};
    op.operands = {i};
    op.results = {i + 1};
    op.operandFactors = op.resultFactors = {{{0}, {1}}};
    op.view = i > 0;
    op.forward = i;
    kind.ops.push_back(op);
  }
  return Problem(std::move(kind));
}

/// Two row ops: x -> y -> z, of which the first may bring its own kernel.
Problem chainOfRowOps(bool alone) {
  LayerKind kind;
  kind.values = {valueOf("x", {kBatch, kWidth}, -1),
                 valueOf("y", {kBatch, kWidth}, 0),
                 valueOf("z", {kBatch, kWidth}, 1)};
  kind.input = 0;
  kind.output = 2;
  for (int i = 0; i < 2; ++i) {
    LayerOp op;
    op.name = "gelu";
    op.factors = {factorOf("b", kBatch), factorOf("d", kWidth)};
    op.operands = {i};
    op.results = {i + 1};
    op.operandFactors = op.resultFactors = {{{0}, {1}}};
    op.work.bytesRead = op.work.bytesWritten = kind.values[i].bytes();
    op.alone = alone && i == 0;
    op.forward = i;
    kind.ops.push_back(op);
  }
  return Problem(std::move(kind));
}

/// Row ops after each other, the first of which reads value 0.
struct Chain {
  LayerKind kind;
  Chain() {
    kind.values = {valueOf("x", {kBatch, kWidth}, -1)};
    kind.input = 0;
  }
  LayerOp &add(const char *name, int operand) {
    auto made = static_cast<int>(kind.values.size());
    auto number = static_cast<int>(kind.ops.size());
    kind.values.push_back(valueOf(name, {kBatch, kWidth}, number));
    LayerOp op;
    op.name = name;
    op.factors = {factorOf("b", kBatch), factorOf("d", kWidth)};
    op.operands = {operand};
    op.results = {made};
    op.operandFactors = op.resultFactors = {{{0}, {1}}};
    op.forward = number;
    return kind.ops.emplace_back(op);
  }
  /// Experts.
  void route(int operand) {
    LayerOp &op = add("grouped_matmul", operand);
    op.work.matmulFlops = 1;
    op.maps.resize(1);
  }
  int last() const { return static_cast<int>(kind.values.size()) - 1; }
  /// The ops from one on are of the backward pass.
  void turnBackAt(size_t first) {
    for (size_t i = first; i < kind.ops.size(); ++i) {
      kind.ops[i].phase = LayerPhase::InputGradient;
      for (int value : kind.ops[i].results)
        kind.values[value].forward = false;
    }
  }
};

/// x -> experts -> combine, and what all tokens have, x -> gelu, before or
/// behind them.
LayerKind routedBeside(bool behind) {
  Chain chain;
  if (!behind)
    chain.add("gelu", 0);
  chain.route(0);
  chain.add("combine", chain.last());
  if (behind)
    chain.add("gelu", 0);
  return chain.kind;
}

/// Experts, whose rows the gradient of the weights to combine them by reads; in
/// the backward pass experts, combine, and what all tokens have or nothing.
LayerKind routedBack(bool isBeside) {
  Chain chain;
  chain.route(0);
  int rows = chain.last();
  chain.route(0);
  chain.add("combine_weight_gradient", rows);
  chain.add("gelu_backward", isBeside ? 0 : rows);
  chain.route(chain.last() - 2);
  chain.add("combine", chain.last());
  chain.turnBackAt(2);
  return chain.kind;
}

/// Rows of a table by number.
Problem lookup() {
  LayerKind kind;
  kind.values = {
      valueOf("ids", {kBatch, kSequence}, -1, 4),
      valueOf("table", {kVocabulary, kWidth}, -1),
      valueOf("rows", {kBatch, kSequence, kWidth}, 0),
  };
  kind.values[1].param = 0;
  kind.params.resize(1);
  kind.output = 2;
  LayerOp op;
  op.name = "embedding";
  op.factors = {factorOf("b", kBatch), factorOf("s", kSequence),
                factorOf("v", kVocabulary), factorOf("d", kWidth)};
  op.operands = {0, 1};
  op.results = {2};
  op.operandFactors = {{{0}, {1}}, {{2}, {3}}};
  op.resultFactors = {{{0}, {1}, {3}}};
  op.work.bytesWritten = kind.values[2].bytes();
  op.work.bytesRead = op.work.bytesWritten;
  op.forward = 0;
  kind.ops = {op};
  return Problem(std::move(kind));
}

/// A matmul and row ops that read it.
StepModel matmulWithReaders(int readers) {
  LayerKind kind;
  kind.values = {valueOf("x", {kBatch, kWidth}, -1),
                 valueOf("w", {kWidth, kWidth}, -1),
                 valueOf("y", {kBatch, kWidth}, 0)};
  kind.values[1].param = 0;
  kind.params.resize(1);
  LayerOp matmul;
  matmul.name = "linear";
  matmul.factors = {factorOf("b", kBatch), factorOf("n", kWidth),
                    factorOf("k", kWidth)};
  matmul.factors.back().factor.kind = FactorKind::Sum;
  matmul.operands = {0, 1};
  matmul.results = {2};
  matmul.operandFactors = {{{0}, {2}}, {{1}, {2}}};
  matmul.resultFactors = {{{0}, {1}}};
  kind.ops = {matmul};
  for (int i = 1; i <= readers; ++i) {
    LayerOp op;
    op.name = "gelu";
    op.factors = {factorOf("b", kBatch), factorOf("d", kWidth)};
    op.operands = {2};
    op.results = {2 + i};
    op.operandFactors = op.resultFactors = {{{0}, {1}}};
    op.forward = i;
    kind.ops.push_back(op);
    kind.values.push_back(valueOf("z", {kBatch, kWidth}, i));
  }
  kind.input = 0;
  kind.output = 3;
  return Problem(std::move(kind)).step;
}

/// Seconds of collectives when the sum of the matmul is cut over two ranks,
/// and nothing else is.
double secondsOfSum(int readers) {
  StepModel step = matmulWithReaders(readers);
  Machine machine = layer_testing::twoTiers(1e11);
  LayerQuery query = queryOfOne();
  query.key.groups[0] = {2, 1};
  query.filter = [](const LayerOp &op, InnerAxis, const OpOption &option) {
    return op.name == "linear" ? option.factor == 2
                               : option.factor < 0 && option.passes < 0;
  };
  LayerSolution solution = solveLayer({&step, &machine, Profile()}, query);
  EXPECT_TRUE(solution.possible());
  return solution.cost.point.forward.allCommSec();
}

/// The backward pass of a feed-forward layer on two tensor ranks, Megatron's
/// way. `isLast`: the layer ends with the input gradient, else with the weight
/// gradient beside it.
LayerPoint splitInTwo(bool isLast, double bytesPerSec, bool isOurs) {
  StepModel step;
  step.batch = layer_testing::kBatch;
  step.kinds = {layer_testing::Builder(1024, 4096).kind};
  if (!isLast) {
    auto &values = step.kinds[0].values;
    auto &ops = step.kinds[0].ops;
    std::swap(ops[6], ops[7]);
    values[ops[6].results[0]].producer = 6;
    values[ops[7].results[0]].producer = 7;
  }
  Machine machine = layer_testing::twoTiers(1e10);
  machine.tiers[0].bytesPerSec = bytesPerSec;
  Profile profile;
  profile.fused = isOurs;
  LayerQuery query = queryOfOne();
  query.key.groups[0] = {2, 1};
  query.input[0] = query.outputGradient[0] = kReplicated;
  query.filter = [](const LayerOp &op, InnerAxis, const OpOption &option) {
    return option.factor >= 0 && op.factors[option.factor].factor.size == 4096;
  };
  LayerSolution solution = solveLayer({&step, &machine, profile}, query);
  EXPECT_TRUE(solution.possible());
  return solution.cost.point;
}

} // namespace

// A view takes no bytes beside what it shows, also through another view; alone
// it takes its own.
TEST(LayerCost, ViewsShareTheBytesOfWhatIsKept) {
  Problem problem = chainOfViews();
  constexpr double one = kWidth * 2; // of a sequence
  auto saved = [&](AxisState y, AxisState first, AxisState second) {
    return problem.cost({kNotKept, y, first, second}).savedBytes;
  };
  EXPECT_EQ(saved(kReplicated, kNotKept, kNotKept), one);
  EXPECT_EQ(saved(kReplicated, kReplicated, kNotKept), one);
  EXPECT_EQ(saved(kReplicated, kNotKept, kReplicated), one);
  EXPECT_EQ(saved(kReplicated, kReplicated, kReplicated), one);
  EXPECT_EQ(saved(kNotKept, kReplicated, kReplicated), one);
  EXPECT_EQ(saved(kNotKept, kNotKept, kReplicated), one);
  EXPECT_EQ(saved(kNotKept, kNotKept, kNotKept), 0);
  EXPECT_EQ(problem.cost({kReplicated, kReplicated, kReplicated, kReplicated})
                .savedBytes,
            2 * one);
}

// Row ops in a chain are one kernel, but for an op that brings its own.
TEST(LayerCost, OwnKernelsJoinNoOther) {
  std::vector<AxisState> none(3, kNotKept);
  EXPECT_EQ(chainOfRowOps(false).cost(none).kernels, 1);
  EXPECT_EQ(chainOfRowOps(true).cost(none).kernels, 2);
}

// A lookup reads the rows that it hands on, however large the table and the
// batch of the step are.
TEST(LayerCost, LookupsReadTheirRowsOnly) {
  Problem problem = lookup();
  double rows = kSequence * kWidth * 2;
  double wanted = rowSec(problem.machine.device, problem.profile, 2 * rows, 0);
  EXPECT_DOUBLE_EQ(problem.cost({kNotKept, kNotKept, kNotKept}).forward.rowSec,
                   wanted);
}

// Readers share what they convert, also a sum that nobody wants in parts.
TEST(LayerCost, ReadersShareASum) {
  double alone = secondsOfSum(1);
  EXPECT_GT(alone, 0);
  EXPECT_DOUBLE_EQ(secondsOfSum(3), alone);
}

// A sum of an input gradient runs beside the weight gradient that follows, for
// as long as both last, where programs do so.
TEST(LayerCost, SumsRunBesideWeightGradients) {
  for (double bytesPerSec : {1e9, 1e12}) {
    LayerPoint point = splitInTwo(/*isLast=*/false, bytesPerSec, true);
    double sum = point.backward.commSec[0],
           hidden = point.backward.hiddenSec[0];
    EXPECT_GT(sum, 0);
    // Half of what weight gradients take: of two, one is behind the sum.
    EXPECT_NEAR(hidden, std::min(sum, point.weightGradientSec / 2),
                1e-9 * hidden);
    EXPECT_EQ(hidden < sum, bytesPerSec == 1e9);
    // Deferred, it hides nothing.
    EXPECT_DOUBLE_EQ(point.deferredHiddenSec[0], hidden);
    EXPECT_DOUBLE_EQ(point.backward.allCommSec(), sum - hidden);
  }
  EXPECT_EQ(splitInTwo(true, 1e12, true).backward.hiddenSec[0], 0);
  EXPECT_EQ(splitInTwo(false, 1e12, false).backward.hiddenSec[0], 0);
}

// Rows travel home beside an op that needs none of them, if it comes later.
TEST(LayerFacts, RowsComeHomeBesideWhatFollows) {
  LayerFacts facts(routedBeside(/*behind=*/true));
  EXPECT_EQ(facts.beside, std::vector<bool>({false, false, true}));
  EXPECT_EQ(facts.bringsHome, std::vector<bool>({false, true, false}));
  LayerFacts first(routedBeside(/*behind=*/false));
  EXPECT_EQ(first.beside, std::vector<bool>({true, false, false}));
  EXPECT_EQ(first.bringsHome, std::vector<bool>({false, false, false}));
}

// So do gradients of rows in the backward pass, where something is computed
// beside: what makes the gradient of the weights comes behind them, with the
// matmul that only it needs.
TEST(LayerFacts, GradientsComeHomeBesideThoseOfWeights) {
  LayerFacts facts(routedBack(/*isBeside=*/true));
  EXPECT_EQ(facts.besideHome,
            std::vector<bool>({true, false, true, false, false, false}));
  EXPECT_EQ(facts.bringsHome,
            std::vector<bool>({false, false, false, false, false, true}));
  LayerFacts alone(routedBack(/*isBeside=*/false));
  EXPECT_EQ(alone.besideHome, std::vector<bool>(6, false));
  EXPECT_EQ(alone.bringsHome, std::vector<bool>(6, false));
}
