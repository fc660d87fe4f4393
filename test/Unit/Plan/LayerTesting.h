//===- LayerTesting.h - layers made up for tables and programs ------------===//

#ifndef KERF_TEST_UNIT_PLAN_LAYERTESTING_H
#define KERF_TEST_UNIT_PLAN_LAYERTESTING_H

#include "kerf/Layer/LayerProblem.h"

#include "llvm/ADT/ArrayRef.h"

#include <cmath>

namespace kerf::layer_testing {

constexpr int64_t kBatch = 16, kTokens = 512;
enum Index : unsigned { B, S, K, N, E }; ///< factors of matmuls

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

  /// A matmul over the last factor of `sizes` that is a sum.
  LayerOp matmul(int64_t n, int64_t k, Index sum,
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

  /// A gelu, or of two operands its gradient.
  LayerOp gelu(int64_t width, int operands) const {
    LayerOp op = rows(width, operands);
    op.name = operands == 1 ? "gelu" : "gelu_backward";
    op.tanh = true;
    return op;
  }

  Builder() = default;
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
    add(matmul(f, d, K, {in, w}, out), forward, {x, w1}, h);
    int a = activation(f);
    add(gelu(f, 1), forward, {h}, a);
    int w2 = weight(d, f), y = activation(d);
    add(matmul(d, f, K, {in, w}, out), forward, {a, w2}, y);
    int dy = activation(d, false), da = activation(f, false);
    add(matmul(d, f, N, {out, w}, in), inputs, {dy, w2}, da);
    add(matmul(d, f, B, {out, in}, w), weights, {dy, a}, gradientOf(w2));
    int dh = activation(f, false);
    add(gelu(f, 2), inputs, {h, da}, dh);
    add(matmul(f, d, B, {out, in}, w), weights, {dh, x}, gradientOf(w1));
    int dx = activation(d, false);
    add(matmul(f, d, N, {out, w}, in), inputs, {dh, w1}, dx);
    kind.input = x;
    kind.output = y;
    kind.outputGradient = dy;
    kind.inputGradient = dx;
    for (LayerOp &op : kind.ops)
      op.isDeferred = op.phase == weights;
  }
};

/// The convex curve at x; before its start nothing is possible.
inline double at(const KeptCurve &curve, double x) {
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

inline Machine twoTiers(double slow) {
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

inline double seconds(const TimeParts &a, const TimeParts &b) {
  return a.computeSec() + a.allCommSec() + b.computeSec() + b.allCommSec();
}

} // namespace kerf::layer_testing

#endif // KERF_TEST_UNIT_PLAN_LAYERTESTING_H
