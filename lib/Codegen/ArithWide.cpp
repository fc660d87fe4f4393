//===- ArithWide.cpp - functions of f64 without a C library ---------------===//
//
// GPUs have no C library. Series are long enough for f64: their remainder is
// below 1e-16 of the result.
//
//===----------------------------------------------------------------------===//

#include "Arith.h"

#include <cmath>

using namespace mlir;
using namespace kerf::codegen;

namespace LLVM = mlir::LLVM;

// e^x = 2^n e^r as in `exp`; |r| <= ln 2 / 2, and r^14 / 14! < 5e-18.
Value Arith::wideExp(Value x) {
  Type type = x.getType(), integer = shaped(i64(), type);
  auto clamp = [&](Value v, double bound, arith::CmpFPredicate isBeyond) {
    Value limit = number(type, bound);
    Value beyond = arith::CmpFOp::create(builder, loc, isBeyond, v, limit);
    return select(beyond, limit, v);
  };
  x = clamp(x, 710, arith::CmpFPredicate::OGT); // a NaN stays
  x = clamp(x, -746, arith::CmpFPredicate::OLT);
  constexpr double magic = 0x1.8p52;
  Value shifted = add(mul(x, M_LOG2E), magic);
  Value n = add(shifted, -magic);
  constexpr double high = 0x1.62e42fefa0000p-1; // n * high is exact
  constexpr double low = 0x1.cf79abc9e3b3ap-40;
  Value r = sub(sub(x, mul(n, high)), mul(n, low));
  llvm::SmallVector<double> terms;
  double factorial = 1;
  for (int64_t i = 0; i < 14; ++i) {
    terms.push_back(1 / factorial);
    factorial *= i + 1;
  }
  Value y = polynomial(r, terms);
  Value whole = sub(arith::BitcastOp::create(builder, loc, integer, shifted),
                    bits(integer, 0x4338000000000000));
  Value half = arith::ShRSIOp::create(builder, loc, whole, bits(integer, 1));
  auto power = [&](Value exponent) {
    Value biased = add(exponent, bits(integer, 1023));
    Value word = arith::ShLIOp::create(builder, loc, biased, bits(integer, 52));
    return arith::BitcastOp::create(builder, loc, type, word);
  };
  return mul(mul(y, power(half)), power(sub(whole, half)));
}

// x = 2^n m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh s, s = (m - 1) /
// (m + 1), |s| < 0.172: s^20 / 21 < 3e-17.
Value Arith::wideLog(Value x) {
  Type type = x.getType(), integer = shaped(i64(), type);
  Value isTiny = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                       x, number(type, 0x1p-1022));
  Value scaled = select(isTiny, mul(x, 0x1p54), x);
  Value word = arith::BitcastOp::create(builder, loc, integer, scaled);
  constexpr uint64_t root = 0x3fe6a09e667f3bcd; // sqrt(1/2)
  Value exponent = arith::ShRSIOp::create(
      builder, loc, sub(word, bits(integer, root)), bits(integer, 52));
  Value mantissa = sub(
      word, arith::ShLIOp::create(builder, loc, exponent, bits(integer, 52)));
  Value f = add(arith::BitcastOp::create(builder, loc, type, mantissa), -1);
  Value n = cast(exponent, f64());
  n = sub(n, select(isTiny, number(type, 54), number(type, 0)));
  Value s = div(f, add(f, 2));
  Value square = mul(s, s);
  llvm::SmallVector<double> terms;
  for (int64_t i = 1; i < 10; ++i)
    terms.push_back(2.0 / (2 * i + 1));
  Value tail = mul(mul(s, square), polynomial(square, terms));
  constexpr double high = 0x1.62e42fefa0000p-1;
  constexpr double low = 0x1.cf79abc9e3b3ap-40;
  Value y = add(add(mul(n, low), tail), mul(s, 2));
  y = add(y, mul(n, high));
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

