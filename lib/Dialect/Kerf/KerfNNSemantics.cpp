//===- KerfNNSemantics.cpp - layers as plain ops --------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

using Values = llvm::SmallVector<Value>;

/// `y` in the element type of the op's result `like`.
static Values finish(PlainBuilder &p, Value y, Value like) {
  return {p.cast(y, typeOf(like).getElementType())};
}

/// Labels of all dimensions but the last `own`.
static std::string lead(Value x, int64_t own) {
  return leadingLabels(typeOf(x).getRank() - own);
}

//===----------------------------------------------------------------------===//
// Embedding and matmuls
//===----------------------------------------------------------------------===//

/// `ids - offset`.
static Value localIds(PlainBuilder &p, Value ids, Value offset) {
  if (!offset)
    return ids;
  return p.sub(ids, p.broadcast(offset, {}, typeOf(ids).getShape()));
}

Values EmbeddingOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  return {p.gather(getTable(), localIds(p, getIds(), getOffset()))};
}

Values EmbeddingGradientOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value rows = localIds(p, getIds(), getOffset());
  if (getPadding()) { // A row outside the table takes nothing.
    Value isPadding = p.compare(CompareKind::EQ, getIds(),
                                static_cast<double>(*getPadding()));
    rows = p.select(isPadding, p.constant(rows.getType(), -1.0), rows);
  }
  auto type = typeOf(getResult());
  Value dy = p.cast(getDy(), computeType(type).getElementType());
  return finish(p, p.scatterAdd(dy, rows, type.getDimSize(0)), getResult());
}

static Value addBias(PlainBuilder &p, Value y, Value bias) {
  if (!bias)
    return y;
  bias = p.cast(bias, typeOf(y).getElementType());
  return p.add(y, p.columns(bias, typeOf(y).getShape()));
}

Values LinearOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  std::string rows = lead(getX(), 1);
  std::string equation =
      rows + "k," + (getTransposed() ? "kn" : "nk") + "->" + rows + "n";
  Value y = p.einsum(equation, getX(), getWeight(),
                     computeType(getX().getType()).getElementType());
  return finish(p, addBias(p, y, getBias()), getResult());
}

Values MatmulOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  std::string batch = lead(getLhs(), 2);
  Value y =
      p.einsum(batch + "mk," + batch + "kn->" + batch + "mn", getLhs(),
               getRhs(), computeType(getLhs().getType()).getElementType());
  return finish(p, addBias(p, y, getBias()), getResult());
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

namespace {
/// A row-normalized x: `normal = centered rsqrt(mean(centered^2) + eps)`.
struct Normalized {
  Value normal; ///< [..., D]
  Value scale;  ///< [...]: the reciprocal root
};
} // namespace

static Normalized normalize(PlainBuilder &p, Value x, double eps, bool center) {
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  x = p.widen(x);
  if (center)
    x = p.sub(x, p.rows(p.rowMean(x), shape));
  Value scale = p.rsqrt(p.add(p.rowMean(p.mul(x, x)), eps));
  return {p.mul(x, p.rows(scale, shape)), scale};
}

/// `normal * gain + bias`.
template <typename Op>
static Values applyNorm(OpBuilder &builder, Op op, bool center, Value bias) {
  PlainBuilder p{builder, op.getLoc()};
  double eps = op.getEps().convertToDouble();
  Value normal = normalize(p, op.getX(), eps, center).normal;
  Value gain = p.cast(op.getGain(), typeOf(normal).getElementType());
  Value y = p.mul(normal, p.columns(gain, typeOf(normal).getShape()));
  return finish(p, addBias(p, y, bias), op.getResult());
}

Values LayerNormOp::decompose(OpBuilder &builder) {
  return applyNorm(builder, *this, /*center=*/true, getBias());
}

Values RmsNormOp::decompose(OpBuilder &builder) {
  return applyNorm(builder, *this, /*center=*/false, Value());
}

