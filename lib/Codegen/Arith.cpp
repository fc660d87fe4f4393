//===- Arith.cpp - arithmetic on scalars and vectors ----------------------===//

#include "Arith.h"

#include <cmath>

using namespace mlir;
using namespace kerf::codegen;

namespace LLVM = mlir::LLVM;

static constexpr auto kFlags = arith::FastMathFlags::contract;

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

Type Arith::vector(Type element, int64_t lanes) {
  return VectorType::get({lanes}, element);
}

Type Arith::shaped(Type element, Type like) {
  if (auto type = dyn_cast<VectorType>(like))
    return VectorType::get(type.getShape(), element);
  return element;
}

static TypedAttr constantAttr(Type type, Attribute element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return DenseElementsAttr::get(vector, element);
  return cast<TypedAttr>(element);
}

Value Arith::number(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  if (isa<IntegerType>(element))
    return bits(type, static_cast<uint64_t>(static_cast<int64_t>(value)));
  return arith::ConstantOp::create(
      builder, loc, constantAttr(type, builder.getFloatAttr(element, value)));
}

Value Arith::bits(Type type, uint64_t value) {
  Type element = getElementTypeOrSelf(type);
  llvm::APInt number(element.getIntOrFloatBitWidth(), value,
                     /*isSigned=*/false, /*implicitTrunc=*/true);
  return arith::ConstantOp::create(
      builder, loc,
      constantAttr(type, builder.getIntegerAttr(element, number)));
}

Value Arith::splat(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(builder, loc,
                                     vector(scalar.getType(), lanes), scalar);
}

Value Arith::steps(Type element, int64_t lanes, int64_t step) {
  llvm::SmallVector<Attribute> values;
  for (int64_t i = 0; i < lanes; ++i)
    values.push_back(builder.getIntegerAttr(element, i * step));
  auto type = VectorType::get({lanes}, element);
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(type, values));
}

void Arith::match(Value &a, Value &b) {
  auto va = dyn_cast<VectorType>(a.getType());
  auto vb = dyn_cast<VectorType>(b.getType());
  if (va && !vb)
    b = splat(b, va.getNumElements());
  if (vb && !va)
    a = splat(a, vb.getNumElements());
}

//===----------------------------------------------------------------------===//
// Basic operations
//===----------------------------------------------------------------------===//

static bool isFloat(Value x) {
  return isa<FloatType>(getElementTypeOrSelf(x.getType()));
}

static bool hasF32(Value x) {
  return getElementTypeOrSelf(x.getType()).isF32();
}

template <typename FloatOp, typename IntOp>
static Value binary(Arith &a, Value x, Value y) {
  a.match(x, y);
  if (isFloat(x))
    return FloatOp::create(a.builder, a.loc, x, y, kFlags);
  return IntOp::create(a.builder, a.loc, x, y);
}

Value Arith::add(Value a, Value b) {
  return binary<arith::AddFOp, arith::AddIOp>(*this, a, b);
}
Value Arith::sub(Value a, Value b) {
  return binary<arith::SubFOp, arith::SubIOp>(*this, a, b);
}
Value Arith::mul(Value a, Value b) {
  return binary<arith::MulFOp, arith::MulIOp>(*this, a, b);
}

Value Arith::neg(Value a) {
  if (isFloat(a))
    return arith::NegFOp::create(builder, loc, a, kFlags);
  return sub(bits(a.getType(), 0), a);
}

Value Arith::div(Value a, Value b) {
  match(a, b);
  if (isFloat(a))
    return arith::DivFOp::create(builder, loc, a, b, kFlags);
  // f64 holds quotients of i32 closely enough that their floors are exact.
  Value isZero = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                       b, bits(b.getType(), 0));
  Value safe = select(isZero, bits(b.getType(), 1), b);
  Value ratio = LLVM::FFloorOp::create(
      builder, loc,
      arith::DivFOp::create(builder, loc, cast(a, f64()), cast(safe, f64())));
  Value wide =
      arith::FPToSIOp::create(builder, loc, shaped(i64(), a.getType()), ratio);
  Value quotient = arith::TruncIOp::create(builder, loc, a.getType(), wide);
  return select(isZero, bits(b.getType(), 0), quotient);
}