// e^(b ln |a|), with the sign of a where b is odd, and NaN for a < 0 where b is
// no integer. 1 to any power and any number to the power 0 are 1.
Value Arith::widePow(Value a, Value b) {
  Type type = a.getType();
  Value zero = number(type, 0), one = number(type, 1);
  auto test = [&](arith::CmpFPredicate p, Value x, Value y) -> Value {
    return arith::CmpFOp::create(builder, loc, p, x, y);
  };
  auto floor = [&](Value x) -> Value {
    return LLVM::FFloorOp::create(builder, loc, x);
  };
  Value y = wideExp(mul(b, wideLog(abs(a))));
  Value isWhole = test(arith::CmpFPredicate::OEQ, floor(b), b);
  Value half = mul(b, 0.5);
  Value isOdd = test(arith::CmpFPredicate::ONE, floor(half), half);
  Value isNegative = test(arith::CmpFPredicate::OLT, a, zero);
  Value withSign = select(isWhole, select(isOdd, neg(y), y), number(type, NAN));
  y = select(isNegative, withSign, y);
  y = select(test(arith::CmpFPredicate::OEQ, b, zero), one, y);
  return select(test(arith::CmpFPredicate::OEQ, a, one), one, y);
}

// |x| < 0.5: t / (t + 2) with t = e^2|x| - 1 as a series; else 1 - 2 / (e^2|x|
// + 1).
Value Arith::wideTanh(Value x) {
  Type type = x.getType();
  Value twice = mul(abs(x), 2);
  llvm::SmallVector<double> terms;
  double factorial = 1;
  for (int64_t i = 1; i < 20; ++i) {
    factorial *= i;
    terms.push_back(1 / factorial);
  }
  Value isNear = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                       twice, number(type, 1));
  Value small = select(isNear, twice, number(type, 1));
  Value t = mul(small, polynomial(small, terms));
  Value near = div(t, add(t, 2));
  Value far =
      sub(number(type, 1), div(number(type, 2), add(wideExp(twice), 1)));
  Value size = select(isNear, near, far);
  return LLVM::CopySignOp::create(builder, loc, size, x);
}

// erf x = 2 / sqrt(pi) x e^-x^2 sum of (2 x^2)^n / (1 3 5 ... (2n + 1)): all
// terms are positive. From |x| = 6 on it is 1.
Value Arith::wideErf(Value x) {
  Type type = x.getType();
  Value size = abs(x), limit = number(type, 6);
  Value isFar = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT,
                                      size, limit);
  size = select(isFar, limit, size);
  Value square = mul(size, size);
  llvm::SmallVector<double> terms = {1};
  constexpr int64_t count = 130; // 72^n / 261!! < 1e-17 of their sum
  for (int64_t n = 1; n < count; ++n)
    terms.push_back(terms.back() * 2 / (2 * n + 1));
  Value sum = polynomial(square, terms);
  Value y = mul(mul(mul(size, M_2_SQRTPI), wideExp(neg(square))), sum);
  Value isOne = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT,
                                      y, number(type, 1));
  y = select(isOne, number(type, 1), y);
  return LLVM::CopySignOp::create(builder, loc, y, x);
}

// x = n pi/2 + r as in `circular`, with pi/2 in three parts, whose products
// with n are exact below 2^20.
Value Arith::wideCircular(Value x, int64_t quarter) {
  Type type = x.getType(), integer = shaped(i64(), type);
  Value turns = LLVM::RoundEvenOp::create(builder, loc, mul(x, M_2_PI));
  constexpr double first = 0x1.921fb544p0, second = 0x1.0b4611a6p-34,
                   third = 0x1.3198a2e037073p-69;
  Value r = sub(sub(x, mul(turns, first)), mul(turns, second));
  r = sub(r, mul(turns, third));
  Value isWild = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UGT,
                                       abs(turns), number(type, 0x1p30));
  Value count = cast(select(isWild, number(type, 0), turns), i64());
  count = add(count, bits(integer, quarter));
  llvm::SmallVector<double> sines, cosines;
  double factorial = 1;
  for (int64_t n = 0; n < 10; ++n) {
    double sign = n % 2 ? -1 : 1;
    cosines.push_back(sign / factorial);
    factorial *= 2 * n + 1;
    sines.push_back(sign / factorial);
    factorial *= 2 * n + 2;
  }
  Value square = mul(r, r);
  Value sine = mul(r, polynomial(square, sines));
  Value cosine = polynomial(square, cosines);
  auto hasBit = [&](uint64_t mask) -> Value {
    Value masked =
        arith::AndIOp::create(builder, loc, count, bits(integer, mask));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, masked,
                                 bits(integer, 0));
  };
  Value y = select(hasBit(1), cosine, sine);
  return select(hasBit(2), neg(y), y);
}