/// With u = dy gain: `dx = r (u - normal mean(u normal) [- mean(u)])`.
template <typename Op>
static Values normBackward(OpBuilder &builder, Op op, bool center) {
  PlainBuilder p{builder, op.getLoc()};
  Normalized n = normalize(p, op.getX(), op.getEps().convertToDouble(), center);
  llvm::ArrayRef<int64_t> shape = typeOf(n.normal).getShape();
  Type element = typeOf(n.normal).getElementType();
  Value gain = p.columns(p.cast(op.getGain(), element), shape);
  Value u = p.mul(p.cast(op.getDy(), element), gain);
  Value along = p.rows(p.rowMean(p.mul(u, n.normal)), shape);
  Value dx = p.sub(u, p.mul(n.normal, along));
  if (center)
    dx = p.sub(dx, p.rows(p.rowMean(u), shape));
  return finish(p, p.mul(dx, p.rows(n.scale, shape)), op.getResult());
}

Values LayerNormBackwardOp::decompose(OpBuilder &builder) {
  return normBackward(builder, *this, /*center=*/true);
}

Values RmsNormBackwardOp::decompose(OpBuilder &builder) {
  return normBackward(builder, *this, /*center=*/false);
}

template <typename Op>
static Values normWeightGradient(OpBuilder &builder, Op op, bool center) {
  PlainBuilder p{builder, op.getLoc()};
  Value normal =
      normalize(p, op.getX(), op.getEps().convertToDouble(), center).normal;
  Value dy = p.cast(op.getDy(), typeOf(normal).getElementType());
  Value dg = p.sum(p.mul(dy, normal), dimRange(0, typeOf(dy).getRank() - 1));
  return finish(p, dg, op.getResult());
}

Values LayerNormWeightGradientOp::decompose(OpBuilder &builder) {
  return normWeightGradient(builder, *this, /*center=*/true);
}

Values RmsNormWeightGradientOp::decompose(OpBuilder &builder) {
  return normWeightGradient(builder, *this, /*center=*/false);
}

//===----------------------------------------------------------------------===//
// Rope
//===----------------------------------------------------------------------===//

/// Frequency of pair `j` of `dim` channels, scaled. Computed at compile time
/// in f64: a constant of D/2 numbers.
static double ropeFrequency(int64_t j, int64_t dim, double theta,
                            Attribute scaling) {
  if (auto table = dyn_cast_or_null<RopeTableAttr>(scaling))
    return table.getFrequencies()[j];
  double f = std::pow(theta, -2.0 * j / dim);
  if (auto linear = dyn_cast_or_null<RopeLinearAttr>(scaling))
    return f / linear.getFactor();
  if (auto yarn = dyn_cast_or_null<RopeYarnAttr>(scaling)) {
    double low = yarn.getLow(), high = yarn.getHigh();
    double t = std::clamp((j - low) / (high - low), 0.0, 1.0);
    return (1 - t) * f + t * f / yarn.getFactor();
  }
  auto llama = dyn_cast_or_null<RopeLlama3Attr>(scaling);
  if (!llama)
    return f;
  double wavelength = 2 * M_PI / f;
  double low = llama.getLow(), high = llama.getHigh();
  if (wavelength < llama.getOriginal() / high)
    return f;
  if (wavelength > llama.getOriginal() / low)
    return f / llama.getFactor();
  double t = (llama.getOriginal() / wavelength - low) / (high - low);
  return (1 - t) * f / llama.getFactor() + t * f;
}

/// Factor on cosines and sines.
static double ropeMagnitude(Attribute scaling) {
  if (auto yarn = dyn_cast_or_null<RopeYarnAttr>(scaling))
    return yarn.getMagnitude();
  auto table = dyn_cast_or_null<RopeTableAttr>(scaling);
  return table ? table.getMagnitude() : 1.0;
}

