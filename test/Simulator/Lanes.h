//===- Lanes.h - the loops over the lanes of a warp -----------------------===//
//
// Included by files that are compiled once for every processor and once for
// AVX2: everything here is local to a file, and nothing of the C++ library's
// templates may be called from it.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_LANES_H
#define KERF_SIMULATOR_LANES_H

#include "Machine.h"
#include "Ops.h"

#include <cmath>
#include <cstring>

namespace {
using namespace kerf::sim;

using S8 = int8_t;
using S16 = int16_t;
using S32 = int32_t;
using S64 = int64_t;
using U8 = uint8_t;
using U16 = uint16_t;
using U32 = uint32_t;
using U64 = uint64_t;
using F32 = float;
using F64 = double;

template <class To, class From> inline To cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// ---- Formats of 16 bits -----------------------------------------------------

/// To the nearest f32 whose last bit tells that something was cut: rounding it
/// again gives what rounding the f64 once would.
inline float toOdd(double value) {
  float near = static_cast<float>(value);
  if (static_cast<double>(near) == value || !(value - value == 0))
    return near;
  U32 bits = cast<U32>(near);
  if (bits & 1)
    return near;
  bool isAbove = std::fabs(static_cast<double>(near)) > std::fabs(value);
  return cast<float>(isAbove ? bits - 1 : bits | 1);
}

struct BF16 {
  U16 bits;
  operator float() const { return cast<float>(U32(bits) << 16); }
};
inline BF16 toBf16(float value) {
  U32 bits = cast<U32>(value);
  U32 rounded = bits + 0x7FFF + (bits >> 16 & 1);
  return {U16((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : rounded >> 16)};
}

struct F16 {
  U16 bits;
  operator float() const {
    U32 sign = U32(bits & 0x8000) << 16, rest = bits & 0x7FFF;
    if (rest >= 0x7C00)
      return cast<float>(sign | 0x7F800000 | (rest & 0x3FF) << 13);
    // A subnormal of f16 becomes normal by this product.
    float value = cast<float>(rest << 13) * 0x1p112f;
    return cast<float>(cast<U32>(value) | sign);
  }
};
inline F16 toF16(float value) {
  U32 bits = cast<U32>(value), sign = bits >> 16 & 0x8000;
  bits &= 0x7FFFFFFF;
  if (bits > 0x7F800000)
    return {U16(0x7FFF)};
  if (bits >= 0x477FF000)
    return {U16(sign | 0x7C00)};
  if (bits < 0x38800000) { // subnormal: the sum's last bit is 2^-24
    U32 sum = cast<U32>(cast<float>(bits) + 0.5f);
    return {U16(sign | (sum - 0x3F000000))};
  }
  U32 rounded = bits + 0xFFF + (bits >> 13 & 1);
  return {U16(sign | (rounded - 0x38000000) >> 13)};
}

// ---- Values in registers ----------------------------------------------------

template <class T> struct KeptAs {
  using type = U32;
};
template <> struct KeptAs<U64> {
  using type = U64;
};
template <> struct KeptAs<S64> {
  using type = U64;
};
template <> struct KeptAs<F64> {
  using type = U64;
};
template <class T> using Kept = typename KeptAs<T>::type;

template <class T> inline T read(Kept<T> bits) { return static_cast<T>(bits); }
template <> inline F32 read<F32>(U32 bits) { return cast<F32>(bits); }
template <> inline F64 read<F64>(U64 bits) { return cast<F64>(bits); }
template <> inline BF16 read<BF16>(U32 bits) { return {U16(bits)}; }
template <> inline F16 read<F16>(U32 bits) { return {U16(bits)}; }

template <class T> inline Kept<T> keep(T value) {
  return static_cast<Kept<T>>(value);
}
template <> inline U32 keep<F32>(F32 value) { return cast<U32>(value); }
template <> inline U64 keep<F64>(F64 value) { return cast<U64>(value); }
template <> inline U32 keep<BF16>(BF16 value) { return value.bits; }
template <> inline U32 keep<F16>(F16 value) { return value.bits; }

/// A float's value as T, rounded to nearest even.
template <class T> inline T narrow(float value) { return value; }
template <> inline BF16 narrow<BF16>(float value) { return toBf16(value); }
template <> inline F16 narrow<F16>(float value) { return toF16(value); }

template <class T> inline const Kept<T> *slot(const Warp &warp, U32 place) {
  return reinterpret_cast<const Kept<T> *>(warp.registers + place);
}

/// Writes the lanes that execute.
template <class K>
inline void store(Warp &warp, U32 place, const K (&values)[lanes]) {
  K *to = reinterpret_cast<K *>(warp.registers + place);
  U32 mask = warp.mask;
  if (mask == ~0u) {
    __builtin_memcpy(to, values, sizeof values);
    return;
  }
  for (int lane = 0; lane < lanes; ++lane)
    to[lane] = mask >> lane & 1 ? values[lane] : to[lane];
}

/// .sat and .ftz of f32 results.
inline void finish(const Inst &inst, U32 (&values)[lanes]) {
  if (inst.saturate)
    for (U32 &value : values) {
      float number = cast<float>(value);
      value = cast<U32>(number > 1 ? 1.0f : number > 0 ? number : 0.0f);
    }
  if (inst.flush)
    for (U32 &value : values)
      value = value & 0x7F800000 ? value : value & 0x80000000;
}

/// .ftz of f32 operands.
inline const U32 *flushed(const Inst &inst, const U32 *values, U32 *copy) {
  if (!inst.flush)
    return values;
  for (int lane = 0; lane < lanes; ++lane)
    copy[lane] =
        values[lane] & 0x7F800000 ? values[lane] : values[lane] & 0x80000000;
  return copy;
}

template <class R, class A, class F>
inline void map1(Warp &warp, const Inst &inst, F f) {
  const Kept<A> *a = slot<A>(warp, inst.a);
  Kept<R> out[lanes];
  for (int lane = 0; lane < lanes; ++lane)
    out[lane] = keep<R>(f(read<A>(a[lane])));
  store(warp, inst.to, out);
}

template <class R, class A, class B, class F>
inline void map2(Warp &warp, const Inst &inst, F f) {
  const Kept<A> *a = slot<A>(warp, inst.a);
  const Kept<B> *b = slot<B>(warp, inst.b);
  Kept<R> out[lanes];
  for (int lane = 0; lane < lanes; ++lane)
    out[lane] = keep<R>(f(read<A>(a[lane]), read<B>(b[lane])));
  store(warp, inst.to, out);
}

template <class R, class A, class B, class C, class F>
inline void map3(Warp &warp, const Inst &inst, F f) {
  const Kept<A> *a = slot<A>(warp, inst.a);
  const Kept<B> *b = slot<B>(warp, inst.b);
  const Kept<C> *c = slot<C>(warp, inst.c);
  Kept<R> out[lanes];
  for (int lane = 0; lane < lanes; ++lane)
    out[lane] =
        keep<R>(f(read<A>(a[lane]), read<B>(b[lane]), read<C>(c[lane])));
  store(warp, inst.to, out);
}

/// Sets the lanes of a predicate that execute.
inline void setPredicate(Warp &warp, U32 place, U32 bits) {
  U32 &to = warp.predicates[place];
  to = (to & ~warp.mask) | (bits & warp.mask);
}
} // namespace

#endif // KERF_SIMULATOR_LANES_H
