//===- OpsInteger.cpp - integers, bits and predicates ---------------------===//

#include "Lanes.h"

namespace {
template <class T> struct Wider;
template <> struct Wider<S16> {
  using type = S32;
};
template <> struct Wider<U16> {
  using type = U32;
};
template <> struct Wider<S32> {
  using type = S64;
};
template <> struct Wider<U32> {
  using type = U64;
};
template <> struct Wider<S64> {
  using type = __int128;
};
template <> struct Wider<U64> {
  using type = unsigned __int128;
};
template <class T> using Wide = typename Wider<T>::type;
template <size_t> struct Sized;
template <> struct Sized<2> {
  using type = U16;
};
template <> struct Sized<4> {
  using type = U32;
};
template <> struct Sized<8> {
  using type = U64;
};
template <class T> using Bits = typename Sized<sizeof(T)>::type;

template <class T> void add(Warp &warp, const Inst &inst) {
  map2<Bits<T>, Bits<T>, Bits<T>>(
      warp, inst, [](auto a, auto b) -> Bits<T> { return a + b; });
}
template <class T> void subtract(Warp &warp, const Inst &inst) {
  map2<Bits<T>, Bits<T>, Bits<T>>(
      warp, inst, [](auto a, auto b) -> Bits<T> { return a - b; });
}
template <class T> Bits<T> product(Bits<T> a, Bits<T> b) {
  return U64(a) * U64(b);
}
template <class T> void multiply(Warp &warp, const Inst &inst) {
  map2<Bits<T>, Bits<T>, Bits<T>>(warp, inst, product<T>);
}
template <class T> T highProduct(T a, T b) {
  return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> sizeof(T) * 8);
}
template <class T> void multiplyHigh(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, highProduct<T>);
}
template <class T> void multiplyWide(Warp &warp, const Inst &inst) {
  map2<Wide<T>, T, T>(
      warp, inst, [](T a, T b) -> Wide<T> { return Wide<T>(a) * Wide<T>(b); });
}
template <class T> void multiplyAdd(Warp &warp, const Inst &inst) {
  map3<Bits<T>, Bits<T>, Bits<T>, Bits<T>>(
      warp, inst,
      [](auto a, auto b, auto c) -> Bits<T> { return product<T>(a, b) + c; });
}
template <class T> void multiplyAddHigh(Warp &warp, const Inst &inst) {
  map3<T, T, T, T>(warp, inst, [](T a, T b, T c) -> T {
    return Bits<T>(highProduct(a, b)) + Bits<T>(c);
  });
}
template <class T> void multiplyAddWide(Warp &warp, const Inst &inst) {
  using W = Wide<T>;
  map3<W, T, T, W>(warp, inst, [](T a, T b, W c) -> W {
    return Bits<W>(W(a) * W(b)) + Bits<W>(c);
  });
}
/// Division by zero gives all ones, as devices do, and does not stop the host.
template <class T> T quotient(T a, T b) {
  if (b == 0)
    return static_cast<T>(~T(0));
  if (b == static_cast<T>(-1) && T(-1) < T(0))
    return static_cast<T>(Bits<T>(0) - Bits<T>(a));
  return a / b;
}
template <class T> void divide(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, quotient<T>);
}
template <class T> void remainder(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) -> T {
    if (b == 0)
      return a;
    return Bits<T>(a) - product<T>(quotient(a, b), b);
  });
}
template <class T> void minimum(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) { return a < b ? a : b; });
}
template <class T> void maximum(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) { return a > b ? a : b; });
}
/// .relu: not below zero.
template <class T> void minimumRelu(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) -> T {
    T least = a < b ? a : b;
    return least > 0 ? least : 0;
  });
}
template <class T> void maximumRelu(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) -> T {
    T most = a > b ? a : b;
    return most > 0 ? most : 0;
  });
}
/// Both halves of a word, as `T`.
template <class T, class F> void halves(Warp &warp, const Inst &inst, F f) {
  map2<U32, U32, U32>(warp, inst, [=](U32 a, U32 b) -> U32 {
    U16 low = f(static_cast<T>(a), static_cast<T>(b));
    U16 high = f(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
    return low | U32(high) << 16;
  });
}
template <class T> void minimumHalves(Warp &warp, const Inst &inst) {
  halves<T>(warp, inst, [](T a, T b) -> T { return a < b ? a : b; });
}
template <class T> void maximumHalves(Warp &warp, const Inst &inst) {
  halves<T>(warp, inst, [](T a, T b) -> T { return a > b ? a : b; });
}
template <class T> void absolute(Warp &warp, const Inst &inst) {
  map1<T, T>(warp, inst,
             [](T a) -> T { return a < 0 ? Bits<T>(0) - Bits<T>(a) : a; });
}
template <class T> void negate(Warp &warp, const Inst &inst) {
  map1<T, T>(warp, inst, [](T a) -> T { return Bits<T>(0) - Bits<T>(a); });
}

template <class T> void bitAnd(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) -> T { return a & b; });
}
template <class T> void bitOr(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) -> T { return a | b; });
}
template <class T> void bitXor(Warp &warp, const Inst &inst) {
  map2<T, T, T>(warp, inst, [](T a, T b) -> T { return a ^ b; });
}
template <class T> void bitNot(Warp &warp, const Inst &inst) {
  map1<T, T>(warp, inst, [](T a) -> T { return ~a; });
}
template <class T> void copy(Warp &warp, const Inst &inst) {
  map1<T, T>(warp, inst, [](T a) { return a; });
}
template <class T> void shiftLeft(Warp &warp, const Inst &inst) {
  map2<T, T, U32>(warp, inst, [](T a, U32 by) -> T {
    return by < sizeof(T) * 8 ? T(a << by) : T(0);
  });
}
template <class T> void shiftRight(Warp &warp, const Inst &inst) {
  constexpr U32 last = sizeof(T) * 8 - 1;
  map2<T, T, U32>(warp, inst, [](T a, U32 by) -> T {
    if (by > last)
      return T(-1) < T(0) ? a >> last : 0;
    return a >> by;
  });
}
/// Bits [position, position + length) of a, sign-extended for signed types.
template <class T> void extract(Warp &warp, const Inst &inst) {
  constexpr U32 size = sizeof(T) * 8;
  map3<T, T, U32, U32>(warp, inst, [](T a, U32 position, U32 length) -> T {
    position &= 255;
    length &= 255;
    if (!length)
      return 0;
    U32 last = position + length - 1;
    bool sign = T(-1) < T(0) && (a >> (last < size ? last : size - 1) & 1);
    Bits<T> value = position < size ? Bits<T>(a) >> position : 0;
    if (position >= size && sign)
      return T(-1);
    if (length < size) {
      Bits<T> keepBits = (Bits<T>(1) << length) - 1;
      value = sign ? value | ~keepBits : value & keepBits;
    }
    return value;
  });
}
/// f = b with its bits [c, c + d) replaced by the lowest of a.
template <class T> void insert(Warp &warp, const Inst &inst) {
  const Kept<T> *a = slot<T>(warp, inst.a), *b = slot<T>(warp, inst.b);
  const U32 *c = slot<U32>(warp, inst.c), *d = slot<U32>(warp, inst.d);
  constexpr U32 size = sizeof(T) * 8;
  Kept<T> out[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    U32 position = c[lane] & 255, length = d[lane] & 255;
    T field = length >= size ? T(-1) : (T(1) << length) - 1;
    T mask = position >= size ? 0 : field << position;
    T value = position >= size ? 0 : T(a[lane]) << position;
    out[lane] = (T(b[lane]) & ~mask) | (value & mask);
  }
  store(warp, inst.to, out);
}
/// Bytes of b:a chosen by the four nibbles of c; bit 3 spreads the sign.
void permute(Warp &warp, const Inst &inst) {
  map3<U32, U32, U32, U32>(warp, inst, [](U32 a, U32 b, U32 c) -> U32 {
    U64 source = U64(b) << 32 | a;
    U32 result = 0;
    for (int byte = 0; byte < 4; ++byte) {
      U32 pick = c >> 4 * byte & 15;
      U32 value = source >> 8 * (pick & 7) & 255;
      if (pick & 8)
        value = value & 128 ? 255 : 0;
      result |= value << 8 * byte;
    }
    return result;
  });
}
template <class T> void population(Warp &warp, const Inst &inst) {
  map1<U32, T>(warp, inst, [](T a) -> U32 { return __builtin_popcountll(a); });
}
template <class T> void leadingZeros(Warp &warp, const Inst &inst) {
  map1<U32, T>(warp, inst, [](T a) -> U32 {
    return a ? __builtin_clzll(a) - (64 - sizeof(T) * 8) : sizeof(T) * 8;
  });
}
template <class T> void reverse(Warp &warp, const Inst &inst) {
  map1<T, T>(warp, inst, [](T a) -> T {
    if constexpr (sizeof(T) == 4)
      return __builtin_bitreverse32(a);
    else
      return __builtin_bitreverse64(a);
  });
}
/// Place of the highest bit that differs from the sign, or all ones.
template <class T> void findBit(Warp &warp, const Inst &inst) {
  map1<U32, T>(warp, inst, [](T a) -> U32 {
    Bits<T> value = a < 0 ? ~Bits<T>(a) : Bits<T>(a);
    return value ? 63 - __builtin_clzll(value) : ~0u;
  });
}
/// The funnel b:a; mode 1 wraps the distance, 0 clamps it.
void funnelLeft(Warp &warp, const Inst &inst) {
  bool wraps = inst.mode;
  map3<U32, U32, U32, U32>(warp, inst, [=](U32 a, U32 b, U32 c) -> U32 {
    U32 by = wraps ? c & 31 : c < 32 ? c : 32;
    return (U64(b) << 32 | a) << by >> 32;
  });
}
void funnelRight(Warp &warp, const Inst &inst) {
  bool wraps = inst.mode;
  map3<U32, U32, U32, U32>(warp, inst, [=](U32 a, U32 b, U32 c) -> U32 {
    U32 by = wraps ? c & 31 : c < 32 ? c : 32;
    return (U64(b) << 32 | a) >> by;
  });
}
/// Any function of three bits; its table is in `offset`.
void logic3(Warp &warp, const Inst &inst) {
  U32 table = inst.offset;
  map3<U32, U32, U32, U32>(warp, inst, [=](U32 a, U32 b, U32 c) -> U32 {
    U32 result = 0;
    for (U32 row = 0; row < 8; ++row)
      if (table >> row & 1)
        result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    return result;
  });
}