Value Arith::compare(arith::CmpFPredicate floats, arith::CmpIPredicate integers,
                     Value a, Value b) {
  match(a, b);
  if (isFloat(a))
    return arith::CmpFOp::create(builder, loc, floats, a, b);
  return arith::CmpIOp::create(builder, loc, integers, a, b);
}

Value Arith::select(Value condition, Value a, Value b) {
  match(a, b);
  if (auto type = dyn_cast<VectorType>(condition.getType()))
    if (!isa<VectorType>(a.getType())) {
      a = splat(a, type.getNumElements());
      b = splat(b, type.getNumElements());
    }
  if (isa<VectorType>(a.getType()))
    if (!isa<VectorType>(condition.getType()))
      condition =
          splat(condition, cast<VectorType>(a.getType()).getNumElements());
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

// The sign of a zero is not specified, which saves instructions.
static Value extremum(Arith &a, Value x, Value y, bool isMax) {
  a.match(x, y);
  auto predicate =
      isMax ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OLE;
  Value takesX = a.compare(
      predicate, isMax ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle,
      x, y);
  if (!isFloat(x))
    return a.select(takesX, x, y);
  Value chosen = a.select(takesX, x, y); // y if one is NaN
  Value isNaN =
      arith::CmpFOp::create(a.builder, a.loc, arith::CmpFPredicate::UNO, x, x);
  return a.select(isNaN, x, chosen);
}

Value Arith::max(Value a, Value b) {
  if (isGpu && hasF32(a)) // one instruction
    return binary<arith::MaximumFOp, arith::MaxSIOp>(*this, a, b);
  return extremum(*this, a, b, true);
}

Value Arith::min(Value a, Value b) {
  if (isGpu && hasF32(a))
    return binary<arith::MinimumFOp, arith::MinSIOp>(*this, a, b);
  return extremum(*this, a, b, false);
}

Value Arith::pow(Value a, Value b) {
  match(a, b);
  Type element = getElementTypeOrSelf(a.getType());
  Value base = cast(a, f64()), exponent = cast(b, f64());
  Value power = isGpu ? widePow(base, exponent)
                      : Value(LLVM::PowOp::create(builder, loc, base.getType(),
                                                  base, exponent));
  if (isa<FloatType>(element))
    return cast(power, element);
  // An integer, or below one half: what rounding left of it does not count.
  power = LLVM::RoundEvenOp::create(builder, loc, power);
  Value wide =
      arith::FPToSIOp::create(builder, loc, shaped(i64(), a.getType()), power);
  return arith::TruncIOp::create(builder, loc, a.getType(), wide);
}

/// Casts between number types of the plain ops.
Value Arith::cast(Value x, Type element) {
  Type from = getElementTypeOrSelf(x.getType());
  Type to = shaped(element, x.getType());
  if (from == element)
    return x;
  if (element.isInteger(1)) {
    Value zero = number(x.getType(), 0);
    return compare(arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne, x,
                   zero);
  }
  if (isa<IntegerType>(from) && isa<IntegerType>(element)) {
    if (from.isInteger(1))
      return arith::ExtUIOp::create(builder, loc, to, x);
    if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
      return arith::ExtSIOp::create(builder, loc, to, x);
    return arith::TruncIOp::create(builder, loc, to, x);
  }
  if (from.isInteger(1))
    return arith::UIToFPOp::create(builder, loc, to, x);
  if (isa<IntegerType>(from))
    return arith::SIToFPOp::create(builder, loc, to, x);
  if (isa<IntegerType>(element))
    return arith::FPToSIOp::create(builder, loc, to, x);
  if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(builder, loc, to, x);
  return arith::TruncFOp::create(builder, loc, to, x);
}

Value Arith::sqrt(Value x) { return LLVM::SqrtOp::create(builder, loc, x); }
Value Arith::abs(Value x) { return LLVM::FAbsOp::create(builder, loc, x); }

Value Arith::reduceLanes(Value x, bool isMax) {
  // Halves are joined, then quarters: a fixed order, and few instructions.
  int64_t lanes = cast<VectorType>(x.getType()).getNumElements();
  for (; lanes > 1; lanes /= 2) {
    llvm::SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < lanes / 2; ++i) {
      low.push_back(i);
      high.push_back(lanes / 2 + i);
    }
    Value a = vector::ShuffleOp::create(builder, loc, x, x, low);
    Value b = vector::ShuffleOp::create(builder, loc, x, x, high);
    x = isMax ? max(a, b) : add(a, b);
  }
  return vector::ExtractOp::create(builder, loc, x, llvm::ArrayRef<int64_t>{0});
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

// The coefficients below were fitted to the least largest relative error on the
// stated intervals (Lawson's iteration in f64).

Value Arith::polynomial(Value x, llvm::ArrayRef<double> coefficients) {
  Value sum = number(x.getType(), coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back()))
    sum = add(mul(sum, x), c);
  return sum;
}

