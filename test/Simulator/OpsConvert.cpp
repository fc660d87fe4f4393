//===- OpsConvert.cpp - conversions between types -------------------------===//

#include "Lanes.h"

namespace {
// ---- Between integers, with .sat --------------------------------------------

template <class D, class S> void fromInteger(Warp &warp, const Inst &inst) {
  if (!inst.saturate)
    return map1<D, S>(warp, inst, [](S a) { return static_cast<D>(a); });
  constexpr __int128 least =
      D(-1) < D(0) ? -(__int128(1) << (sizeof(D) * 8 - 1)) : __int128(0);
  constexpr __int128 most = least + (__int128(1) << sizeof(D) * 8) - 1;
  map1<D, S>(warp, inst, [](S a) {
    return static_cast<D>(a < least ? least : a > most ? most : __int128(a));
  });
}

// ---- Integers to floats -----------------------------------------------------

/// `value` as a float, rounded as asked: `near` is the nearest one.
template <class T, class Exact> T directed(T near, Exact exact, int mode) {
  if (Exact(near) == exact)
    return near;
  bool isAbove = Exact(near) > exact;
  T below = isAbove ? std::nextafter(near, T(-INFINITY)) : near;
  T above = isAbove ? near : std::nextafter(near, T(INFINITY));
  if (mode == Down)
    return below;
  if (mode == Up)
    return above;
  return exact < 0 ? above : below; // ToZero
}

template <class T> T integerToFloat(__int128 value, int mode) {
  T near = static_cast<T>(value);
  if (mode == ToEven)
    return near;
  return directed(near, static_cast<long double>(value), mode);
}
template <class D, class S> void toFloat(Warp &warp, const Inst &inst) {
  if (inst.mode == ToEven)
    return map1<D, S>(warp, inst, [](S a) { return static_cast<D>(a); });
  int mode = inst.mode;
  map1<D, S>(warp, inst, [=](S a) { return integerToFloat<D>(a, mode); });
}
template <class D, class S> void toHalf(Warp &warp, const Inst &inst) {
  map1<D, S>(warp, inst,
             [](S a) -> D { return narrow<D>(toOdd(static_cast<double>(a))); });
}

// ---- Floats to integers: NaN gives 0, the rest is clamped -------------------

double toIntegral(double value, int mode) {
  switch (mode) {
  case ToZeroInteger:
    return __builtin_trunc(value);
  case DownInteger:
    return __builtin_floor(value);
  case UpInteger:
    return __builtin_ceil(value);
  default:
    return __builtin_rint(value);
  }
}
template <class D> D clamp(double value) {
  constexpr bool isSigned = D(-1) < D(0);
  constexpr D least = isSigned ? D(U64(1) << (sizeof(D) * 8 - 1)) : D(0);
  constexpr D most = static_cast<D>(~least);
  if (value != value)
    return 0;
  if (value <= static_cast<double>(least))
    return least;
  if (value >= static_cast<double>(most))
    return most;
  return static_cast<D>(value);
}
template <class D, class S> void toInteger(Warp &warp, const Inst &inst) {
  int mode = inst.mode;
  map1<D, S>(warp, inst, [=](S a) {
    double value;
    if constexpr (sizeof(S) == 2)
      value = float(a);
    else
      value = a;
    return clamp<D>(toIntegral(value, mode));
  });
}

// ---- Between floats ---------------------------------------------------------

template <class T> double widen(T value) {
  if constexpr (sizeof(T) == 2)
    return float(value);
  else
    return value;
}
template <class D> D roundTo(double value, int mode);
template <> F64 roundTo<F64>(double value, int) { return value; }
template <> F32 roundTo<F32>(double value, int mode) {
  float near = static_cast<float>(value);
  return mode == ToEven ? near : directed(near, value, mode);
}
/// A 16-bit format by its integer: neighbours differ by one.
template <class H> H roundHalf(double value, int mode) {
  H near = narrow<H>(toOdd(value));
  double got = float(near);
  if (mode == ToEven || mode == ToAway || got == value || value != value)
    return near;
  bool isNegative = near.bits & 0x8000;
  bool wantsBelow = mode == Down || (mode == ToZero && value > 0);
  if (wantsBelow == (got < value))
    return near;
  // Towards the other side of `value`: down grows negative magnitudes.
  return {U16(near.bits + (wantsBelow == isNegative ? 1 : -1))};
}
template <> F16 roundTo<F16>(double value, int mode) {
  return roundHalf<F16>(value, mode);
}
template <> BF16 roundTo<BF16>(double value, int mode) {
  return roundHalf<BF16>(value, mode);
}

/// Inst::list 1: .relu.
template <class D, class S> void betweenFloats(Warp &warp, const Inst &inst) {
  int mode = inst.mode;
  bool isIntegral = mode >= ToEvenInteger && mode <= UpInteger;
  bool relu = inst.list, saturate = inst.saturate;
  map1<D, S>(warp, inst, [=](S a) -> D {
    double value = widen(a);
    if (isIntegral)
      value = toIntegral(value, mode);
    if (saturate)
      value = value > 1 ? 1 : value > 0 ? value : 0;
    if (relu && value < 0)
      value = 0;
    return roundTo<D>(value, isIntegral ? int(ToEven) : mode);
  });
  if constexpr (sizeof(D) == 4)
    if (inst.flush) {
      U32 out[lanes];
      memcpy(out, warp.registers + inst.to, sizeof out);
      finish(inst, out);
      store(warp, inst.to, out);
    }
}
/// The common ones, which the host has instructions for.
void widenBf16(Warp &warp, const Inst &inst) {
  map1<F32, BF16>(warp, inst, [](BF16 a) { return float(a); });
}
template <class D> void narrowFloat(Warp &warp, const Inst &inst) {
  if (inst.mode != ToEven || inst.list || inst.saturate)
    return betweenFloats<D, F32>(warp, inst);
  map1<D, F32>(warp, inst, [](F32 a) -> D { return narrow<D>(a); });
}
/// d = {high a, low b}
template <class D> void narrowPair(Warp &warp, const Inst &inst) {
  int mode = inst.mode;
  bool relu = inst.list;
  auto one = [=](float value) -> U32 {
    if (relu && value < 0)
      value = 0;
    return mode == ToEven ? narrow<D>(value).bits
                          : roundHalf<D>(value, mode).bits;
  };
  map2<U32, F32, F32>(warp, inst,
                      [=](F32 a, F32 b) { return one(a) << 16 | one(b); });
}
/// To the nearest number of an 8-bit format, ties to even, at most `largest`.
/// NaN is 0x7f.
U32 toFloat8(float value, int digits, int bias, float largest) {
  if (value != value)
    return 0x7f;
  float magnitude = std::fmin(std::fabs(value), largest);
  int exponent = magnitude > 0 ? std::ilogb(magnitude) : 1 - bias;
  exponent = std::max(exponent, 1 - bias);
  // In units of the last digit; a sum that carries enters the next exponent.
  auto steps =
      static_cast<U32>(std::rint(std::ldexp(magnitude, digits - exponent)));
  U32 code = (U32(exponent + bias - 1) << digits) + steps;
  return std::signbit(value) ? code | 0x80 : code;
}
/// d = {high a, low b}, with .satfinite
template <int digits, int bias>
void narrowFloat8(Warp &warp, const Inst &inst) {
  constexpr float largest = digits == 3 ? 448 : 57344;
  bool relu = inst.list;
  auto one = [=](float value) {
    return toFloat8(relu && value < 0 ? 0 : value, digits, bias, largest);
  };
  map2<U16, F32, F32>(warp, inst,
                      [=](F32 a, F32 b) { return U16(one(a) << 8 | one(b)); });
}
} // namespace