// ---- Predicates -------------------------------------------------------------

U32 predicateAt(const Warp &warp, U32 place) {
  // Bit 31 says "not"; an absent one is true.
  return place == UINT32_MAX   ? ~0u
         : place & 0x80000000u ? ~warp.predicates[place & 0x7FFFFFFF]
                               : warp.predicates[place];
}
void predicateAnd(Warp &warp, const Inst &inst) {
  setPredicate(warp, inst.to,
               predicateAt(warp, inst.a) & predicateAt(warp, inst.b));
}
void predicateOr(Warp &warp, const Inst &inst) {
  setPredicate(warp, inst.to,
               predicateAt(warp, inst.a) | predicateAt(warp, inst.b));
}
void predicateXor(Warp &warp, const Inst &inst) {
  setPredicate(warp, inst.to,
               predicateAt(warp, inst.a) ^ predicateAt(warp, inst.b));
}
void predicateNot(Warp &warp, const Inst &inst) {
  setPredicate(warp, inst.to, ~predicateAt(warp, inst.a));
}
void predicateCopy(Warp &warp, const Inst &inst) {
  setPredicate(warp, inst.to, predicateAt(warp, inst.a));
}
template <class T> void select(Warp &warp, const Inst &inst) {
  const Kept<T> *a = slot<T>(warp, inst.a), *b = slot<T>(warp, inst.b);
  U32 chosen = predicateAt(warp, inst.c);
  Kept<T> out[lanes];
  for (int lane = 0; lane < lanes; ++lane)
    out[lane] = chosen >> lane & 1 ? a[lane] : b[lane];
  store(warp, inst.to, out);
}