/// Angles `[B,S,D/2]`, or `[1,S,D/2]` without positions.
static Value ropeAngles(PlainBuilder &p, RopeOp op, Type element) {
  llvm::ArrayRef<int64_t> x = typeOf(op.getX()).getShape();
  int64_t pairs = x[3] / 2;
  llvm::SmallVector<Attribute> frequencies;
  for (int64_t j = 0; j < pairs; ++j)
    frequencies.push_back(
        FloatAttr::get(p.builder.getF64Type(),
                       ropeFrequency(j, x[3], op.getTheta().convertToDouble(),
                                     op.getScalingAttr())));
  auto type = RankedTensorType::get({pairs}, p.builder.getF64Type());
  Value table =
      p.cast(ConstantOp::create(p.builder, op.getLoc(),
                                DenseElementsAttr::get(type, frequencies)),
             element);
  Value positions = op.getPositions();
  if (!positions)
    positions = p.iota({1, x[1]}, 1, op.getOffset(), op.getZigzagAttr());
  llvm::SmallVector<int64_t> shape(typeOf(positions).getShape());
  shape.push_back(pairs);
  return p.mul(p.rows(p.cast(positions, element), shape),
               p.columns(table, shape));
}

namespace {
/// The two channels of every pair of x `[B,S,H,D]`, each `[B,S,H,D/2]`.
struct RopePairs {
  PlainBuilder &p;
  bool isInterleaved;

  Value channel(Value x, int64_t which) const {
    llvm::SmallVector<int64_t> sizes(typeOf(x).getShape());
    sizes[3] /= 2;
    if (!isInterleaved)
      return p.slice(x, {0, 0, 0, which * sizes[3]}, sizes);
    sizes.push_back(2);
    Value pairs = p.reshape(x, sizes);
    llvm::SmallVector<int64_t> one = sizes;
    one[4] = 1;
    return p.reshape(p.slice(pairs, {0, 0, 0, 0, which}, one),
                     llvm::ArrayRef(one).drop_back());
  }
  Value join(Value first, Value second) const {
    llvm::SmallVector<int64_t> sizes(typeOf(first).getShape());
    llvm::SmallVector<int64_t> whole = sizes;
    whole[3] *= 2;
    if (!isInterleaved)
      return p.concat(3, {first, second});
    sizes.push_back(1);
    Value pairs =
        p.concat(4, {p.reshape(first, sizes), p.reshape(second, sizes)});
    return p.reshape(pairs, whole);
  }
};
} // namespace

Values RopeOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value x = p.widen(getX());
  llvm::SmallVector<int64_t> half(typeOf(x).getShape());
  half[3] /= 2;
  Value angles = ropeAngles(p, *this, typeOf(x).getElementType());
  auto spread = [&](Value table) {              // [B or 1,S,D/2] -> [B,S,H,D/2]
    if (typeOf(table).getDimSize(0) != half[0]) // [1,S,D/2] for every sequence
      return p.broadcast(p.reshape(table, {half[1], half[3]}), {1, 3}, half);
    return p.broadcast(table, {0, 1, 3}, half);
  };
  Value cos = p.cos(angles), sin = p.sin(angles);
  if (double magnitude = ropeMagnitude(getScalingAttr()); magnitude != 1) {
    cos = p.mul(cos, magnitude);
    sin = p.mul(sin, magnitude);
  }
  cos = spread(cos);
  sin = spread(sin);
  if (getInverse())
    sin = p.neg(sin);
  RopePairs pairs{p, getInterleaved()};
  Value first = pairs.channel(x, 0), second = pairs.channel(x, 1);
  Value y = pairs.join(p.sub(p.mul(first, cos), p.mul(second, sin)),
                       p.add(p.mul(second, cos), p.mul(first, sin)));
  return finish(p, y, getResult());
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

namespace {
/// `sqrt(2/pi) (x + 0.044715 x^3)` and its derivative.
struct GeluInner {
  Value value, slope;
};
} // namespace

static GeluInner geluInner(PlainBuilder &p, Value x) {
  const double c = std::sqrt(2 / M_PI), a = 0.044715;
  Value square = p.mul(x, x);
  return {p.mul(p.mul(x, p.add(p.mul(square, a), 1.0)), c),
          p.mul(p.add(p.mul(square, 3 * a), 1.0), c)};
}

