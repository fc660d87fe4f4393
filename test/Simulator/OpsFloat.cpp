//===- OpsFloat.cpp - arithmetic of floating point ------------------------===//
//
// What devices approximate is computed as well as the host can: results of
// .approx instructions differ from a device's in the last bits.
//
//===----------------------------------------------------------------------===//

#include "Lanes.h"

namespace {
// ---- Operations on one value ------------------------------------------------

struct Add {
  template <class T> static T run(T a, T b) { return a + b; }
};
struct Subtract {
  template <class T> static T run(T a, T b) { return a - b; }
};
struct Multiply {
  template <class T> static T run(T a, T b) { return a * b; }
};
struct Divide {
  template <class T> static T run(T a, T b) { return a / b; }
};
/// The number where one is NaN; -0 is below +0.
struct Minimum {
  template <class T> static T run(T a, T b) {
    if (a == b)
      return std::signbit(a) ? a : b;
    return a < b || b != b ? a : b;
  }
};
struct Maximum {
  template <class T> static T run(T a, T b) {
    if (a == b)
      return std::signbit(a) ? b : a;
    return a > b || b != b ? a : b;
  }
};
/// NaN where one is NaN.
struct MinimumNan {
  template <class T> static T run(T a, T b) {
    return a != a ? a : b != b ? b : Minimum::run(a, b);
  }
};
struct MaximumNan {
  template <class T> static T run(T a, T b) {
    return a != a ? a : b != b ? b : Maximum::run(a, b);
  }
};
struct FusedMultiplyAdd {
  static float run(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
  }
  static double run(double a, double b, double c) {
    return __builtin_fma(a, b, c);
  }
};
struct Negate {
  template <class T> static T run(T a) { return -a; }
};
struct Absolute {
  static float run(float a) { return __builtin_fabsf(a); }
  static double run(double a) { return __builtin_fabs(a); }
};
struct SquareRoot {
  static float run(float a) { return __builtin_sqrtf(a); }
  static double run(double a) { return __builtin_sqrt(a); }
};
struct Reciprocal {
  template <class T> static T run(T a) { return 1 / a; }
};
struct ReciprocalRoot {
  static float run(float a) { return float(1 / __builtin_sqrt(double(a))); }
  static double run(double a) { return 1 / __builtin_sqrt(a); }
};
/// A unit too small unless exact: hardware's results are up to two units off.
struct Exponential2 {
  static float run(float a) {
    float y = exp2f(a);
    bool isExact = a == truncf(a) || !std::isfinite(y) || y < 0x1p-126f;
    return isExact ? y : nextafterf(y, 0);
  }
};
struct Logarithm2 {
  static float run(float a) { return log2f(a); }
};
struct Sine {
  static float run(float a) { return sinf(a); }
};
struct Cosine {
  static float run(float a) { return cosf(a); }
};
struct Tangent {
  static float run(float a) { return tanhf(a); }
};

// ---- f32 and f64 ------------------------------------------------------------

template <class T, class Op> void unary(Warp &warp, const Inst &inst) {
  const Kept<T> *a = slot<T>(warp, inst.a);
  U32 copyA[lanes];
  if constexpr (sizeof(T) == 4)
    a = flushed(inst, a, copyA);
  Kept<T> out[lanes];
  for (int lane = 0; lane < lanes; ++lane)
    out[lane] = keep<T>(Op::run(read<T>(a[lane])));
  if constexpr (sizeof(T) == 4)
    finish(inst, out);
  store(warp, inst.to, out);
}
template <class T, class Op> void binary(Warp &warp, const Inst &inst) {
  const Kept<T> *a = slot<T>(warp, inst.a), *b = slot<T>(warp, inst.b);
  U32 copyA[lanes], copyB[lanes];
  if constexpr (sizeof(T) == 4) {
    a = flushed(inst, a, copyA);
    b = flushed(inst, b, copyB);
  }
  Kept<T> out[lanes];
  for (int lane = 0; lane < lanes; ++lane)
    out[lane] = keep<T>(Op::run(read<T>(a[lane]), read<T>(b[lane])));
  if constexpr (sizeof(T) == 4)
    finish(inst, out);
  store(warp, inst.to, out);
}
template <class T> void fused(Warp &warp, const Inst &inst) {
  const Kept<T> *a = slot<T>(warp, inst.a), *b = slot<T>(warp, inst.b);
  const Kept<T> *c = slot<T>(warp, inst.c);
  U32 copyA[lanes], copyB[lanes], copyC[lanes];
  if constexpr (sizeof(T) == 4) {
    a = flushed(inst, a, copyA);
    b = flushed(inst, b, copyB);
    c = flushed(inst, c, copyC);
  }
  Kept<T> out[lanes];
  for (int lane = 0; lane < lanes; ++lane)
    out[lane] = keep<T>(FusedMultiplyAdd::run(
        read<T>(a[lane]), read<T>(b[lane]), read<T>(c[lane])));
  if constexpr (sizeof(T) == 4)
    finish(inst, out);
  store(warp, inst.to, out);
}
/// Magnitude of b, sign of a.
template <class T> void copySign(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) -> T { return std::copysign(b, a); });
}
void testFinite(Warp &warp, const Inst &inst) {
  const U32 *a = slot<U32>(warp, inst.a);
  U32 result = 0;
  for (int lane = 0; lane < lanes; ++lane)
    result |= U32((a[lane] & 0x7F800000) != 0x7F800000) << lane;
  setPredicate(warp, inst.to, result);
}

// ---- f16 and bf16, one or two in a register ---------------------------------