struct Equal {
  static bool test(auto a, auto b) { return a == b; }
};
struct NotEqual {
  static bool test(auto a, auto b) { return a != b; }
};
struct Less {
  static bool test(auto a, auto b) { return a < b; }
};
struct LessEqual {
  static bool test(auto a, auto b) { return a <= b; }
};
struct Greater {
  static bool test(auto a, auto b) { return a > b; }
};
struct GreaterEqual {
  static bool test(auto a, auto b) { return a >= b; }
};
template <class T> bool isNan(T a) { return a != a; }
struct Numbers {
  static bool test(auto a, auto b) { return !isNan(a) && !isNan(b); }
};
struct NaNs {
  static bool test(auto a, auto b) { return isNan(a) || isNan(b); }
};
template <class Test> struct Unordered {
  static bool test(auto a, auto b) {
    return isNan(a) || isNan(b) || Test::test(a, b);
  }
};
struct Differ { // ordered: false with NaN
  static bool test(auto a, auto b) { return a < b || a > b; }
};

/// p|q = compare(a, b) [and|or|xor c]; mode tells which (0: none).
template <class T, class Test> void compare(Warp &warp, const Inst &inst) {
  const Kept<T> *a = slot<T>(warp, inst.a), *b = slot<T>(warp, inst.b);
  U32 copyA[lanes], copyB[lanes];
  if constexpr (sizeof(T) == 4) {
    a = flushed(inst, a, copyA);
    b = flushed(inst, b, copyB);
  }
  U32 result = 0;
  for (int lane = 0; lane < lanes; ++lane)
    result |= U32(Test::test(read<T>(a[lane]), read<T>(b[lane]))) << lane;
  U32 other = predicateAt(warp, inst.c), opposite = ~result;
  switch (inst.mode) {
  case 1:
    result &= other;
    opposite &= other;
    break;
  case 2:
    result |= other;
    opposite |= other;
    break;
  case 3:
    result ^= other;
    opposite ^= other;
    break;
  }
  setPredicate(warp, inst.to, result);
  if (inst.d != UINT32_MAX)
    setPredicate(warp, inst.d, opposite);
}
} // namespace

