//===- Norms.cpp - norms of rows ------------------------------------------===//
//
// x rsqrt(mean(x^2) + eps) g, in any order of factors and with a division by
// the root instead; of x - mean(x) it is a layer norm.
//
//===----------------------------------------------------------------------===//

#include "Views.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

/// x of `mean of x along the last dimension`, as seen by x's dimensions; null
/// where `seen` is no such mean.
static Value meanOf(Seen seen, llvm::function_ref<Value(Value)> summand) {
  seen = lookThrough(seen);
  auto scaled = scaledOf(seen.value);
  if (!scaled)
    return {};
  Seen total = lookThrough({scaled->x, seen.dims});
  auto reduce = total.op<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::Sum)
    return {};
  RankedTensorType type = typeOf(reduce.getX());
  int64_t last = type.getRank() - 1;
  if (reduce.getDims() != llvm::ArrayRef<int64_t>{last} ||
      std::abs(scaled->factor * type.getDimSize(last) - 1) > 1e-6)
    return {};
  // Rows stand where they stood.
  for (int64_t d = 0; d < last; ++d)
    if (type.getDimSize(d) != 1 && total.dims[d] != d)
      return {};
  return summand(reduce.getX());
}

static Value squareOf(Value value) {
  auto mul = value.getDefiningOp<MulOp>();
  return mul && mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
}

namespace {
/// mean(x^2) + eps, or the same of x - mean(x).
struct Spread {
  Value x;
  double eps = 0;
  bool isCentred = false;
};
} // namespace

static Value same(Value value) { return value; }

/// x of mean(x^2) - mean(x)^2, or of its larger one with 0; null else.
static Value fastVarianceOf(Seen seen) {
  seen = lookThrough(seen);
  if (auto max = seen.op<MaxOp>())
    for (auto [a, b] : bothOrders(max))
      if (splatOf(b) == 0.0)
        return fastVarianceOf({a, seen.dims});
  auto sub = seen.op<SubOp>();
  if (!sub)
    return {};
  Value x = meanOf(seen.operand(0), squareOf);
  Seen square = lookThrough(seen.operand(1));
  Value mean = x ? squareOf(square.value) : Value();
  return mean && meanOf({mean, square.dims}, same) == x ? x : Value();
}

static std::optional<Spread> spreadWithout(Seen seen, double eps) {
  if (Value x = meanOf(seen, squareOf))
    return Spread{x, eps};
  if (Value x = fastVarianceOf(seen))
    return Spread{x, eps, /*isCentred=*/true};
  return std::nullopt;
}

static std::optional<Spread> spreadOf(Seen seen) {
  seen = lookThrough(seen);
  if (auto add = seen.op<AddOp>())
    for (auto [a, b] : bothOrders(add))
      if (auto eps = splatOf(b))
        if (auto spread = spreadWithout({a, seen.dims}, *eps))
          return spread;
  return spreadWithout(seen, 0);
}

/// x of x - mean(x); null else.
static Value centredOf(Value value) {
  auto centre = value.getDefiningOp<SubOp>();
  if (!centre)
    return {};
  Value x = meanOf(
      {centre.getRhs(), dimRange(0, typeOf(centre.getRhs()).getRank())}, same);
  return x && x == centre.getLhs() ? x : Value();
}

/// Whether a spread is that of `x`.
static bool isSpreadOf(const Spread &spread, Value x) {
  return spread.x == (spread.isCentred ? centredOf(x) : x);
}

/// What `factor` is the inverse root of, as seen by the op it multiplies.
static std::optional<Spread> inverseRootOf(Value factor) {
  Seen seen = lookThrough(factor);
  if (auto rsqrt = seen.op<RsqrtOp>())
    return spreadOf(seen.operand(0));
  if (auto div = seen.op<DivOp>(); div && splatOf(div.getLhs()) == 1.0) {
    Seen root = lookThrough(seen.operand(1));
    if (root.op<SqrtOp>())
      return spreadOf(root.operand(0));
  }
  if (auto pow = seen.op<PowOp>(); pow && splatOf(pow.getRhs()) == -0.5)
    return spreadOf(seen.operand(0));
  return std::nullopt;
}

static Value ones(PatternRewriter &rewriter, Location loc, Value x) {
  RankedTensorType type = typeOf(x);
  return PlainBuilder{rewriter, loc}.constant(
      RankedTensorType::get({type.getShape().back()}, type.getElementType()),
      1.0);
}

/// Replaces `op` by the norm of x without a gain.
static void replaceByNorm(PatternRewriter &rewriter, Operation *op, Value x,
                          const Spread &spread) {
  Value gain = ones(rewriter, op->getLoc(), x);
  FloatAttr eps = rewriter.getF64FloatAttr(spread.eps);
  if (spread.isCentred)
    rewriter.replaceOpWithNewOp<LayerNormOp>(op, spread.x, gain, Value(), eps);
  else
    rewriter.replaceOpWithNewOp<RmsNormOp>(op, x, gain, eps);
}

