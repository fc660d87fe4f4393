//===- ArithDevice.cpp - functions by instructions of GPUs ----------------===//

#include "Arith.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

// e^x = 2^t with t = x log2(e), by the processor's instruction. What rounding
// took from t is found by FMA and made good by a factor: without it the error
// would grow with x. Infinite and undefined results come from the instruction;
// results below 2^-126 are 0.
Value Arith::deviceExp(Value x) {
  Type type = x.getType();
  Value bounded = min(max(x, number(type, -104)), number(type, 89));
  constexpr float high = M_LOG2E;
  auto fma = [&](Value a, double b, Value c) -> Value {
    return LLVM::FMAOp::create(builder, loc, a, number(type, b), c);
  };
  Value t = mul(bounded, high);
  Value rest = fma(bounded, high, neg(t));
  rest = fma(bounded, M_LOG2E - high, rest);
  Value factor = fma(rest, M_LN2, number(type, 1));
  return mul(eachLane(t, "llvm.nvvm.ex2.approx.ftz.f32"), factor);
}

/// Calls an intrinsic of f32 for each lane.
Value Arith::eachLane(Value x, llvm::StringRef intrinsic) {
  auto call = [&](Value lane) -> Value {
    return LLVM::CallIntrinsicOp::create(builder, loc, f32(),
                                         builder.getStringAttr(intrinsic), lane)
        .getResult(0);
  };
  auto type = dyn_cast<VectorType>(x.getType());
  if (!type)
    return call(x);
  Value all = x;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    Value lane = vector::ExtractOp::create(builder, loc, x, i);
    all = vector::InsertOp::create(builder, loc, call(lane), all, i);
  }
  return all;
}
