//===- Elements.cpp - arithmetic, functions, truth, constants -------------===//

#include "Converter.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

using Binary = Value (FoldingBuilder::*)(Value, Value);

/// `onNumbers`, and of truth values `onTruth`.
template <Binary onNumbers, Binary onTruth>
static Converted arithmetic(const Source &s) {
  bool isTruth = elementOf(s.operand(0)).isInteger(1);
  return one(
      (s.b.*(isTruth ? onTruth : onNumbers))(s.operand(0), s.operand(1)));
}

/// The larger or the smaller one. Equal ones share the gradient, as in
/// `jnp.maximum`, but where kerf.from_jax says which one has it.
template <typename Op, Binary onNumbers, Binary onTruth>
static Converted choice(const Source &s) {
  Value a = s.operand(0), b = s.operand(1);
  if (!isa<FloatType>(elementOf(a)))
    return arithmetic<onNumbers, onTruth>(s);
  auto ties = s.op->getAttrOfType<StringAttr>("ties");
  bool toSecond = ties && ties.getValue() == "second";
  Value made = toSecond ? (s.b.*onNumbers)(b, a) : (s.b.*onNumbers)(a, b);
  auto op = made.getDefiningOp<Op>();
  if (op && !ties && op.getLhs() == a && op.getRhs() == b)
    op.setShareTies(true);
  return one(made);
}

template <Binary onNumbers> static Converted numbers(const Source &s) {
  if (elementOf(s.operand(0)).isInteger(1))
    return s.refuse("arithmetic of truth values");
  return one((s.b.*onNumbers)(s.operand(0), s.operand(1)));
}

/// `onTruth` of truth values alone.
template <Binary onTruth> static Converted truths(const Source &s) {
  if (!elementOf(s.operand(0)).isInteger(1))
    return s.refuse("bits of numbers: random numbers are drawn by Kerf, so "
                    "lower the function without dropout");
  return one((s.b.*onTruth)(s.operand(0), s.operand(1)));
}

static Converted exclusiveOr(const Source &s) {
  if (!elementOf(s.operand(0)).isInteger(1))
    return s.refuse("bits of numbers: random numbers are drawn by Kerf, so "
                    "lower the function without dropout");
  return one(s.b.compare(CompareKind::NE, s.operand(0), s.operand(1)));
}

static Converted complement(const Source &s) {
  if (!elementOf(s.operand(0)).isInteger(1))
    return s.refuse("bits of numbers");
  return one(s.b.negation(s.operand(0)));
}

/// Remainders of what is not negative.
static Value whole(const Source &s, Value like, double number) {
  return s.b.splat(typeOf(like).getShape(), elementOf(like), number);
}

/// True for what constants and positions alone make.
static bool isPositional(Value value) {
  Operation *op = value.getDefiningOp();
  return op && !isa<ParamOp>(op) &&
         llvm::all_of(op->getOperands(),
                      [](Value operand) { return isPositional(operand); });
}

/// x to a small whole power.
static Value product(FoldingBuilder &b, Value x, int64_t times) {
  Value y = x;
  for (int64_t i = 1; i < times; ++i)
    y = b.mul(y, x);
  return y;
}

static Converted power(const Source &s) {
  Value x = s.operand(0), exponent = s.operand(1);
  FoldingBuilder &b = s.b;
  auto known = FoldingBuilder::splatOf(exponent);
  auto base = FoldingBuilder::splatOf(x);
  if (known && base)
    return one(whole(s, x, std::pow(*base, *known)));
  bool isSmall =
      known && *known == std::round(*known) && *known >= 1 && *known <= 16;
  if (isSmall)
    return one(product(b, x, static_cast<int64_t>(*known)));
  if (!elementOf(x).isF32())
    return s.refuse("a power of whole numbers");
  if (known == 0.5)
    return one(b.plain.sqrt(x));
  if (known == -0.5)
    return one(b.plain.rsqrt(x));
  if (isPositional(x) && isPositional(exponent))
    return one(b.plain.pow(x, exponent));
  // Powers of what is trained have a gradient so.
  return one(b.plain.exp(b.mul(exponent, b.plain.log(x))));
}

