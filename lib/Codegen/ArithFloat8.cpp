//===- ArithFloat8.cpp - 8-bit floats and powers of two -------------------===//
//
// Numbers of 8-bit floats are their bits (i8), also in registers: they are
// moved and cast only.
//
// A magnitude a above the smallest normal number has its code in its bits: the
// upper ones, rounded, less the difference of the biases. Below it, numbers are
// multiples of one quantum q, and a + 2^23 q is a rounded to one of them, with
// the multiple in its low bits.
//
//===----------------------------------------------------------------------===//

#include "Arith.h"

#include <cmath>

using namespace mlir;
using namespace kerf::codegen;

namespace {
/// A format of one sign bit, exponents and `digits` digits.
struct Format {
  explicit Format(Type type)
      : isE4M3(isa<Float8E4M3FNType>(type)), digits(isE4M3 ? 3 : 2),
        bias(isE4M3 ? 7 : 15), largest(isE4M3 ? 448 : 57344),
        notANumber(isE4M3 ? 0x7f : 0x7e), firstNotFinite(isE4M3 ? 0x7f : 0x7c) {
  }

  bool isE4M3;
  int digits, bias;
  double largest;
  uint64_t notANumber, firstNotFinite;

  int shift() const { return 23 - digits; }
  double smallestNormal() const { return std::ldexp(1.0, 1 - bias); }
  double quantum() const { return std::ldexp(1.0, 1 - bias - digits); }
  /// What the exponents of f32 exceed these by, at the place of the code.
  uint64_t biasBits() const { return uint64_t(127 - bias) << digits; }
};
} // namespace

/// Two numbers by the instruction of sm_89 and later: that of `low` in the low
/// byte.
static Value convertPair(Arith &a, Value low, Value high, Type element) {
  bool isE4M3 = isa<Float8E4M3FNType>(element);
  StringAttr name = a.builder.getStringAttr(
      isE4M3 ? "llvm.nvvm.ff.to.e4m3x2.rn" : "llvm.nvvm.ff.to.e5m2x2.rn");
  return LLVM::CallIntrinsicOp::create(a.builder, a.loc, a.builder.getI16Type(),
                                       name, ValueRange{high, low})
      .getResult(0);
}

Value Arith::convertToFloat8(Value x, Type element) {
  auto vector = dyn_cast<VectorType>(x.getType());
  if (!vector)
    return arith::TruncIOp::create(
        builder, loc, builder.getI8Type(),
        convertPair(*this, x, number(f32(), 0), element));
  int64_t lanes = vector.getNumElements();
  auto lane = [&](int64_t i) -> Value {
    return vector::ExtractOp::create(builder, loc, x,
                                     llvm::ArrayRef<int64_t>{i});
  };
  Value pairs = bits(VectorType::get({lanes / 2}, builder.getI16Type()), 0);
  for (int64_t i = 0; i < lanes; i += 2)
    pairs = vector::InsertOp::create(
        builder, loc, convertPair(*this, lane(i), lane(i + 1), element), pairs,
        llvm::ArrayRef<int64_t>{i / 2});
  return vector::BitCastOp::create(
      builder, loc, VectorType::get({lanes}, builder.getI8Type()), pairs);
}

Value Arith::toFloat8(Value x, Type element) {
  if (hasFloat8)
    return convertToFloat8(x, element);
  Format format(element);
  Type type = x.getType(), integer = shaped(i32(), type);
  auto bitsOf = [&](Value v) -> Value {
    return arith::BitcastOp::create(builder, loc, integer, v);
  };
  auto shifted = [&](Value v, uint64_t by) -> Value {
    return arith::ShRUIOp::create(builder, loc, v, bits(integer, by));
  };
  auto masked = [&](Value v, uint64_t mask) -> Value {
    return arith::AndIOp::create(builder, loc, v, bits(integer, mask));
  };
  auto minus = [&](Value a, Value b) -> Value {
    return arith::SubIOp::create(builder, loc, a, b);
  };
  Value magnitude = min(abs(x), number(type, format.largest));
  Value word = bitsOf(magnitude);
  Value odd = masked(shifted(word, format.shift()), 1);
  Value half = bits(integer, (uint64_t(1) << (format.shift() - 1)) - 1);
  Value normal = minus(shifted(add(word, add(odd, half)), format.shift()),
                       bits(integer, format.biasBits()));
  Value anchor = number(type, std::ldexp(format.quantum(), 23));
  Value small = minus(bitsOf(add(magnitude, anchor)), bitsOf(anchor));
  Value isSmall =
      arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, magnitude,
                            number(type, format.smallestNormal()));
  Value isNaN =
      arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO, x, x);
  Value code = select(isNaN, bits(integer, format.notANumber),
                      select(isSmall, small, normal));
  code = arith::OrIOp::create(builder, loc, code,
                              masked(shifted(bitsOf(x), 24), 0x80));
  return arith::TruncIOp::create(builder, loc,
                                 shaped(builder.getI8Type(), type), code);
}

Value Arith::fromFloat8(Value x, Type element) {
  Format format(element);
  Type integer = shaped(i32(), x.getType()), type = shaped(f32(), x.getType());
  Value code = arith::ExtUIOp::create(builder, loc, integer, x);
  auto masked = [&](uint64_t mask) -> Value {
    return arith::AndIOp::create(builder, loc, code, bits(integer, mask));
  };
  auto left = [&](Value v, uint64_t by) -> Value {
    return arith::ShLIOp::create(builder, loc, v, bits(integer, by));
  };
  auto isBelow = [&](Value v, uint64_t limit) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, v,
                                 bits(integer, limit));
  };
  Value magnitude = masked(0x7f);
  Value small =
      mul(arith::UIToFPOp::create(builder, loc, type, magnitude).getResult(),
          format.quantum());
  Value normal =
      left(add(magnitude, bits(integer, format.biasBits())), format.shift());
  Value word =
      select(isBelow(magnitude, uint64_t(1) << format.digits),
             arith::BitcastOp::create(builder, loc, integer, small), normal);
  word = select(isBelow(magnitude, format.firstNotFinite), word,
                bits(integer, 0x7fc00000));
  word = arith::OrIOp::create(builder, loc, word, left(masked(0x80), 24));
  return arith::BitcastOp::create(builder, loc, type, word);
}

Value Arith::powerOfTwo(Value x) {
  Type integer = shaped(i32(), x.getType());
  Value word = arith::BitcastOp::create(builder, loc, integer, abs(x));
  // Above every number's bits are those of NaN.
  word = arith::MinUIOp::create(builder, loc, word, bits(integer, 0x7f000000));
  word = add(word, bits(integer, 0x007fffff));
  word = arith::AndIOp::create(builder, loc, word, bits(integer, 0x7f800000));
  word = arith::MaxUIOp::create(builder, loc, word, bits(integer, 0x00800000));
  return arith::BitcastOp::create(builder, loc, x.getType(), word);
}
