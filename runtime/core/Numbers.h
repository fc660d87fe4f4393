//===- Numbers.h - narrow floating types ----------------------------------===//

#ifndef KERF_RUNTIME_CORE_NUMBERS_H
#define KERF_RUNTIME_CORE_NUMBERS_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace kerf::runtime {

inline float fromBf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// To the nearest, ties to even; NaN stays NaN.
inline uint16_t toBf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x)
    return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/// Rounded once, unlike by way of the nearest float: the float in between is
/// rounded to odd, which keeps what the second rounding needs.
inline uint16_t toBf16(double x) {
  float nearest = static_cast<float>(x);
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (static_cast<double>(nearest) == x || x != x || std::isinf(nearest))
    return toBf16(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(x))
    --bits;
  return toBf16(std::bit_cast<float>(bits | 1));
}

inline float fromF16(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}
inline uint16_t toF16(float x) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(x));
}
inline uint16_t toF16(double x) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(x));
}

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_NUMBERS_H