Values GeluOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value x = p.widen(getX());
  Value bell = getKind() == GeluKind::Exact ? p.erf(p.mul(x, M_SQRT1_2))
                                            : p.tanh(geluInner(p, x).value);
  return finish(p, p.mul(p.mul(x, 0.5), p.add(bell, 1.0)), getResult());
}

Values GeluBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value x = p.widen(getX()), dy = p.widen(getDy()), slope;
  if (getKind() == GeluKind::Exact) {
    Value cdf = p.mul(p.add(p.erf(p.mul(x, M_SQRT1_2)), 1.0), 0.5);
    Value pdf =
        p.mul(p.exp(p.mul(p.mul(x, x), -0.5)), M_SQRT1_2 * M_2_SQRTPI / 2);
    slope = p.add(cdf, p.mul(x, pdf));
  } else {
    GeluInner inner = geluInner(p, x);
    Value t = p.tanh(inner.value);
    Value rise =
        p.mul(p.mul(p.mul(x, 0.5), p.sub(1.0, p.mul(t, t))), inner.slope);
    slope = p.add(p.mul(p.add(t, 1.0), 0.5), rise);
  }
  return finish(p, p.mul(dy, slope), getResult());
}

static Value silu(PlainBuilder &p, Value x) { return p.mul(x, p.logistic(x)); }

static Value siluSlope(PlainBuilder &p, Value x) {
  Value s = p.logistic(x);
  return p.mul(s, p.add(p.mul(x, p.sub(1.0, s)), 1.0));
}

Values SiluOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  return finish(p, silu(p, p.widen(getX())), getResult());
}

Values SiluBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value slope = siluSlope(p, p.widen(getX()));
  return finish(p, p.mul(p.widen(getDy()), slope), getResult());
}

Values SquaredReluOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value positive = p.max(p.widen(getX()), 0.0);
  return finish(p, p.mul(positive, positive), getResult());
}

Values SquaredReluBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value slope = p.mul(p.max(p.widen(getX()), 0.0), 2.0);
  return finish(p, p.mul(p.widen(getDy()), slope), getResult());
}

Values SwigluOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value y = p.mul(silu(p, p.widen(getGate())), p.widen(getUp()));
  return finish(p, y, getResult());
}

Values SwigluBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value gate = p.widen(getGate()), dy = p.widen(getDy());
  Value dgate = p.mul(p.mul(dy, p.widen(getUp())), siluSlope(p, gate));
  Value dup = p.mul(dy, silu(p, gate));
  return {finish(p, dgate, getDgate())[0], finish(p, dup, getDup())[0]};
}

/// Probabilities of rows of x, widened.
static Value rowSoftmax(PlainBuilder &p, Value x) {
  x = p.widen(x);
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  Value exps = p.exp(p.sub(x, p.rows(p.rowMax(x), shape)));
  return p.div(exps, p.rows(p.rowSum(exps), shape));
}

Values SoftmaxOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  return finish(p, rowSoftmax(p, getX()), getResult());
}

Values SoftmaxBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value y = p.widen(getY()), dy = p.widen(getDy());
  Value along = p.rows(p.rowSum(p.mul(dy, y)), typeOf(y).getShape());
  return finish(p, p.mul(y, p.sub(dy, along)), getResult());
}

Values DropoutOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  double rate = getRate().convertToDouble();
  if (rate == 0)
    return {getX()};
  Value x = p.widen(getX());
  Value uniform = RandomUniformOp::create(
      builder, getLoc(), x.getType(), getNameAttr(), getSeed(), getStep(),
      getLayer(), getOffsets(), getGlobalAttr(), getZigzagAttr());
  Value kept = p.compare(CompareKind::GE, uniform, rate);
  Value y = p.select(kept, p.mul(x, 1.0 / (1.0 - rate)), 0.0);
  return finish(p, y, getResult());
}