#define FROM_INTEGERS(d, D)                                                    \
  {"cvt." d ".s8", fromInteger<D, S8>}, {"cvt." d ".u8", fromInteger<D, U8>},  \
      {"cvt." d ".s16", fromInteger<D, S16>},                                  \
      {"cvt." d ".u16", fromInteger<D, U16>},                                  \
      {"cvt." d ".s32", fromInteger<D, S32>},                                  \
      {"cvt." d ".u32", fromInteger<D, U32>},                                  \
      {"cvt." d ".s64", fromInteger<D, S64>}, {                                \
    "cvt." d ".u64", fromInteger<D, U64>                                       \
  }
#define FROM_FLOATS(d, D)                                                      \
  {"cvt." d ".f16", toInteger<D, F16>},                                        \
      {"cvt." d ".bf16", toInteger<D, BF16>},                                  \
      {"cvt." d ".f32", toInteger<D, F32>}, {                                  \
    "cvt." d ".f64", toInteger<D, F64>                                         \
  }
#define TO_FLOAT(d, D, convert)                                                \
  {"cvt." d ".s8", convert<D, S8>}, {"cvt." d ".u8", convert<D, U8>},          \
      {"cvt." d ".s16", convert<D, S16>}, {"cvt." d ".u16", convert<D, U16>},  \
      {"cvt." d ".s32", convert<D, S32>}, {"cvt." d ".u32", convert<D, U32>},  \
      {"cvt." d ".s64", convert<D, S64>}, {                                    \
    "cvt." d ".u64", convert<D, U64>                                           \
  }
#define INTEGER(d, D) FROM_INTEGERS(d, D), FROM_FLOATS(d, D)
#define BETWEEN(d, D, s, S) {"cvt." d "." s, betweenFloats<D, S>}

static const NamedHandler table[] = {
    INTEGER("s8", S8),
    INTEGER("u8", U8),
    INTEGER("s16", S16),
    INTEGER("u16", U16),
    INTEGER("s32", S32),
    INTEGER("u32", U32),
    INTEGER("s64", S64),
    INTEGER("u64", U64),
    TO_FLOAT("f16", F16, toHalf),
    TO_FLOAT("bf16", BF16, toHalf),
    TO_FLOAT("f32", F32, toFloat),
    TO_FLOAT("f64", F64, toFloat),
    BETWEEN("f16", F16, "f16", F16),
    BETWEEN("f16", F16, "bf16", BF16),
    {"cvt.f16.f32", narrowFloat<F16>},
    BETWEEN("f16", F16, "f64", F64),
    BETWEEN("bf16", BF16, "f16", F16),
    BETWEEN("bf16", BF16, "bf16", BF16),
    {"cvt.bf16.f32", narrowFloat<BF16>},
    BETWEEN("bf16", BF16, "f64", F64),
    BETWEEN("f32", F32, "f16", F16),
    {"cvt.f32.bf16", widenBf16},
    BETWEEN("f32", F32, "f32", F32),
    BETWEEN("f32", F32, "f64", F64),
    BETWEEN("f64", F64, "f16", F16),
    BETWEEN("f64", F64, "bf16", BF16),
    BETWEEN("f64", F64, "f32", F32),
    BETWEEN("f64", F64, "f64", F64),
    {"cvt.f16x2.f32", narrowPair<F16>},
    {"cvt.bf16x2.f32", narrowPair<BF16>},
    {"cvt.e4m3x2.f32", narrowFloat8<3, 7>},
    {"cvt.e5m2x2.f32", narrowFloat8<2, 15>},
};

#ifdef KERF_SIM_AVX2
HandlerTable kerf::sim::convertHandlersAvx2() {
#else
HandlerTable kerf::sim::convertHandlers() {
#endif
  return {table, sizeof table / sizeof *table};
}