#define KEYS2(name, function, suffix, S, U)                                    \
  {name ".s" suffix, function<S>}, { name ".u" suffix, function<U> }
#define SIGNED(name, function)                                                 \
  KEYS2(name, function, "16", S16, U16),                                       \
      KEYS2(name, function, "32", S32, U32),                                   \
      KEYS2(name, function, "64", S64, U64)
#define BITS(name, function)                                                   \
  {name ".b16", function<U16>}, {name ".b32", function<U32>}, {                \
    name ".b64", function<U64>                                                 \
  }
#define ANY(name, function) SIGNED(name, function), BITS(name, function)
#define COMPARES(type, T)                                                      \
  {"setp.eq." type, compare<T, Equal>}, {"setp.lt." type, compare<T, Less>},   \
      {"setp.le." type, compare<T, LessEqual>},                                \
      {"setp.gt." type, compare<T, Greater>}, {                                \
    "setp.ge." type, compare<T, GreaterEqual>                                  \
  }
#define INTEGER_COMPARES(type, T)                                              \
  COMPARES(type, T), {"setp.ne." type, compare<T, NotEqual>},                  \
      {"setp.lo." type, compare<T, Less>},                                     \
      {"setp.ls." type, compare<T, LessEqual>},                                \
      {"setp.hi." type, compare<T, Greater>}, {                                \
    "setp.hs." type, compare<T, GreaterEqual>                                  \
  }