/// Calls an intrinsic, which may become a function of the C library.
template <typename Op> static Value intrinsic(Arith &a, Value x) {
  return Op::create(a.builder, a.loc, x.getType(), x);
}

static bool isDouble(Value x) {
  return getElementTypeOrSelf(x.getType()).isF64();
}

// e^x = 2^n e^r with n the nearest integer to x / ln 2, |r| <= ln 2 / 2. Adding
// 1.5 * 2^23 rounds to an integer and leaves it in the low bits. 2^n is applied
// in two factors, so that results may be infinite or denormal.
Value Arith::exp(Value x) {
  if (isDouble(x))
    return isGpu ? wideExp(x) : intrinsic<LLVM::ExpOp>(*this, x);
  if (isGpu)
    return deviceExp(x);
  Type type = x.getType(), integer = shaped(i32(), type);
  auto clamp = [&](Value v, double bound, arith::CmpFPredicate isBeyond) {
    Value limit = number(type, bound);
    Value beyond = arith::CmpFOp::create(builder, loc, isBeyond, v, limit);
    return select(beyond, limit, v);
  };
  x = clamp(x, 89, arith::CmpFPredicate::OGT); // a NaN stays
  x = clamp(x, -104, arith::CmpFPredicate::OLT);
  constexpr double magic = 12582912;
  Value shifted = add(mul(x, M_LOG2E), magic);
  Value n = add(shifted, -magic);
  constexpr double high = 0.693145751953125; // 15 bits: n * high is exact
  Value r = sub(x, mul(n, high));
  r = sub(r, mul(n, M_LN2 - high));
  Value tail = polynomial(r, {0.49999993412261107, 0.1666652010554394,
                              0.04166839425910904, 0.00836878062243449,
                              0.001381446475545359});
  Value y = add(add(mul(mul(r, r), tail), r), 1);
  Value whole = sub(arith::BitcastOp::create(builder, loc, integer, shifted),
                    bits(integer, 0x4b400000));
  Value half = arith::ShRSIOp::create(builder, loc, whole, bits(integer, 1));
  auto power = [&](Value exponent) {
    Value biased = add(exponent, bits(integer, 127));
    Value word = arith::ShLIOp::create(builder, loc, biased, bits(integer, 23));
    return arith::BitcastOp::create(builder, loc, type, word);
  };
  return mul(mul(y, power(half)), power(sub(whole, half)));
}

