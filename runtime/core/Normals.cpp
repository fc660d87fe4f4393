//===- Normals.cpp - standard normal numbers, quickly ---------------------===//
//
// Problem: initial weights are normals by Box and Muller (1958),
// sqrt(-2 ln u) cos(2 pi v) of numbers u and v with 24 bits, in f64: 40 ns each
// by the C library, 50 s for a billion on one core.
// Idea: loops without branches, of polynomials, that compilers turn into
// vectors. They are not the library's bits; who needs these computes again
// where the error bound does not decide the rounding (Initialize.cpp).
// Steps: ln of a mantissa in [sqrt 1/2, sqrt 2) by the series of
// 2 atanh((m - 1) / (m + 1)); the angle in quarter turns, of which the whole
// ones choose sine or cosine and its sign, and a rest in [-1/2, 1/2] goes
// through Taylor's series.
// Example: u = 1/2, v = 1/8: sqrt(2 ln 2) cos(pi / 4) = 0.83255.
//
//===----------------------------------------------------------------------===//

#include "Normals.h"

#include "kerf/Artifact/Format.h"

#include <bit>
#include <cmath>

#define KERF_INLINE inline __attribute__((always_inline))

/// ln(u) of a normal u > 0.
static KERF_INLINE double logOf(double u) {
  constexpr uint64_t half = 0x3fe6a09e667f3bcd; // sqrt(1/2)
  uint64_t bits = std::bit_cast<uint64_t>(u) - half;
  // Arithmetic on bits: the exponent relative to sqrt(1/2), with its sign.
  int64_t exponent = static_cast<int64_t>(bits) >> 52;
  uint64_t mantissa = (bits & 0x000fffffffffffff) + half;
  double m = std::bit_cast<double>(mantissa);
  // As a double without a conversion of 64 bits, which vectors may lack.
  double power = std::bit_cast<double>(0x4338000000000000 + exponent) -
                 std::bit_cast<double>(uint64_t(0x4338000000000000));
  double s = (m - 1) / (m + 1), q = s * s;
  double series = 1.0 / 17;
  series = series * q + 1.0 / 15;
  series = series * q + 1.0 / 13;
  series = series * q + 1.0 / 11;
  series = series * q + 1.0 / 9;
  series = series * q + 1.0 / 7;
  series = series * q + 1.0 / 5;
  series = series * q + 1.0 / 3;
  series = series * q + 1;
  return power * 0.6931471805599453 + 2 * s * series;
}

/// cos(2 pi bits / 2^24).
static KERF_INLINE double cosineOf(uint32_t bits) {
  int32_t turns = (static_cast<int32_t>(bits) + (1 << 21)) >> 22;
  int32_t rest = static_cast<int32_t>(bits) - (turns << 22);
  double a = rest * (1.5707963267948966 * 0x1p-22), q = a * a;
  double even = -1.0 / 87178291200;
  even = even * q + 1.0 / 479001600;
  even = even * q - 1.0 / 3628800;
  even = even * q + 1.0 / 40320;
  even = even * q - 1.0 / 720;
  even = even * q + 1.0 / 24;
  even = even * q - 1.0 / 2;
  even = even * q + 1;
  double odd = 1.0 / 6227020800;
  odd = odd * q - 1.0 / 39916800;
  odd = odd * q + 1.0 / 362880;
  odd = odd * q - 1.0 / 5040;
  odd = odd * q + 1.0 / 120;
  odd = odd * q - 1.0 / 6;
  odd = a * (odd * q + 1);
  double value = turns & 1 ? odd : even;
  return (turns + 1) & 2 ? -value : value;
}

static KERF_INLINE double normalOf(uint32_t radius, uint32_t angle) {
  // In (0, 1], exactly.
  double u = static_cast<int32_t>((1 << 24) - radius) * 0x1p-24;
  return std::sqrt(-2 * logOf(u)) * cosineOf(angle);
}

static KERF_INLINE void fill(uint64_t stream, uint64_t first, int64_t count,
                             double *values) {
  for (int64_t i = 0; i < count; ++i)
    values[i] = normalOf(kerf_random_bits(stream, 2 * (first + i)),
                         kerf_random_bits(stream, 2 * (first + i) + 1));
}

double kerf::runtime::nearNormalOf(uint32_t radiusBits, uint32_t angleBits) {
  return normalOf(radiusBits, angleBits);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512dq"))) static void
fillAvx512(uint64_t stream, uint64_t first, int64_t count, double *values) {
  fill(stream, first, count, values);
}
__attribute__((target("avx2"))) static void
fillAvx2(uint64_t stream, uint64_t first, int64_t count, double *values) {
  fill(stream, first, count, values);
}
#endif

void kerf::runtime::nearNormals(uint64_t stream, uint64_t first, int64_t count,
                                double *values) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq"))
    return fillAvx512(stream, first, count, values);
  if (__builtin_cpu_supports("avx2"))
    return fillAvx2(stream, first, count, values);
#endif
  fill(stream, first, count, values);
}