/// Sums and products of 16-bit formats are exact enough in f32 that rounding
/// twice gives what rounding once would.
template <class Op> struct Round {
  template <class T> static T run(T a) { return narrow<T>(Op::run(float(a))); }
  template <class T> static T run(T a, T b) {
    return narrow<T>(Op::run(float(a), float(b)));
  }
};
struct RoundFused {
  template <class T> static T run(T a, T b, T c) {
    double exact = double(float(a)) * double(float(b));
    return narrow<T>(toOdd(exact + double(float(c))));
  }
};
template <class T> struct SignBit {
  static T negate(T a) { return {U16(a.bits ^ 0x8000)}; }
};
struct FlipSign {
  template <class T> static T run(T a) { return {U16(a.bits ^ 0x8000)}; }
};
struct ClearSign {
  template <class T> static T run(T a) { return {U16(a.bits & 0x7FFF)}; }
};
struct Relu {
  template <class T> static T run(T a) {
    return a.bits & 0x8000 && (a.bits & 0x7FFF) <= 0x7C00 ? T{0} : a;
  }
};

template <class T, class Op> void unary16(Warp &warp, const Inst &inst) {
  map1<T, T>(warp, inst, [](T a) -> T { return Op::run(a); });
}
template <class T, class Op> void binary16(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) -> T { return Op::run(a, b); });
}
template <class T> void fused16(Warp &warp, const Inst &inst) {
  map3<T, T, T, T>(warp, inst,
                   [](T a, T b, T c) -> T { return RoundFused::run(a, b, c); });
}
template <class T> T low(U32 pair) { return {U16(pair)}; }
template <class T> T high(U32 pair) { return {U16(pair >> 16)}; }
template <class T> U32 pack(T low, T high) {
  return U32(high.bits) << 16 | low.bits;
}
template <class T, class Op> void unaryPair(Warp &warp, const Inst &inst) {
  map1<U32, U32>(warp, inst, [](U32 a) -> U32 {
    return pack(Op::run(low<T>(a)), Op::run(high<T>(a)));
  });
}
template <class T, class Op> void binaryPair(Warp &warp, const Inst &inst) {
  map2<U32, U32, U32>(warp, inst, [](U32 a, U32 b) -> U32 {
    return pack(Op::run(low<T>(a), low<T>(b)), Op::run(high<T>(a), high<T>(b)));
  });
}
template <class T> void fusedPair(Warp &warp, const Inst &inst) {
  map3<U32, U32, U32, U32>(warp, inst, [](U32 a, U32 b, U32 c) -> U32 {
    return pack(RoundFused::run(low<T>(a), low<T>(b), low<T>(c)),
                RoundFused::run(high<T>(a), high<T>(b), high<T>(c)));
  });
}
} // namespace

#define FLOATS(name, function, ...)                                            \
  {name ".f32", function<F32, __VA_ARGS__>}, {                                 \
    name ".f64", function<F64, __VA_ARGS__>                                    \
  }
#define HALVES(name, arity, ...)                                               \
  {name ".f16", arity##16 < F16, __VA_ARGS__ > },                              \
      {name ".bf16", arity##16 < BF16, __VA_ARGS__ > },                        \
      {name ".f16x2", arity##Pair<F16, __VA_ARGS__>}, {                        \
    name ".bf16x2", arity##Pair<BF16, __VA_ARGS__>                             \
  }

static const NamedHandler table[] = {
    FLOATS("add", binary, Add),
    FLOATS("sub", binary, Subtract),
    FLOATS("mul", binary, Multiply),
    FLOATS("div", binary, Divide),
    FLOATS("min", binary, Minimum),
    FLOATS("max", binary, Maximum),
    {"min.NaN.f32", binary<F32, MinimumNan>},
    {"max.NaN.f32", binary<F32, MaximumNan>},
    FLOATS("neg", unary, Negate),
    FLOATS("abs", unary, Absolute),
    FLOATS("sqrt", unary, SquareRoot),
    FLOATS("rcp", unary, Reciprocal),
    FLOATS("rsqrt", unary, ReciprocalRoot),
    {"ex2.f32", unary<F32, Exponential2>},
    {"lg2.f32", unary<F32, Logarithm2>},
    {"sin.f32", unary<F32, Sine>},
    {"cos.f32", unary<F32, Cosine>},
    {"tanh.f32", unary<F32, Tangent>},
    {"fma.f32", fused<F32>},
    {"fma.f64", fused<F64>},
    {"mad.f32", fused<F32>},
    {"mad.f64", fused<F64>},
    {"copysign.f32", copySign<F32>},
    {"copysign.f64", copySign<F64>},
    {"testp.finite.f32", testFinite},
    HALVES("add", binary, Round<Add>),
    HALVES("sub", binary, Round<Subtract>),
    HALVES("mul", binary, Round<Multiply>),
    HALVES("min", binary, Round<Minimum>),
    HALVES("max", binary, Round<Maximum>),
    HALVES("min.NaN", binary, Round<MinimumNan>),
    HALVES("max.NaN", binary, Round<MaximumNan>),
    HALVES("neg", unary, FlipSign),
    HALVES("abs", unary, ClearSign),
    HALVES("ex2", unary, Round<Exponential2>),
    HALVES("tanh", unary, Round<Tangent>),
    {"fma.f16", fused16<F16>},
    {"fma.bf16", fused16<BF16>},
    {"fma.f16x2", fusedPair<F16>},
    {"fma.bf16x2", fusedPair<BF16>},
};

#ifdef KERF_SIM_AVX2
HandlerTable kerf::sim::floatHandlersAvx2() {
#else
HandlerTable kerf::sim::floatHandlers() {
#endif
  return {table, sizeof table / sizeof *table};
}