// x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
Value Arith::log(Value x) {
  if (isDouble(x))
    return isGpu ? wideLog(x) : intrinsic<LLVM::LogOp>(*this, x);
  Type type = x.getType(), integer = shaped(i32(), type);
  Value isTiny = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                       x, number(type, 0x1p-126));
  Value scaled = select(isTiny, mul(x, 0x1p23), x);
  Value word = arith::BitcastOp::create(builder, loc, integer, scaled);
  constexpr uint64_t root = 0x3f3504f3; // sqrt(1/2)
  Value offset = sub(word, bits(integer, root));
  Value exponent =
      arith::ShRSIOp::create(builder, loc, offset, bits(integer, 23));
  Value mantissa = sub(
      word, arith::ShLIOp::create(builder, loc, exponent, bits(integer, 23)));
  Value f = add(arith::BitcastOp::create(builder, loc, type, mantissa), -1);
  Value n = cast(exponent, f32());
  n = sub(n, select(isTiny, number(type, 23), number(type, 0)));
  Value tail = polynomial(
      f, {0.3333331260280204, -0.25000009603661155, 0.20002118732252172,
          -0.1666799566676341, 0.1421955090706603, -0.12405591422099697,
          0.11888174611277366, -0.11675641279304286, 0.06746601271012037});
  Value square = mul(f, f);
  constexpr double high = 0.693145751953125;
  Value low = add(mul(mul(square, f), tail), mul(n, M_LN2 - high));
  Value y = add(add(sub(low, mul(square, 0.5)), f), mul(n, high));
  Value zero = number(type, 0), infinity = number(type, INFINITY);
  auto when = [&](arith::CmpFPredicate p, Value bound, Value result) {
    Value holds = arith::CmpFOp::create(builder, loc, p, x, bound);
    y = select(holds, result, y);
  };
  when(arith::CmpFPredicate::OEQ, infinity, infinity);
  when(arith::CmpFPredicate::OEQ, zero, number(type, -INFINITY));
  when(arith::CmpFPredicate::ULT, zero, number(type, NAN));
  return y;
}

// |x| < 0.625: odd polynomial; else 1 - 2 / (e^2|x| + 1).
Value Arith::tanh(Value x) {
  if (isDouble(x))
    return isGpu ? wideTanh(x) : intrinsic<LLVM::TanhOp>(*this, x);
  Type type = x.getType();
  Value size = abs(x), square = mul(x, x);
  Value tail = polynomial(square, {-0.33333281185821884, 0.13331420398932026,
                                   -0.05373779925940544, 0.020632549832255022,
                                   -0.00569738752447744});
  Value near = add(mul(mul(x, square), tail), x);
  Value far =
      sub(number(type, 1), div(number(type, 2), add(exp(add(size, size)), 1)));
  far = LLVM::CopySignOp::create(builder, loc, far, x);
  Value isNear = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                       size, number(type, 0.625));
  return select(isNear, near, far);
}

// |x| < 1: odd polynomial; else 1 - e^-p(|x|), with p fitted to -ln(erfc).
Value Arith::erf(Value x) {
  if (isDouble(x))
    return isGpu ? wideErf(x) : libm("erf", x);
  Type type = x.getType();
  Value size = abs(x), square = mul(x, x);
  Value tail = polynomial(square, {0.12837916573172778, -0.37612625838076097,
                                   0.1128358525773622, -0.0268538156296566,
                                   0.005188333778104944, -0.000801024193162649,
                                   7.854008867921582e-05});
  Value near = add(mul(x, tail), x);
  Value four = number(type, 4);
  Value isFar = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT,
                                      size, four);
  Value logarithm =
      polynomial(select(isFar, four, size),
                 {0.0003205644250173752, 1.127171690562129, 0.6380121468354161,
                  0.10321826527343451, -0.02188967334182903,
                  0.002960122201686559, -0.0001876056441532267});
  Value far = sub(number(type, 1), exp(neg(logarithm)));
  far = LLVM::CopySignOp::create(builder, loc, far, x);
  Value isNear = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                       size, number(type, 1));
  return select(isNear, near, far);
}

