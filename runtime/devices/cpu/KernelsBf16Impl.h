//===- KernelsBf16Impl.h - packing of bf16 for AVX-512 and AMX ------------===//
//
// As KernelsImpl.h, for files compiled with AVX512_BF16. A line is 64 bytes:
// 32 numbers of one row, or 16 pairs of neighbors in k.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_KERNELSBF16IMPL_H
#define KERF_DEVICES_CPU_KERNELSBF16IMPL_H

#define KERF_LANES 16
#define KERF_STRIP 14
#define KERF_PANEL 32
#include "KernelsImpl.h"

namespace {
namespace impl {

constexpr int64_t line = 32;       ///< numbers of a line
constexpr int64_t blockLines = 16; ///< of a block that is packed at once

/// Where blocks of packed operands lie, in bytes. A block of A has one line for
/// each row of a strip; one of B has pairs of 16 columns.
struct Packing {
  int64_t bRow;   ///< from a line of a block of B to the next
  int64_t bBlock; ///< from the block of 16 columns to the next one of a panel
};

/// 16 numbers as bf16, those from `count` on zero.
KERF_INLINE __m256i loadHalves(const View &x, int64_t index, int64_t count) {
  __mmask16 mask = count >= 16 ? 0xffff : count <= 0 ? 0 : (1u << count) - 1;
  if (x.number == Number::BF16)
    return _mm256_maskz_loadu_epi16(mask, (const uint16_t *)x.data + index);
  return (__m256i)_mm512_cvtneps_pbh(
      _mm512_maskz_loadu_ps(mask, (const float *)x.data + index));
}

/// 32 numbers in a row.
KERF_INLINE __m512i loadRow(const View &x, int64_t index, int64_t count) {
  if (x.number == Number::BF16) {
    __mmask32 mask = count >= 32 ? 0xffffffffu : (1u << count) - 1;
    return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)x.data + index);
  }
  return _mm512_inserti64x4(_mm512_castsi256_si512(loadHalves(x, index, count)),
                            loadHalves(x, index + 16, count - 16), 1);
}

/// 16 pairs: numbers at `index` and one `stride` further; the second zero
/// unless `both`.
KERF_INLINE __m512i loadPairs(const View &x, int64_t index, int64_t stride,
                              int64_t count, bool both) {
  __m512i low = _mm512_cvtepu16_epi32(loadHalves(x, index, count));
  if (!both)
    return low;
  __m512i high = _mm512_cvtepu16_epi32(loadHalves(x, index + stride, count));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/// A block of 16 lines, of which `out` gets `outLines`, `outRow` bytes apart:
/// line i is a row of `count` numbers, or, with `pairs`, line i has numbers
/// 2 i and 2 i + 1 of `count` columns; then the block is transposed if asked
/// for. `lines`: how many the source has.
KERF_INLINE void packBlock(char *out, int64_t outRow, int64_t outLines,
                           const View &x, int64_t index, int64_t stride,
                           int64_t lines, int64_t count, bool pairs,
                           bool transposed) {
  __m512i r[16];
#pragma GCC unroll 16
  for (int64_t i = 0; i < 16; ++i) {
    if (pairs)
      r[i] = 2 * i < lines ? loadPairs(x, index + 2 * i * stride, stride, count,
                                       2 * i + 1 < lines)
                           : _mm512_setzero_si512();
    else
      r[i] = i < lines ? loadRow(x, index + i * stride, count)
                       : _mm512_setzero_si512();
  }
  if (transposed)
    transposeRegisters(r);
#pragma GCC unroll 16
  for (int64_t i = 0; i < blockLines; ++i)
    if (i < outLines)
      _mm512_storeu_si512(out + i * outRow, r[i]);
}

static void packBf16A(void *packed, View a, int64_t m, int64_t k,
                      int64_t stripRows) {
  int64_t blocks = (k + line - 1) / line;
  // Blocks in the order of the source's memory.
  auto pack = [&](int64_t i, int64_t l) __attribute__((always_inline)) {
    char *out =
        (char *)packed + (i / stripRows * blocks + l / line) * stripRows * 64;
    int64_t rows = least(stripRows, m - i), depth = least(line, k - l);
    int64_t index = i * a.row + l * a.column;
    if (a.column == 1)
      packBlock(out, 64, stripRows, a, index, a.row, rows, depth, false, false);
    else
      packBlock(out, 64, stripRows, a, index, a.column, depth, rows, true,
                true);
  };
  if (a.column == 1)
    for (int64_t i = 0; i < m; i += stripRows)
      for (int64_t l = 0; l < k; l += line)
        pack(i, l);
  else
    for (int64_t l = 0; l < k; l += line)
      for (int64_t i = 0; i < m; i += stripRows)
        pack(i, l);
}

template <Packing P>
static void packBf16B(void *packed, View b, int64_t k, int64_t n) {
  int64_t blocks = (k + line - 1) / line;
  auto pack = [&](int64_t l, int64_t j) __attribute__((always_inline)) {
    char *out = (char *)packed + (j / panel * blocks + l / line) * panel * 64 +
                j / 16 % 2 * P.bBlock;
    int64_t columns = j < n ? least(16, n - j) : 0;
    int64_t depth = least(line, k - l), index = l * b.row + j * b.column;
    if (b.column == 1)
      packBlock(out, P.bRow, blockLines, b, index, b.row, columns ? depth : 0,
                columns, true, false);
    else
      packBlock(out, P.bRow, blockLines, b, index, b.column, columns, depth,
                false, true);
  };
  int64_t padded = (n + panel - 1) / panel * panel;
  if (b.column == 1)
    for (int64_t l = 0; l < k; l += line)
      for (int64_t j = 0; j < padded; j += 16)
        pack(l, j);
  else
    for (int64_t j = 0; j < padded; j += 16)
      for (int64_t l = 0; l < k; l += line)
        pack(l, j);
}

} // namespace impl
} // namespace

#endif // KERF_DEVICES_CPU_KERNELSBF16IMPL_H
