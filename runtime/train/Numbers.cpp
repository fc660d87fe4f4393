//===- Numbers.cpp - element types and their conversion -------------------===//

#include "kerf/Train/Numbers.h"

#include "kerf/Train/Text.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace kerf::runtime;

uint16_t kerf::runtime::toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

float kerf::runtime::fromBf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

uint16_t kerf::runtime::toF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = bits >> 16 & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00;
  // 65520 and more round to infinity.
  if (magnitude >= 0x477ff000)
    return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Subnormal: the sum's last bits are units of 2^-24, rounded by the adder.
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | ((rounded - 0x38000000) >> 13);
}

float kerf::runtime::fromF16(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0x1f)
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// out[i] = convert(in[i]); memcpy because files need not be aligned.
template <typename Out, typename In, typename Convert>
static void convertAll(const void *source, int64_t count, void *destination,
                       Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    In in;
    std::memcpy(&in, static_cast<const char *>(source) + i * sizeof(In),
                sizeof(In));
    Out out = convert(in);
    std::memcpy(static_cast<char *>(destination) + i * sizeof(Out), &out,
                sizeof(Out));
  }
}

bool kerf::runtime::toFloats(uint32_t dtype, const void *source, int64_t count,
                             float *destination) {
  switch (dtype) {
  case KERF_F32:
    std::memcpy(destination, source, count * sizeof(float));
    return true;
  case KERF_BF16:
    convertAll<float, uint16_t>(source, count, destination, fromBf16);
    return true;
  case KERF_F16:
    convertAll<float, uint16_t>(source, count, destination, fromF16);
    return true;
  case KERF_F64:
    convertAll<float, double>(source, count, destination,
                              [](double x) { return static_cast<float>(x); });
    return true;
  default:
    return false;
  }
}

bool kerf::runtime::fromFloats(uint32_t dtype, const float *source,
                               int64_t count, void *destination) {
  switch (dtype) {
  case KERF_F32:
    std::memcpy(destination, source, count * sizeof(float));
    return true;
  case KERF_BF16:
    convertAll<uint16_t, float>(source, count, destination, toBf16);
    return true;
  case KERF_F16:
    convertAll<uint16_t, float>(source, count, destination, toF16);
    return true;
  case KERF_F64:
    convertAll<double, float>(source, count, destination,
                              [](float x) { return static_cast<double>(x); });
    return true;
  default:
    return false;
  }
}

int64_t kerf::runtime::findNonFinite(const float *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(values[i]))
      return i;
  return -1;
}

/// Whether the bits below the sign of any of these are `infinity` or more. All
/// are looked at, so that it becomes vector instructions.
template <typename Word>
[[gnu::always_inline]] static inline bool
hasBits(const char *bytes, int64_t count, Word infinity) {
  constexpr Word magnitude = std::numeric_limits<Word>::max();
  Word found = 0;
  for (int64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    found |= static_cast<Word>((word & magnitude) >= infinity);
  }
  return found != 0;
}

/// The first element of which that is so. `Word`: a signed type, as vectors
/// compare those.
template <typename Word>
[[gnu::always_inline]] static inline int64_t
findBits(const void *values, int64_t count, Word infinity) {
  constexpr int64_t block = 4096;
  const char *bytes = static_cast<const char *>(values);
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t end = std::min(begin + block, count);
    if (!hasBits(bytes + begin * sizeof(Word), end - begin, infinity))
      continue;
    for (int64_t i = begin; i < end; ++i)
      if (hasBits(bytes + i * sizeof(Word), 1, infinity))
        return i;
  }
  return -1;
}

[[gnu::always_inline]] static inline int64_t
findNonFiniteOf(uint32_t dtype, const void *values, int64_t count) {
  switch (dtype) {
  case KERF_F32:
    return findBits<int32_t>(values, count, 0x7f800000);
  case KERF_BF16:
    return findBits<int16_t>(values, count, 0x7f80);
  case KERF_F16:
    return findBits<int16_t>(values, count, 0x7c00);
  case KERF_F64:
    return findBits<int64_t>(values, count, INT64_C(0x7ff0000000000000));
  default:
    return -1;
  }
}

#if defined(__x86_64__)
/// The same loop with wider vectors.
__attribute__((target("avx2"))) static int64_t
findNonFiniteAvx2(uint32_t dtype, const void *values, int64_t count) {
  return findNonFiniteOf(dtype, values, count);
}
#endif

int64_t kerf::runtime::findNonFinite(uint32_t dtype, const void *values,
                                     int64_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return findNonFiniteAvx2(dtype, values, count);
#endif
  return findNonFiniteOf(dtype, values, count);
}

bool kerf::runtime::checkFinite(const std::string &name, uint32_t dtype,
                                const std::vector<char> &bytes,
                                std::string &error) {
  size_t width = std::max<size_t>(kerf_dtype_bytes(dtype), 1);
  auto count = static_cast<int64_t>(bytes.size() / width);
  int64_t bad = findNonFinite(dtype, bytes.data(), count);
  if (bad < 0)
    return true;
  float value = NAN;
  (void)toFloats(dtype, bytes.data() + bad * width, 1, &value);
  error = "element " + std::to_string(bad) + " of " + quote(name) + " is " +
          format("%g", value);
  return false;
}

std::string_view kerf::runtime::dtypeName(uint32_t dtype) {
  static constexpr std::string_view names[KERF_DTYPE_COUNT] = {
      "f32", "bf16", "f16", "i32", "i1", "f64", "i8", "f8e4m3", "f8e5m2"};
  return dtype < KERF_DTYPE_COUNT ? names[dtype] : "?";
}
