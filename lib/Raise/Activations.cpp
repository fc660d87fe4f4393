//===- Activations.cpp - activations and gates ----------------------------===//

#include "Views.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

static bool isNear(std::optional<double> found, double expected) {
  return found && std::abs(*found - expected) <= 1e-6 * std::abs(expected);
}

/// x of `x factor`; null else.
static Value timesNumber(Value value, double factor) {
  auto scaled = scaledOf(value);
  return scaled && isNear(scaled->factor, factor) ? scaled->x : Value();
}

static Value plusNumber(Value value, double number) {
  if (auto add = value.getDefiningOp<AddOp>())
    for (auto [x, other] : bothOrders(add))
      if (isNear(splatOf(other), number))
        return x;
  return {};
}

namespace {

/// `number` times all of `factors`.
struct Product {
  double number = 1;
  llvm::SmallVector<Value, 4> factors;

  bool isPower(Value x, size_t exponent) const {
    return factors.size() == exponent &&
           llvm::all_of(factors, [&](Value factor) { return factor == x; });
  }
};

} // namespace

/// What is multiplied, but for what `x` itself is made of.
static void multiplyInto(Product &product, Value value, Value x) {
  static constexpr size_t kMostFactors = 8;
  auto mul = value.getDefiningOp<MulOp>();
  auto pow = value.getDefiningOp<PowOp>();
  if (value == x || product.factors.size() >= kMostFactors) {
    product.factors.push_back(value);
  } else if (auto scaled = scaledOf(value)) {
    product.number *= scaled->factor;
    multiplyInto(product, scaled->x, x);
  } else if (mul) {
    multiplyInto(product, mul.getLhs(), x);
    multiplyInto(product, mul.getRhs(), x);
  } else if (pow && isNear(splatOf(pow.getRhs()), 3)) {
    for (int i = 0; i < 3; ++i)
      multiplyInto(product, pow.getLhs(), x);
  } else {
    product.factors.push_back(value);
  }
}

static Product productOf(Value value, Value x) {
  Product product;
  multiplyInto(product, value, x);
  return product;
}

/// True where `value` is 0.044715 x^exponent.
static bool isTanhTerm(Value value, Value x, size_t exponent) {
  Product term = productOf(value, x);
  return isNear(term.number, 0.044715) && term.isPower(x, exponent);
}

/// True where `value` is sqrt(2/pi) (x + 0.044715 x^3), or
/// sqrt(2/pi) x (1 + 0.044715 x^2).
static bool isTanhInner(Value value, Value x) {
  Product product = productOf(value, x);
  if (!isNear(product.number, std::sqrt(2 / M_PI)))
    return false;
  llvm::ArrayRef<Value> factors = product.factors;
  if (factors.size() == 2)
    for (auto [first, second] : {std::pair(factors[0], factors[1]),
                                 std::pair(factors[1], factors[0])}) {
      Value square = first == x ? plusNumber(second, 1) : Value();
      if (square && isTanhTerm(square, x, 2))
        return true;
    }
  auto add = factors.size() == 1 ? factors[0].getDefiningOp<AddOp>() : nullptr;
  if (!add)
    return false;
  return llvm::any_of(bothOrders(add), [&](auto order) {
    return order.first == x && isTanhTerm(order.second, x, 3);
  });
}

/// The kind of gelu of which `gate` is (1 + f(x)); `half` of it where the
/// factor 1/2 is inside.
static std::optional<GeluKind> geluGate(Value gate, Value x, double half) {
  Value curve = plusNumber(gate, half);
  if (curve && half != 1)
    curve = timesNumber(curve, half);
  if (!curve)
    return std::nullopt;
  if (auto tanh = curve.getDefiningOp<TanhOp>(); tanh)
    return isTanhInner(tanh->getOperand(0), x) ? std::optional(GeluKind::Tanh)
                                               : std::nullopt;
  auto erf = curve.getDefiningOp<ErfOp>();
  if (erf && timesNumber(erf->getOperand(0), std::sqrt(0.5)) == x)
    return GeluKind::Exact;
  return std::nullopt;
}