static Converted clampTo(const Source &s) {
  llvm::ArrayRef<int64_t> shape = s.shape();
  auto wide = [&](Value bound) {
    return typeOf(bound).getRank() ? bound : s.b.broadcast(bound, {}, shape);
  };
  Value low = wide(s.operand(0)), high = wide(s.operand(2));
  return one(s.b.min(high, s.b.max(low, s.operand(1)))); // no slope at a bound
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

using Unary = Value (PlainBuilder::*)(Value);

/// A function of floats, worked out for known numbers.
template <Unary function, double (*known)(double)>
static Converted apply(const Source &s) {
  Value x = s.operand(0);
  if (!elementOf(x).isF32())
    return s.refuse("a function of whole numbers");
  if (auto number = FoldingBuilder::splatOf(x))
    return one(whole(s, x, known(*number)));
  return one((s.b.plain.*function)(x));
}

static double rsqrtOf(double x) { return 1 / std::sqrt(x); }
static double logisticOf(double x) { return 1 / (1 + std::exp(-x)); }

static Converted negate(const Source &s) { return one(s.b.neg(s.operand(0))); }
static Converted absolute(const Source &s) {
  return one(s.b.abs(s.operand(0)));
}
static Converted square(const Source &s) {
  return one(s.b.mul(s.operand(0), s.operand(0)));
}

template <Value (*function)(FoldingBuilder &, Value)>
static Converted ofFloats(const Source &s) {
  if (!elementOf(s.operand(0)).isF32())
    return s.refuse("a function of whole numbers");
  return one(function(s.b, s.operand(0)));
}

static Value expMinusOne(FoldingBuilder &b, Value x) {
  return b.expMinusOne(x);
}
static Value logOnePlus(FoldingBuilder &b, Value x) { return b.logOnePlus(x); }

/// With t = e^x - 1: (t + t / (t + 1)) / 2.
static Value hyperbolicSine(FoldingBuilder &b, Value x) {
  PlainBuilder &p = b.plain;
  Value t = b.expMinusOne(x);
  return p.mul(p.add(t, p.div(t, p.add(t, 1.0))), 0.5);
}
static Value hyperbolicCosine(FoldingBuilder &b, Value x) {
  PlainBuilder &p = b.plain;
  return p.mul(p.add(p.exp(x), p.exp(p.neg(x))), 0.5);
}
static Value inverseTanh(FoldingBuilder &b, Value x) {
  Value apart = b.sub(b.logOnePlus(x), b.logOnePlus(b.neg(x)));
  return b.plain.mul(apart, 0.5);
}

/// 1 - erf(x)
static Converted errorComplement(const Source &s) {
  Value x = s.operand(0);
  if (!elementOf(x).isF32())
    return s.refuse("a function of whole numbers");
  return one(s.b.add(whole(s, x, 1), s.b.plain.erf(s.b.neg(x))));
}

/// True where a number that is not finite may have been put into `value`, as a
/// mask puts it.
static bool mayBeInfinite(Value value, int depth = 8) {
  if (auto number = FoldingBuilder::splatOf(value))
    return !std::isfinite(*number);
  Operation *op = value.getDefiningOp();
  if (!op || isa<ReduceOp, LogOp>(op))
    return false;
  return depth == 0 || llvm::any_of(op->getOperands(), [&](Value operand) {
           return mayBeInfinite(operand, depth - 1);
         });
}

/// Losses that are not finite end a run, so what is trained is finite.
static Converted isFinite(const Source &s) {
  Value x = s.operand(0);
  if (!mayBeInfinite(x))
    return one(s.b.truth(s.shape(), true));
  return one(s.b.compare(CompareKind::LT, s.b.abs(x), whole(s, x, INFINITY)));
}

static Converted sign(const Source &s) {
  Value x = s.operand(0);
  Value zero = whole(s, x, 0);
  Value negative =
      s.b.select(s.b.compare(CompareKind::LT, x, zero), whole(s, x, -1), zero);
  return one(s.b.select(s.b.compare(CompareKind::GT, x, zero), whole(s, x, 1),
                        negative));
}

/// Numbers of which f32 has no halves are whole: 32 bits need not hold them.
static Value wholeOr(const Source &s, Value x, Value rounded) {
  Value isSmall =
      s.b.compare(CompareKind::LT, s.b.abs(x), whole(s, x, 1 << 23));
  return s.b.select(isSmall, rounded, s.b.stopGradient(x));
}

/// The next whole number below, of what 32 bits hold.
static Value below(const Source &s, Value x) {
  Value nearer = s.b.cast(s.b.cast(x, s.b.i32()), s.b.f32());
  Value isAbove = s.b.compare(CompareKind::GT, nearer, x);
  return s.b.sub(nearer, s.b.cast(isAbove, s.b.f32()));
}

/// Of two whole numbers that are as near the even one.
static Value nearest(const Source &s, Value x) {
  Value shifted = s.b.add(x, whole(s, x, 0.5)), upper = below(s, shifted);
  Value half = below(s, s.b.mul(upper, whole(s, x, 0.5)));
  Value isOdd =
      s.b.compare(CompareKind::NE, upper, s.b.mul(half, whole(s, x, 2)));
  Value isTie = s.b.compare(CompareKind::EQ, upper, shifted);
  return s.b.select(s.b.both(isOdd, isTie), s.b.sub(upper, whole(s, x, 1)),
                    upper);
}

static Value above(const Source &s, Value x) {
  return s.b.neg(below(s, s.b.neg(x)));
}

/// Of two whole numbers that are as near the one farther from zero.
static Value nearestFromZero(const Source &s, Value x) {
  Value size = below(s, s.b.add(s.b.abs(x), whole(s, x, 0.5)));
  Value isNegative = s.b.compare(CompareKind::LT, x, whole(s, x, 0));
  return s.b.select(isNegative, s.b.neg(size), size);
}

template <Value (*round)(const Source &, Value), double (*known)(double)>
static Converted rounded(const Source &s) {
  Value x = s.operand(0);
  if (auto number = FoldingBuilder::splatOf(x))
    return one(whole(s, x, known(*number)));
  return one(wholeOr(s, x, round(s, x)));
}

/// With the sign of the dividend. The quotient has no gradient, so that the
/// slope is 1.
static Converted remainder(const Source &s) {
  FoldingBuilder &b = s.b;
  Value x = s.operand(0), divisor = s.operand(1);
  if (elementOf(x).isF32()) {
    Value quotient = b.div(x, divisor);
    Value nearer = b.cast(b.cast(quotient, b.i32()), b.f32());
    return one(b.sub(x, b.mul(wholeOr(s, quotient, nearer), divisor)));
  }
  if (!elementOf(x).isInteger(32) || b.rangeOf(divisor).low <= 0)
    return s.refuse("a remainder by what may be no positive number");
  bool isBelow = b.rangeOf(x).low < 0;
  Value size = isBelow ? b.abs(x) : x;
  Value rest = b.sub(size, b.mul(b.div(size, divisor), divisor));
  b.setRange(rest, {0, b.rangeOf(divisor).high - 1});
  if (!isBelow)
    return one(rest);
  Value isNegative = b.compare(CompareKind::LT, x, whole(s, x, 0));
  return one(b.select(isNegative, b.neg(rest), rest));
}

static Converted tangent(const Source &s) {
  Value x = s.operand(0);
  return one(s.b.div(s.b.plain.sin(x), s.b.plain.cos(x)));
}

//===----------------------------------------------------------------------===//
// Truth and types
//===----------------------------------------------------------------------===//

static Converted compare(const Source &s) {
  auto kind = llvm::StringSwitch<std::optional<CompareKind>>(
                  wordOf(s.op, "comparison_direction"))
                  .Case("EQ", CompareKind::EQ)
                  .Case("NE", CompareKind::NE)
                  .Case("LT", CompareKind::LT)
                  .Case("LE", CompareKind::LE)
                  .Case("GT", CompareKind::GT)
                  .Case("GE", CompareKind::GE)
                  .Default(std::nullopt);
  bool isTruth = elementOf(s.operand(0)).isInteger(1);
  if (!kind ||
      (isTruth && *kind != CompareKind::EQ && *kind != CompareKind::NE))
    return s.refuse("a comparison that is not known");
  // x != x asks for what is no number; see isFinite.
  if (s.operand(0) == s.operand(1))
    return one(s.b.truth(s.shape(), *kind == CompareKind::EQ ||
                                        *kind == CompareKind::LE ||
                                        *kind == CompareKind::GE));
  return one(s.b.compare(*kind, s.operand(0), s.operand(1)));
}

static Converted select(const Source &s) {
  Value condition = s.operand(0);
  if (typeOf(condition).getRank() == 0)
    condition = s.b.broadcast(condition, {}, s.shape());
  return one(s.b.select(condition, s.operand(1), s.operand(2)));
}

static Converted convertType(const Source &s) {
  Value x = s.operand(0);
  if (elementOf(x).isF32() && s.element().isInteger(1))
    return one(s.b.compare(CompareKind::NE, x, whole(s, x, 0)));
  return one(s.b.cast(x, s.element()));
}

static Converted identity(const Source &s) {
  return std::vector<Value>(s.operands);
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

/// True where whole numbers are those of 32 bits; the smallest and the largest
/// of 64 bits stand for those of 32, as beginnings of maxima and minima.
static bool fitsI32(DenseElementsAttr elements) {
  auto whole = dyn_cast<IntegerType>(elements.getElementType());
  if (!whole || whole.isInteger(1))
    return true;
  for (const llvm::APInt &number : elements.getValues<llvm::APInt>()) {
    bool isExtreme = number.isMinSignedValue() || number.isMaxSignedValue();
    bool isHeld =
        whole.isUnsigned() ? number.isIntN(31) : number.isSignedIntN(32);
    if (!isHeld && !isExtreme)
      return false;
  }
  return true;
}

static Converted constant(const Source &s) {
  auto elements = s.op->getAttrOfType<DenseElementsAttr>("value");
  if (!elements)
    return s.refuse("a constant without elements");
  if (elements.getNumElements() == 0)
    return s.refuse("a tensor without elements");
  if (!fitsI32(elements))
    return s.refuse("a whole number that 32 bits do not hold");
  Value made = s.b.table(elements);
  if (!made)
    return s.refuse("a table of " + llvm::Twine(elements.getNumElements()) +
                    " numbers that follows no rule: make it an argument among "
                    "the parameters, or compute it in the function");
  return one(made);
}

static Converted iota(const Source &s) {
  auto dim = integerOf(s.op, "iota_dimension");
  if (!dim || *dim < 0 || *dim >= static_cast<int64_t>(s.shape().size()))
    return s.refuse("an iota without a dimension");
  return one(s.b.cast(s.b.iota(s.shape(), *dim), s.element()));
}

void kerf::addElements(Conversions &table) {
  using B = FoldingBuilder;
  using P = PlainBuilder;
  table["stablehlo.add"] = arithmetic<&B::add, &B::either>;
  table["stablehlo.multiply"] = arithmetic<&B::mul, &B::both>;
  table["stablehlo.maximum"] = choice<MaxOp, &B::max, &B::either>;
  table["stablehlo.minimum"] = choice<MinOp, &B::min, &B::both>;
  table["stablehlo.subtract"] = numbers<&B::sub>;
  table["stablehlo.divide"] = numbers<&B::div>;
  table["stablehlo.and"] = truths<&B::both>;
  table["stablehlo.or"] = truths<&B::either>;
  table["stablehlo.xor"] = exclusiveOr;
  table["stablehlo.not"] = complement;
  table["stablehlo.remainder"] = remainder;
  table["stablehlo.power"] = power;
  table["stablehlo.clamp"] = clampTo;
  table["stablehlo.negate"] = negate;
  table["stablehlo.abs"] = absolute;
  table["stablehlo.sign"] = sign;
  table["chlo.square"] = square;
  table["stablehlo.exponential"] = apply<&P::exp, std::exp>;
  table["stablehlo.log"] = apply<&P::log, std::log>;
  table["stablehlo.sqrt"] = apply<&P::sqrt, std::sqrt>;
  table["stablehlo.rsqrt"] = apply<&P::rsqrt, rsqrtOf>;
  table["stablehlo.tanh"] = apply<&P::tanh, std::tanh>;
  table["stablehlo.sine"] = apply<&P::sin, std::sin>;
  table["stablehlo.cosine"] = apply<&P::cos, std::cos>;
  table["stablehlo.logistic"] = apply<&P::logistic, logisticOf>;
  table["chlo.erf"] = apply<&P::erf, std::erf>;
  table["chlo.erfc"] = errorComplement;
  table["stablehlo.exponential_minus_one"] = ofFloats<expMinusOne>;
  table["stablehlo.log_plus_one"] = ofFloats<logOnePlus>;
  table["chlo.sinh"] = ofFloats<hyperbolicSine>;
  table["chlo.cosh"] = ofFloats<hyperbolicCosine>;
  table["chlo.atanh"] = ofFloats<inverseTanh>;
  table["stablehlo.floor"] = rounded<below, std::floor>;
  table["stablehlo.ceil"] = rounded<above, std::ceil>;
  table["stablehlo.round_nearest_even"] = rounded<nearest, std::nearbyint>;
  table["stablehlo.round_nearest_afz"] = rounded<nearestFromZero, std::round>;
  table["stablehlo.tan"] = tangent;
  table["stablehlo.is_finite"] = isFinite;
  table["stablehlo.compare"] = compare;
  table["stablehlo.select"] = select;
  table["stablehlo.convert"] = convertType;
  table["stablehlo.reduce_precision"] = identity;
  table["stablehlo.optimization_barrier"] = identity;
  table["sdy.sharding_constraint"] = identity; // for XLA's own partitioner
  table["stablehlo.constant"] = constant;
  table["stablehlo.iota"] = iota;
}
