//===- Reduce.cpp ---------------------------------------------------------===//

#include "Reduce.h"

#include "Numbers.h"

#include "kerf/Artifact/Format.h"

#include <algorithm>
#include <cstring>

using namespace kerf::runtime;

namespace {
// A storage type, the type that is summed in, and the way between them.
struct F32 {
  using Storage = float;
  using Sum = float;
  static float load(float x) { return x; }
  static float store(float x) { return x; }
};
struct F64 {
  using Storage = double;
  using Sum = double;
  static double load(double x) { return x; }
  static double store(double x) { return x; }
};
struct Bf16 {
  using Storage = uint16_t;
  using Sum = float;
  static float load(uint16_t x) { return fromBf16(x); }
  static uint16_t store(float x) { return toBf16(x); }
};
struct F16 {
  using Storage = uint16_t;
  using Sum = float;
  static float load(uint16_t x) { return fromF16(x); }
  static uint16_t store(float x) { return toF16(x); }
};
struct I32 {
  using Storage = int32_t;
  using Sum = int32_t;
  static int32_t load(int32_t x) { return x; }
  static int32_t store(int32_t x) { return x; }
};
} // namespace

template <typename T> static T sumOf(T a, T b) { return a + b; }
static int32_t sumOf(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) +
                              static_cast<uint32_t>(b));
}
template <typename T> static T maxOf(T a, T b) {
  return a != a || a > b ? a : b;
}

/// Elements that are summed at once: they stay in the first cache.
static constexpr uint64_t kBlock = 1024;

template <typename Type, bool isMax>
[[gnu::always_inline]] static inline void
reduceBlock(const void *const *sources, uint32_t sourceCount, uint64_t begin,
            uint64_t count, void *destination) {
  using Storage = typename Type::Storage;
  typename Type::Sum sums[kBlock];
  auto *first = static_cast<const Storage *>(sources[0]) + begin;
  for (uint64_t i = 0; i < count; ++i)
    sums[i] = Type::load(first[i]);
  for (uint32_t s = 1; s < sourceCount; ++s) {
    auto *source = static_cast<const Storage *>(sources[s]) + begin;
    for (uint64_t i = 0; i < count; ++i)
      sums[i] = isMax ? maxOf(sums[i], Type::load(source[i]))
                      : sumOf(sums[i], Type::load(source[i]));
  }
  auto *to = static_cast<Storage *>(destination) + begin;
  for (uint64_t i = 0; i < count; ++i)
    to[i] = Type::store(sums[i]);
}

template <typename Type>
[[gnu::always_inline]] static inline void
reduceAll(uint32_t reduction, const void *const *sources, uint32_t sourceCount,
          void *destination, uint64_t count) {
  for (uint64_t at = 0; at < count; at += kBlock) {
    uint64_t here = std::min(kBlock, count - at);
    if (reduction == KERF_MAX)
      reduceBlock<Type, true>(sources, sourceCount, at, here, destination);
    else
      reduceBlock<Type, false>(sources, sourceCount, at, here, destination);
  }
}

// The processor's best vectors are chosen when the library is loaded; the bits
// are the same, for nothing is contracted or reordered.
__attribute__((target_clones("default", "arch=x86-64-v3",
                             "arch=x86-64-v4"))) static void
reduceAny(uint32_t dtype, uint32_t reduction, const void *const *sources,
          uint32_t sourceCount, void *destination, uint64_t count) {
  switch (dtype) {
  case KERF_F32:
    return reduceAll<F32>(reduction, sources, sourceCount, destination, count);
  case KERF_F64:
    return reduceAll<F64>(reduction, sources, sourceCount, destination, count);
  case KERF_BF16:
    return reduceAll<Bf16>(reduction, sources, sourceCount, destination, count);
  case KERF_F16:
    return reduceAll<F16>(reduction, sources, sourceCount, destination, count);
  case KERF_I32:
    return reduceAll<I32>(reduction, sources, sourceCount, destination, count);
  }
}

void kerf::runtime::reduceBuffers(uint32_t dtype, uint32_t reduction,
                                  const void *const *sources,
                                  uint32_t sourceCount, void *destination,
                                  uint64_t count) {
  reduceAny(dtype, reduction, sources, sourceCount, destination, count);
}