#define FLOAT_COMPARES(type, T)                                                \
  COMPARES(type, T), {"setp.ne." type, compare<T, Differ>},                    \
      {"setp.equ." type, compare<T, Unordered<Equal>>},                        \
      {"setp.neu." type, compare<T, NotEqual>},                                \
      {"setp.ltu." type, compare<T, Unordered<Less>>},                         \
      {"setp.leu." type, compare<T, Unordered<LessEqual>>},                    \
      {"setp.gtu." type, compare<T, Unordered<Greater>>},                      \
      {"setp.geu." type, compare<T, Unordered<GreaterEqual>>},                 \
      {"setp.num." type, compare<T, Numbers>}, {                               \
    "setp.nan." type, compare<T, NaNs>                                         \
  }
#define VALUES(name, function)                                                 \
  ANY(name, function), {name ".f16", function<U16>},                           \
      {name ".bf16", function<U16>}, {name ".f16x2", function<U32>},           \
      {name ".bf16x2", function<U32>}, {name ".f32", function<U32>}, {         \
    name ".f64", function<U64>                                                 \
  }

static const NamedHandler table[] = {
    ANY("add", add),
    ANY("sub", subtract),
    ANY("mul.lo", multiply),
    SIGNED("mul.hi", multiplyHigh),
    KEYS2("mul.wide", multiplyWide, "16", S16, U16),
    KEYS2("mul.wide", multiplyWide, "32", S32, U32),
    ANY("mad.lo", multiplyAdd),
    SIGNED("mad.hi", multiplyAddHigh),
    KEYS2("mad.wide", multiplyAddWide, "16", S16, U16),
    KEYS2("mad.wide", multiplyAddWide, "32", S32, U32),
    SIGNED("div", divide),
    SIGNED("rem", remainder),
    SIGNED("min", minimum),
    SIGNED("max", maximum),
    {"min.relu.s32", minimumRelu<S32>},
    {"max.relu.s32", maximumRelu<S32>},
    KEYS2("min", minimumHalves, "16x2", S16, U16),
    KEYS2("max", maximumHalves, "16x2", S16, U16),
    SIGNED("abs", absolute),
    SIGNED("neg", negate),
    BITS("and", bitAnd),
    BITS("or", bitOr),
    BITS("xor", bitXor),
    BITS("not", bitNot),
    BITS("shl", shiftLeft),
    SIGNED("shr", shiftRight),
    BITS("shr", shiftRight),
    KEYS2("bfe", extract, "32", S32, U32),
    KEYS2("bfe", extract, "64", S64, U64),
    {"bfi.b32", insert<U32>},
    {"bfi.b64", insert<U64>},
    {"prmt.b32", permute},
    {"popc.b32", population<U32>},
    {"popc.b64", population<U64>},
    {"clz.b32", leadingZeros<U32>},
    {"clz.b64", leadingZeros<U64>},
    {"brev.b32", reverse<U32>},
    {"brev.b64", reverse<U64>},
    KEYS2("bfind", findBit, "32", S32, U32),
    KEYS2("bfind", findBit, "64", S64, U64),
    {"shf.l.b32", funnelLeft},
    {"shf.r.b32", funnelRight},
    {"lop3.b32", logic3},
    VALUES("mov", copy),
    VALUES("selp", select),
    {"mov.pred", predicateCopy},
    {"and.pred", predicateAnd},
    {"or.pred", predicateOr},
    {"xor.pred", predicateXor},
    {"not.pred", predicateNot},
    INTEGER_COMPARES("s16", S16),
    INTEGER_COMPARES("u16", U16),
    INTEGER_COMPARES("b16", U16),
    INTEGER_COMPARES("s32", S32),
    INTEGER_COMPARES("u32", U32),
    INTEGER_COMPARES("b32", U32),
    INTEGER_COMPARES("s64", S64),
    INTEGER_COMPARES("u64", U64),
    INTEGER_COMPARES("b64", U64),
    FLOAT_COMPARES("f16", F16),
    FLOAT_COMPARES("bf16", BF16),
    FLOAT_COMPARES("f32", F32),
    FLOAT_COMPARES("f64", F64),
};

#ifdef KERF_SIM_AVX2
HandlerTable kerf::sim::integerHandlersAvx2() {
#else
HandlerTable kerf::sim::integerHandlers() {
#endif
  return {table, sizeof table / sizeof *table};
}