namespace {

/// 1 / (1 + exp(-x)).
struct RaiseLogistic : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    Value power = plusNumber(op.getRhs(), 1);
    auto exp = power ? power.getDefiningOp<ExpOp>() : nullptr;
    auto neg = exp ? exp->getOperand(0).getDefiningOp<NegOp>() : nullptr;
    if (!neg || splatOf(op.getLhs()) != 1.0)
      return failure();
    rewriter.replaceOpWithNewOp<LogisticOp>(op, op.getType(),
                                            neg->getOperand(0));
    return success();
  }
};

/// softmax(x - m), with any m of a row, is softmax(x).
struct ShiftSoftmax : OpRewritePattern<SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SoftmaxOp op,
                                PatternRewriter &rewriter) const override {
    Value x = op->getOperand(0), inner = withoutRowValue(x);
    if (inner == x)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op->setOperand(0, inner); });
    return success();
  }
};

/// exp(x - m) / sum(exp(x - m)) along the last dimension, with any m of a row.
struct RaiseSoftmax : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    auto exp = op.getLhs().getDefiningOp<ExpOp>();
    if (!exp || rowSumOf(op.getRhs()) != op.getLhs())
      return failure();
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, op.getType(),
                                           withoutRowValue(exp->getOperand(0)));
    return success();
  }
};

/// x logistic(x).
struct RaiseSilu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [x, gate] : bothOrders(op)) {
      auto logistic = gate.getDefiningOp<LogisticOp>();
      if (logistic && logistic->getOperand(0) == x) {
        rewriter.replaceOpWithNewOp<SiluOp>(op, op.getType(), x);
        return success();
      }
    }
    return failure();
  }
};

/// silu(a) b, where nothing else reads silu(a).
struct RaiseSwiglu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [gate, up] : bothOrders(op)) {
      auto silu = gate.getDefiningOp<SiluOp>();
      if (silu && silu->hasOneUse() && up != gate) {
        rewriter.replaceOpWithNewOp<SwigluOp>(op, op.getType(), silu.getX(),
                                              up);
        return success();
      }
    }
    return failure();
  }
};

/// max(x, 0)^2, in either order: both have slope 0 at 0.
struct RaiseSquaredRelu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    auto relu = op.getLhs().getDefiningOp<MaxOp>();
    if (!relu || op.getRhs() != op.getLhs())
      return failure();
    for (auto [x, bound] : bothOrders(relu))
      if (splatOf(bound) == 0.0) {
        rewriter.replaceOpWithNewOp<SquaredReluOp>(op, op.getType(), x);
        return success();
      }
    return failure();
  }
};

/// x/2 (1 + f(x)), the factors in any order.
struct RaiseGelu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    auto take = [&](Value x, std::optional<GeluKind> kind) {
      if (!kind)
        return failure();
      rewriter.replaceOpWithNewOp<GeluOp>(op, op.getType(), *kind, x);
      return success();
    };
    for (auto [a, b] : bothOrders(op)) {
      if (Value x = timesNumber(a, 0.5)) // (x/2) (1 + f)
        if (succeeded(take(x, geluGate(b, x, 1.0))))
          return success();
      if (Value gate = timesNumber(b, 0.5)) // x ((1 + f)/2)
        if (succeeded(take(a, geluGate(gate, a, 1.0))))
          return success();
      if (succeeded(take(a, geluGate(b, a, 0.5)))) // x (1/2 + f/2)
        return success();
      if (splatOf(b) == 0.5) // (x (1 + f))/2
        if (auto product = a.getDefiningOp<MulOp>())
          for (auto [x, gate] : bothOrders(product))
            if (succeeded(take(x, geluGate(gate, x, 1.0))))
              return success();
    }
    return failure();
  }
};

} // namespace

void kerf::addActivationPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseLogistic, RaiseSoftmax, ShiftSoftmax, RaiseSilu,
               RaiseSwiglu, RaiseSquaredRelu, RaiseGelu>(patterns.getContext());
}