namespace {

/// x r, with r the inverse root of mean(x^2) + eps.
struct RaiseRms : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [x, factor] : bothOrders(op)) {
      auto spread = inverseRootOf(factor);
      if (!spread || !isSpreadOf(*spread, x))
        continue;
      replaceByNorm(rewriter, op, x, *spread);
      return success();
    }
    return failure();
  }
};

/// x (r g) is (x r) g.
struct GainLast : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [x, product] : bothOrders(op)) {
      auto inner = product.getDefiningOp<MulOp>();
      if (!inner)
        continue;
      for (auto [factor, gain] : bothOrders(inner)) {
        auto spread = inverseRootOf(factor);
        if (!spread || !isSpreadOf(*spread, x))
          continue;
        Value norm = MulOp::create(rewriter, op.getLoc(), x, factor);
        rewriter.replaceOpWithNewOp<MulOp>(op, norm, gain);
        return success();
      }
    }
    return failure();
  }
};

/// x / root.
struct RaiseRmsOfRoot : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    Seen root = lookThrough(op.getRhs());
    if (!root.op<SqrtOp>())
      return failure();
    auto spread = spreadOf(root.operand(0));
    if (!spread || !isSpreadOf(*spread, op.getLhs()))
      return failure();
    replaceByNorm(rewriter, op, op.getLhs(), *spread);
    return success();
  }
};

/// A norm of x - mean(x) is a layer norm of x.
struct RaiseLayerNorm : OpRewritePattern<RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RmsNormOp op,
                                PatternRewriter &rewriter) const override {
    Value x = centredOf(op.getX());
    if (!x)
      return failure();
    rewriter.replaceOpWithNewOp<LayerNormOp>(op, x, op.getGain(), Value(),
                                             op.getEpsAttr());
    return success();
  }
};

static Value biasOf(RmsNormOp) { return {}; }
static Value biasOf(LayerNormOp op) { return op.getBias(); }

static Operation *normWith(PatternRewriter &rewriter, RmsNormOp op,
                           Value gain) {
  return RmsNormOp::create(rewriter, op.getLoc(), op.getX(), gain,
                           op.getEpsAttr());
}
static Operation *normWith(PatternRewriter &rewriter, LayerNormOp op,
                           Value gain) {
  return LayerNormOp::create(rewriter, op.getLoc(), op.getX(), gain, Value(),
                             op.getEpsAttr());
}

/// A norm without a gain that a vector multiplies; two norms of one value, as
/// parallel blocks have, became one.
template <typename Norm> struct TakeGain : OpRewritePattern<MulOp> {
  using OpRewritePattern<MulOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [x, factor] : bothOrders(op)) {
      auto norm = x.template getDefiningOp<Norm>();
      if (!norm || biasOf(norm) || splatOf(norm.getGain()) != 1.0 ||
          !llvm::all_of(norm->getUsers(), llvm::IsaPred<MulOp>))
        continue;
      int64_t last = typeOf(x).getRank() - 1;
      if (Value gain = vectorAlong(rewriter, op.getLoc(), factor, last)) {
        rewriter.replaceOp(op, normWith(rewriter, norm, gain));
        return success();
      }
    }
    return failure();
  }
};

/// A layer norm without a bias that a vector is added to.
struct TakeNormBias : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [x, summand] : bothOrders(op)) {
      auto norm = x.getDefiningOp<LayerNormOp>();
      if (!norm || norm.getBias() || !norm->hasOneUse())
        continue;
      int64_t last = typeOf(x).getRank() - 1;
      if (Value bias = vectorAlong(rewriter, op.getLoc(), summand, last)) {
        rewriter.replaceOpWithNewOp<LayerNormOp>(
            op, norm.getX(), norm.getGain(), bias, norm.getEpsAttr());
        return success();
      }
    }
    return failure();
  }
};

/// A matmul with weights that a vector is added to.
struct TakeBias : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [x, summand] : bothOrders(op)) {
      auto linear = x.getDefiningOp<LinearOp>();
      if (!linear || linear.getBias() || !linear->hasOneUse() ||
          !lookThrough(summand).op<ParamOp>())
        continue;
      int64_t last = typeOf(x).getRank() - 1;
      if (Value bias = vectorAlong(rewriter, op.getLoc(), summand, last)) {
        rewriter.replaceOpWithNewOp<LinearOp>(op, linear.getX(),
                                              linear.getWeight(), bias,
                                              linear.getTransposed());
        return success();
      }
    }
    return failure();
  }
};

} // namespace

void kerf::addNormPatterns(RewritePatternSet &patterns) {
  patterns
      .add<RaiseRms, GainLast, RaiseRmsOfRoot, RaiseLayerNorm,
           TakeGain<RmsNormOp>, TakeGain<LayerNormOp>, TakeNormBias, TakeBias>(
          patterns.getContext());
}