// x = n pi/2 + r with |r| <= pi/4, reduced in f64: exact enough for all angles
// below 2^30. `quarter` 1 is the cosine.
Value Arith::circular(Value x, int64_t quarter) {
  if (isDouble(x))
    return isGpu     ? wideCircular(x, quarter)
           : quarter ? intrinsic<LLVM::CosOp>(*this, x)
                     : intrinsic<LLVM::SinOp>(*this, x);
  Type type = x.getType(), integer = shaped(i32(), type);
  Value wide = cast(x, f64());
  Value turns = intrinsic<LLVM::RoundEvenOp>(*this, mul(wide, M_2_PI));
  Value r = sub(wide, mul(turns, M_PI_2));
  r = cast(sub(r, mul(turns, 6.123233995736766e-17)), f32());
  Value limit = number(turns.getType(), 0x1p30);
  Value isWild = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UGT,
                                       abs(turns), limit);
  Value count = cast(select(isWild, number(turns.getType(), 0), turns), i32());
  count = add(count, bits(integer, quarter));
  Value square = mul(r, r);
  Value sine =
      add(mul(mul(r, square),
              polynomial(square,
                         {-0.16666666640588704, 0.008333329280570439,
                          -0.00019839304427730418, 2.7180465709293203e-06})),
          r);
  Value cosine =
      add(add(mul(mul(square, square),
                  polynomial(square,
                             {0.041666666619104724, -0.0013888883467105663,
                              2.4799451516291845e-05, -2.720504384162904e-07})),
              mul(square, -0.5)),
          1);
  auto hasBit = [&](uint64_t mask) {
    Value masked =
        arith::AndIOp::create(builder, loc, count, bits(integer, mask));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, masked,
                                 bits(integer, 0));
  };
  Value y = select(hasBit(1), cosine, sine);
  return select(hasBit(2), neg(y), y);
}

/// A function of f64 that has no intrinsic: declared and called by element.
Value Arith::libm(llvm::StringRef name, Value x) {
  auto module = builder.getInsertionBlock()->getParentOp();
  while (!isa<ModuleOp>(module))
    module = module->getParentOp();
  auto type = LLVM::LLVMFunctionType::get(f64(), {f64()});
  auto function = cast<ModuleOp>(module).lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!function) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(cast<ModuleOp>(module).getBody());
    function = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  }
  auto call = [&](Value scalar) {
    return LLVM::CallOp::create(builder, loc, function, scalar).getResult();
  };
  auto vectorType = dyn_cast<VectorType>(x.getType());
  if (!vectorType)
    return call(x);
  Value result = number(vectorType, 0);
  for (int64_t i = 0; i < vectorType.getNumElements(); ++i) {
    llvm::ArrayRef<int64_t> at(i);
    Value element = vector::ExtractOp::create(builder, loc, x, at);
    result = vector::InsertOp::create(builder, loc, call(element), result, at);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

Value Arith::fromBf16(Value x) {
  Type integer = shaped(i32(), x.getType());
  Value word = arith::ExtUIOp::create(builder, loc, integer, x);
  word = arith::ShLIOp::create(builder, loc, word, bits(integer, 16));
  return arith::BitcastOp::create(builder, loc, shaped(f32(), x.getType()),
                                  word);
}

Value Arith::toBf16(Value x) {
  Type integer = shaped(i32(), x.getType());
  if (hasBf16 && (isGpu || isa<VectorType>(x.getType()))) {
    Value rounded = arith::TruncFOp::create(
        builder, loc, shaped(builder.getBF16Type(), x.getType()), x);
    return arith::BitcastOp::create(
        builder, loc, shaped(builder.getI16Type(), x.getType()), rounded);
  }
  Value word = arith::BitcastOp::create(builder, loc, integer, x);
  auto shift = [&](Value v) -> Value {
    return arith::ShRUIOp::create(builder, loc, v, bits(integer, 16));
  };
  Value odd =
      arith::AndIOp::create(builder, loc, shift(word), bits(integer, 1));
  Value rounded = add(word, add(odd, bits(integer, 0x7fff)));
  Value isNaN =
      arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO, x, x);
  Value quiet =
      arith::OrIOp::create(builder, loc, word, bits(integer, 0x400000));
  return arith::TruncIOp::create(builder, loc,
                                 shaped(builder.getI16Type(), x.getType()),
                                 shift(select(isNaN, quiet, rounded)));
}

Value Arith::mixBits(Value x) {
  Type type = x.getType();
  auto fold = [&](Value v, uint64_t shift) -> Value {
    Value high = arith::ShRUIOp::create(builder, loc, v, bits(type, shift));
    return arith::XOrIOp::create(builder, loc, v, high);
  };
  x = add(x, bits(type, 0x9e3779b97f4a7c15u));
  x = mul(fold(x, 30), bits(type, 0xbf58476d1ce4e5b9u));
  x = mul(fold(x, 27), bits(type, 0x94d049bb133111ebu));
  return fold(x, 31);
}
