//===- Numbers.h - element types and their conversion -----------*- C++ -*-===//

#ifndef KERF_TRAIN_NUMBERS_H
#define KERF_TRAIN_NUMBERS_H

#include "kerf/Artifact/Format.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

/// Rounds to the nearest bf16 or f16, ties to even; NaN stays NaN, and what is
/// beyond the largest f16 becomes infinity.
uint16_t toBf16(float value);
uint16_t toF16(float value);
float fromBf16(uint16_t bits);
float fromF16(uint16_t bits);

/// Converts `count` elements between kerf_dtype's F32, BF16, F16 (both sides)
/// and F64 (from F32 exactly, to F32 rounded). False for other types.
[[nodiscard]] bool toFloats(uint32_t dtype, const void *source, int64_t count,
                            float *destination);
[[nodiscard]] bool fromFloats(uint32_t dtype, const float *source,
                              int64_t count, void *destination);

/// The index of the first NaN or infinity, -1 if all are finite.
int64_t findNonFinite(const float *values, int64_t count);

/// The same of `count` elements of a kerf_dtype, as they are stored; -1 for
/// types that have neither, and for those of 8 bits.
int64_t findNonFinite(uint32_t dtype, const void *values, int64_t count);

/// False, with "element 7 of 'NAME' is nan", where `bytes` of a kerf_dtype hold
/// a number that is not finite: it must not take the place of ones that are.
[[nodiscard]] bool checkFinite(const std::string &name, uint32_t dtype,
                               const std::vector<char> &bytes,
                               std::string &error);

/// "f32", "bf16", ... of a kerf_dtype; "?" for what is none.
std::string_view dtypeName(uint32_t dtype);

} // namespace kerf::runtime

#endif // KERF_TRAIN_NUMBERS_H
