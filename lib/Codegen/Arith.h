//===- Arith.h - arithmetic on scalars and vectors ------------------------===//
//
// Builds arithmetic for values that are scalars or one-dimensional vectors;
// where one operand is a scalar and the other a vector, the scalar is spread.
// The numbers of a tensor of bf16 or f16 are f32 here: they are rounded when
// they are stored.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_CODEGEN_ARITH_H
#define KERF_CODEGEN_ARITH_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

namespace kerf::codegen {

struct Arith {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  bool hasBf16 = false;   ///< vectors are rounded to bf16 by an instruction
  bool isGpu = false;     ///< no C library; `hasBf16` holds of scalars, too
  bool hasFloat8 = false; ///< an instruction rounds to 8-bit floats

  using Value = mlir::Value;
  using Type = mlir::Type;

  Type f32() { return builder.getF32Type(); }
  Type f64() { return builder.getF64Type(); }
  Type i32() { return builder.getI32Type(); }
  Type i64() { return builder.getI64Type(); }

  /// `element`, or a vector of it shaped like `like`.
  Type shaped(Type element, Type like);
  /// `type` as a vector of `lanes` elements.
  Type vector(Type element, int64_t lanes);

  Value number(Type type, double value); ///< float, or integer of any width
  Value bits(Type type, uint64_t value);
  Value splat(Value scalar, int64_t lanes);
  /// `first, first + step, ...`, for integers.
  Value steps(Type element, int64_t lanes, int64_t step);

  /// Spreads the one of both that is no vector.
  void match(Value &a, Value &b);

  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b); ///< integers: rounded down, 0 by zero
  Value max(Value a, Value b); ///< NaN if one is NaN
  Value min(Value a, Value b);
  Value pow(Value a, Value b);
  Value neg(Value a);
  Value add(Value a, double b) { return add(a, number(a.getType(), b)); }
  Value mul(Value a, double b) { return mul(a, number(a.getType(), b)); }
  Value compare(mlir::arith::CmpFPredicate floats,
                mlir::arith::CmpIPredicate integers, Value a, Value b);
  Value select(Value condition, Value a, Value b);
  /// As `kerf.cast`; i1 counts as unsigned.
  Value cast(Value x, Type element);

  Value sqrt(Value x);
  Value abs(Value x);
  /// Functions of f32 have an error of a few units of the last place. They are
  /// polynomials; `exp` on a GPU is an instruction, and 0 below 2^-126. Those
  /// of f64 call the C library, and are series on a GPU.
  Value exp(Value x);
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value sin(Value x) { return circular(x, 0); }
  Value cos(Value x) { return circular(x, 1); }

  /// Sum or maximum of the lanes of a vector, in a fixed order.
  Value reduceLanes(Value x, bool isMax);

  /// bf16 bits (i16) to f32 and back, to nearest even.
  Value fromBf16(Value x);
  Value toBf16(Value x);
  /// f32 to the bits of `element`, a type of 8-bit floats, as `kerf.cast`
  /// rounds, and back.
  Value toFloat8(Value x, Type element);
  Value fromFloat8(Value x, Type element);
  /// As `kerf.power_of_two`, of f32.
  Value powerOfTwo(Value x);

  /// Mixing function of `kerf/Dialect/Kerf/Random.h`, on i64.
  Value mixBits(Value x);

private:
  Value convertToFloat8(Value x, Type element);
  /// Sum of coefficients[k] x^k.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);
  Value circular(Value x, int64_t quarter);
  Value deviceExp(Value x);
  Value eachLane(Value x, llvm::StringRef intrinsic);
  Value wideExp(Value x);
  Value wideLog(Value x);
  Value widePow(Value a, Value b);
  Value wideTanh(Value x);
  Value wideErf(Value x);
  Value wideCircular(Value x, int64_t quarter);
  Value libm(llvm::StringRef name, Value x);
};

} // namespace kerf::codegen

#endif // KERF_CODEGEN_ARITH_H
