//===- KernelsImpl.h - the loops, for the including file's flags ----------===//
//
// Included by one source file per instruction set, which is compiled with its
// flags and defines before:
//   KERF_LANES  f32 lanes of a vector: 4, 8 or 16
//   KERF_STRIP  rows of a register tile of PANEL columns
//   KERF_PANEL  columns of a packed panel: 16 or 32
// All names are internal to the file: no code for a newer processor can be
// merged with another file's.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_KERNELSIMPL_H
#define KERF_DEVICES_CPU_KERNELSIMPL_H

#include "Kernels.h"
#include "kerf/Artifact/Format.h"

#include <immintrin.h>
#include <string.h>

namespace {
namespace impl {

using kerf::cpu::bytesOf;
using kerf::cpu::Dropout;
using kerf::cpu::Number;
using kerf::cpu::RowMask;
using kerf::cpu::RowState;
using kerf::cpu::View;

constexpr int lanes = KERF_LANES;
constexpr int panel = KERF_PANEL;
constexpr int panelVectors = panel / lanes;
constexpr int block = 16; ///< f32 of a cache line
typedef float Floats __attribute__((vector_size(lanes * 4)));
typedef int32_t Ints __attribute__((vector_size(lanes * 4)));

#define KERF_INLINE static inline __attribute__((always_inline))

KERF_INLINE Floats load(const float *p) {
  Floats x;
  memcpy(&x, p, sizeof(x));
  return x;
}
KERF_INLINE Ints loadInts(const int32_t *p) {
  Ints x;
  memcpy(&x, p, sizeof(x));
  return x;
}
KERF_INLINE void save(float *p, Floats x) { memcpy(p, &x, sizeof(x)); }
KERF_INLINE Floats splat(float x) {
  Floats y;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i)
    y[i] = x;
  return y;
}
KERF_INLINE Ints bitsOf(Floats x) { return (Ints)x; }

KERF_INLINE float fromBf16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float y;
  memcpy(&y, &bits, 4);
  return y;
}
/// To the nearest, ties to even; NaN stays NaN.
KERF_INLINE uint16_t toBf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? (uint16_t)(bits >> 16 | 0x40)
                                          : (uint16_t)rounded;
}

/// Compilers have f16; processors convert it from AVX2 on.
KERF_INLINE float fromF16(uint16_t x) {
  _Float16 y;
  memcpy(&y, &x, 2);
  return (float)y;
}
KERF_INLINE uint16_t toF16(float x) {
  _Float16 half = (_Float16)x;
  uint16_t bits;
  memcpy(&bits, &half, 2);
  return bits;
}

KERF_INLINE float numberAt(const void *x, Number number, int64_t i) {
  if (number == Number::F32)
    return ((const float *)x)[i];
  uint16_t bits = ((const uint16_t *)x)[i];
  return number == Number::BF16 ? fromBf16(bits) : fromF16(bits);
}
KERF_INLINE void setNumber(void *y, Number number, int64_t i, float x) {
  if (number == Number::F32)
    ((float *)y)[i] = x;
  else
    ((uint16_t *)y)[i] = number == Number::BF16 ? toBf16(x) : toF16(x);
}

typedef uint16_t Halves __attribute__((vector_size(lanes * 2)));
typedef _Float16 HalfFloats __attribute__((vector_size(lanes * 2)));

KERF_INLINE Floats loadAny(const void *x, Number number, int64_t i) {
  if (number == Number::F32)
    return load((const float *)x + i);
  if (number == Number::F16) {
    HalfFloats halves;
    memcpy(&halves, (const uint16_t *)x + i, sizeof(halves));
    return __builtin_convertvector(halves, Floats);
  }
  Halves halves;
  memcpy(&halves, (const uint16_t *)x + i, sizeof(halves));
  return (Floats)(__builtin_convertvector(halves, Ints) << 16);
}

KERF_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// `lines` lines of `count` elements, `stride` apart, become `count` lines of
/// `lines` floats; both at most 16. Writes the first `outLines` lines, all 16
/// floats of each, zero beyond the source.
#ifdef __AVX512F__
KERF_INLINE void transposeRegisters(__m512i r[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

/// 16 floats from element `index` on, those from `count` on zero.
KERF_INLINE __m512 loadLine(const void *data, Number number, int64_t index,
                            int64_t count) {
  __mmask16 mask = count >= 16 ? 0xffff : (1u << count) - 1;
  if (number == Number::F32)
    return _mm512_maskz_loadu_ps(mask, (const float *)data + index);
  __m256i half = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)data + index);
  if (number == Number::F16)
    return _mm512_cvtph_ps(half);
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

static void transposeBlock(float *out, int64_t outRow, int64_t outLines,
                           const void *data, Number number, int64_t index,
                           int64_t stride, int64_t count, int64_t lines) {
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    r[i] = i < lines ? _mm512_castps_si512(
                           loadLine(data, number, index + i * stride, count))
                     : _mm512_setzero_si512();
  transposeRegisters(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    if (i < outLines)
      _mm512_storeu_si512(out + i * outRow, r[i]);
}

KERF_INLINE void copyLine(float *out, const void *data, Number number,
                          int64_t index, int64_t count) {
  _mm512_storeu_ps(out, loadLine(data, number, index, count));
}
#else
/// 16 floats; those from `count` on zero.
KERF_INLINE void copyLine(float *out, const void *data, Number number,
                          int64_t index, int64_t count) {
  if (count >= block)
    for (int64_t j = 0; j < block; j += lanes)
      save(out + j, loadAny(data, number, index + j));
  else
    for (int64_t j = 0; j < block; ++j)
      out[j] = j < count ? numberAt(data, number, index + j) : 0;
}

/// Four columns of 16 lines, `row` floats apart, become four lines.
KERF_INLINE void transposeFour(float *const out[4], const float *in,
                               int64_t row) {
  for (int64_t i = 0; i < block; i += 8) {
#ifdef __AVX__
    auto two = [&](int64_t line) __attribute__((always_inline)) {
      const float *from = in + (i + line) * row;
      __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(from));
      return _mm256_insertf128_ps(low, _mm_loadu_ps(from + 4 * row), 1);
    };
    __m256 a = two(0), b = two(1), c = two(2), d = two(3);
    __m256 ab = _mm256_unpacklo_ps(a, b), cd = _mm256_unpacklo_ps(c, d);
    __m256 abHigh = _mm256_unpackhi_ps(a, b), cdHigh = _mm256_unpackhi_ps(c, d);
    _mm256_storeu_ps(out[0] + i, _mm256_shuffle_ps(ab, cd, 0x44));
    _mm256_storeu_ps(out[1] + i, _mm256_shuffle_ps(ab, cd, 0xee));
    _mm256_storeu_ps(out[2] + i, _mm256_shuffle_ps(abHigh, cdHigh, 0x44));
    _mm256_storeu_ps(out[3] + i, _mm256_shuffle_ps(abHigh, cdHigh, 0xee));
#else
    for (int64_t j = 0; j < 8; ++j)
      for (int64_t l = 0; l < 4; ++l)
        out[l][i + j] = in[(i + j) * row + l];
#endif
  }
}

static void transposeBlock(float *out, int64_t outRow, int64_t outLines,
                           const void *data, Number number, int64_t index,
                           int64_t stride, int64_t count, int64_t lines) {
  float copy[block * block], unused[block];
  const float *in = (const float *)data + index;
  if (number != Number::F32 || count < block || lines < block) {
    for (int64_t i = 0; i < block; ++i)
      copyLine(copy + i * block, data, number, index + i * stride,
               i < lines ? count : 0);
    in = copy;
    stride = block;
  }
  for (int64_t i = 0; i < outLines; i += 4) {
    float *to[4];
    for (int64_t l = 0; l < 4; ++l)
      to[l] = i + l < outLines ? out + (i + l) * outRow : unused;
    transposeFour(to, in + i, stride);
  }
}
#endif

static void packA(void *packed, View a, int64_t m, int64_t k,
                  int64_t stripRows) {
  int64_t blocks = (k + block - 1) / block, blockSize = stripRows * block;
  // Blocks in the order of the source's memory.
  auto pack = [&](int64_t i0, int64_t k0) __attribute__((always_inline)) {
    int64_t rows = least(stripRows, m - i0), depth = least(block, k - k0);
    int64_t index = i0 * a.row + k0 * a.column;
    // Whole lines are faster than their first `rows` numbers.
    int64_t count = least(block, m - i0);
    float *out =
        (float *)packed + (i0 / stripRows * blocks + k0 / block) * blockSize;
    if (a.column == 1)
      for (int64_t i = 0; i < stripRows; ++i)
        copyLine(out + i * block, a.data, a.number, index + i * a.row,
                 i < rows ? depth : 0);
    else
      transposeBlock(out, block, stripRows, a.data, a.number, index, a.column,
                     count, depth);
  };
  if (a.column == 1)
    for (int64_t i0 = 0; i0 < m; i0 += stripRows)
      for (int64_t k0 = 0; k0 < k; k0 += block)
        pack(i0, k0);
  else
    for (int64_t k0 = 0; k0 < k; k0 += block)
      for (int64_t i0 = 0; i0 < m; i0 += stripRows)
        pack(i0, k0);
}

static void packB(void *packed, View b, int64_t k, int64_t n) {
  int64_t blocks = (k + block - 1) / block;
  auto pack = [&](int64_t k0, int64_t j) __attribute__((always_inline)) {
    float *out = (float *)packed +
                 (j / panel * blocks + k0 / block) * block * panel + j % panel;
    int64_t columns = j < n ? least(n - j, block) : 0;
    int64_t depth = least(block, k - k0), index = k0 * b.row + j * b.column;
    if (b.column == 1)
      for (int64_t i = 0; i < block; ++i)
        copyLine(out + i * panel, b.data, b.number, index + i * b.row,
                 i < depth ? columns : 0);
    else
      transposeBlock(out, panel, block, b.data, b.number, index, b.column,
                     depth, columns);
  };
  int64_t padded = (n + panel - 1) / panel * panel;
  if (b.column == 1)
    for (int64_t k0 = 0; k0 < k; k0 += block)
      for (int64_t j = 0; j < padded; j += block)
        pack(k0, j);
  else
    for (int64_t j = 0; j < padded; j += block)
      for (int64_t k0 = 0; k0 < k; k0 += block)
        pack(k0, j);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// The part [rows, n] of a tile that the matrix has.
KERF_INLINE void savePart(float *c, int64_t cRow, const float *tile,
                          int64_t tileRow, int64_t rows, int64_t n,
                          bool accumulate) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j)
      c[i * cRow + j] = accumulate ? c[i * cRow + j] + tile[i * tileRow + j]
                                   : tile[i * tileRow + j];
}

/// Fetches lines [first, first + lines) of a block of 32 to the second cache.
KERF_INLINE void fetch(const char *block, int64_t first, int64_t lines) {
  for (int64_t i = first; i < first + lines; ++i)
    _mm_prefetch(block + i * 64, _MM_HINT_T1);
}

/// What the loops multiply: packed elements of 4 bytes, of which each has some
/// numbers that are neighbors in k.
struct Singles {
  static constexpr int64_t numbers = 1;
  KERF_INLINE Floats add(Floats sum, Floats x, Floats y) { return sum + x * y; }
};

/// k counts elements. `next`: where this strip's share of the next panel
/// starts; `lines` of every `panel` lines are its.
template <typename Element, int H>
KERF_INLINE void tile(int64_t rows, int64_t n, int64_t k, const float *a,
                      const float *b, float *c, int64_t cRow, bool accumulate,
                      const char *next, int64_t lines) {
  Floats sum[H][panelVectors] = {};
  for (int64_t k0 = 0; k0 < k; k0 += block, a += H * block) {
    fetch(next, 0, lines);
    next += panel * 64;
#pragma GCC unroll 4
    for (int l = 0; l < block; ++l, b += panel) {
      Floats bs[panelVectors];
#pragma GCC unroll 4
      for (int v = 0; v < panelVectors; ++v)
        bs[v] = load(b + v * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < H; ++i) {
        Floats x = splat(a[i * block + l]);
#pragma GCC unroll 4
        for (int v = 0; v < panelVectors; ++v)
          sum[i][v] = Element::add(sum[i][v], x, bs[v]);
      }
    }
  }
  if (rows == H && n == panel) {
#pragma GCC unroll 16
    for (int i = 0; i < H; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < panelVectors; ++v) {
        float *at = c + i * cRow + v * lanes;
        save(at, accumulate ? load(at) + sum[i][v] : sum[i][v]);
      }
    return;
  }
  float part[H * panel];
#pragma GCC unroll 16
  for (int i = 0; i < H; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < panelVectors; ++v)
      save(part + i * panel + v * lanes, sum[i][v]);
  savePart(c, cRow, part, panel, rows, n, accumulate);
}

template <typename Element, int H>
static void strips(int64_t m, int64_t n, int64_t k, const char *a,
                   int64_t stripBytes, const float *b, float *c, int64_t cRow,
                   bool accumulate, const char *next) {
  // A block of 16 rows of a panel has `panel` lines, shared by the strips.
  int64_t lines = next ? (panel * H + m - 1) / m : 0;
  next = next ? next : (const char *)b;
  int64_t at = 0;
  for (int64_t i = 0; i < m; i += H, a += stripBytes, at += lines) {
    lines = least(lines, panel - at);
    tile<Element, H>(least(H, m - i), n, k, (const float *)a, b, c + i * cRow,
                     cRow, accumulate, next + at * 64, lines);
  }
}

template <typename Element, int H>
static void multiplyFrom(int64_t m, int64_t n, int64_t k, const void *a,
                         int64_t stripRows, int64_t stripBytes, const void *b,
                         float *c, int64_t cRow, bool accumulate,
                         const void *next) {
  if (stripRows == H)
    return strips<Element, H>(m, n, k, (const char *)a, stripBytes,
                              (const float *)b, c, cRow, accumulate,
                              (const char *)next);
  if constexpr (H > 1)
    multiplyFrom<Element, H - 1>(m, n, k, a, stripRows, stripBytes, b, c, cRow,
                                 accumulate, next);
}

template <typename Element>
static void multiply(int64_t m, int64_t n, int64_t k, const void *a,
                     int64_t stripRows, int64_t stripBytes, const void *b,
                     float *c, int64_t cRow, bool accumulate,
                     const void *next) {
  multiplyFrom<Element, KERF_STRIP>(m, n, k / Element::numbers, a, stripRows,
                                    stripBytes, b, c, cRow, accumulate, next);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// e^x within 2 units in the last place; 0 below -87.3, finite above 88. With
/// x = n ln 2 + r, |r| <= ln 2 / 2: a polynomial in r (the coefficients of
/// Cephes' expf) times 2^n.
KERF_INLINE Floats expOf(Floats x) {
  constexpr float lowest = -87.3f, highest = 88.0f;
  Ints tiny = x < splat(lowest);
  x = tiny ? splat(lowest) : x;
  x = x > splat(highest) ? splat(highest) : x;
  // Adding 1.5 * 2^23 rounds to an integer, kept in the low bits.
  Floats shifted = x * 1.44269504f + 12582912.0f;
  Floats n = shifted - 12582912.0f;
  Floats r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Floats p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  Ints power = (bitsOf(shifted) + 127) << 23;
  return tiny ? Floats{} : p * (Floats)power;
}

KERF_INLINE Ints positions(int64_t first) {
  Ints x;
  for (int i = 0; i < lanes; ++i)
    x[i] = (int32_t)(first + i);
  return x;
}

/// Lanes of the vector at `j` that the mask shows.
KERF_INLINE Ints visibleAt(const RowMask &mask, int64_t j) {
  Ints at = positions(j);
  Ints visible = (at >= (int32_t)mask.begin) & (at < (int32_t)mask.end);
  if (mask.segments)
    visible &= loadInts(mask.segments + j) == mask.segment;
  return visible;
}

KERF_INLINE bool allVisible(const RowMask &mask, int64_t j) {
  return j >= mask.begin && j + lanes <= mask.end && !mask.segments;
}

KERF_INLINE float largest(Floats x) {
  float y = x[0];
  for (int i = 1; i < lanes; ++i)
    y = x[i] > y ? x[i] : y;
  return y;
}

KERF_INLINE float total(Floats x) {
  float part[lanes];
  save(part, x);
  for (int step = lanes / 2; step; step /= 2)
    for (int i = 0; i < step; ++i)
      part[i] += part[i + step];
  return part[0];
}

KERF_INLINE float dropFactor(const Dropout &dropout, uint64_t index) {
  return kerf_random_bits(dropout.stream, index) < dropout.threshold
             ? 0.0f
             : dropout.factor;
}

/// Within 2e-7 of it: near 0 by its series, else by e^x.
KERF_INLINE Floats tanhOf(Floats x) {
  Floats size = x < Floats{} ? -x : x, square = x * x;
  Floats series = square * (62.0f / 2835) - 17.0f / 315;
  series = series * square + 2.0f / 15;
  series = series * square - 1.0f / 3;
  series = x + x * square * series;
  Floats far = 1.0f - 2.0f / (expOf(size * 2.0f) + 1.0f);
  far = x < Floats{} ? -far : far;
  return size < splat(0.3f) ? series : far;
}

/// A score of attention, perhaps under a soft cap.
KERF_INLINE Floats scoreOf(Floats product, float scale, float cap) {
  return cap > 0 ? tanhOf(product * (scale / cap)) * cap : product * scale;
}

static float softmaxRow(float *scores, int64_t n, float scale, float cap,
                        const RowMask &mask, const Dropout &dropout,
                        uint64_t first, RowState &state) {
  constexpr float none = -__builtin_inff();
  int64_t begin = mask.begin / lanes * lanes;
  int64_t end = least((mask.end + lanes - 1) / lanes * lanes,
                      (n + lanes - 1) / lanes * lanes);
  if (mask.begin >= mask.end)
    begin = end = 0;
  Floats top = splat(none);
  for (int64_t j = begin; j < end; j += lanes) {
    Floats s = scoreOf(load(scores + j), scale, cap);
    if (!allVisible(mask, j))
      s = visibleAt(mask, j) ? s : splat(none);
    save(scores + j, s);
    top = s > top ? s : top;
  }
  float old = state.max, found = largest(top);
  float max = found > old ? found : old;
  if (max == none) // nothing visible yet: NaN scores must still show
    max = 0;
  memset(scores, 0, begin * 4);
  Floats sum = {};
  for (int64_t j = begin; j < end; j += lanes) {
    Floats p = expOf(load(scores + j) - max);
    save(scores + j, p);
    sum += p;
  }
  if (end < n)
    memset(scores + end, 0, (n - end) * 4);
  if (dropout.threshold)
    for (int64_t j = begin; j < least(end, n); ++j)
      scores[j] *= dropFactor(dropout, first + j);
  float correction = old == none ? 0.0f : expOf(splat(old - max))[0];
  state.max = found > old ? found : old;
  state.sum = state.sum * correction + total(sum);
  return correction;
}

static void gradientRow(float *s, float *dp, int64_t n, float scale, float cap,
                        const float *lse, const float *delta,
                        const RowMask &mask, const Dropout &dropout,
                        uint64_t first, uint64_t step) {
  float drop[lanes];
  for (int64_t j = 0; j < n; j += lanes) {
    if (j + lanes <= mask.begin || j >= mask.end) {
      save(s + j, Floats{});
      save(dp + j, Floats{});
      continue;
    }
    Floats score = scoreOf(load(s + j), scale, cap);
    Floats p = expOf(score - load(lse + j));
    Floats d = load(dp + j);
    Floats kept = splat(1.0f);
    if (dropout.threshold) {
      for (int i = 0; i < lanes; ++i)
        drop[i] = dropFactor(dropout, first + (j + i) * step);
      kept = load(drop);
    }
    Floats ds = p * (d * kept - load(delta + j)) * scale;
    if (cap > 0) {
      Floats part = score * (1 / cap);
      ds *= 1.0f - part * part;
    }
    p = p * kept;
    if (!allVisible(mask, j)) {
      Ints visible = visibleAt(mask, j);
      p = visible ? p : Floats{};
      ds = visible ? ds : Floats{};
    }
    save(s + j, p);
    save(dp + j, ds);
  }
}

static void scaleRow(float *x, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i)
    x[i] *= factor;
}

/// As setNumber; bf16 by its own instruction makes subnormal numbers 0.
KERF_INLINE void saveAny(void *y, Number number, int64_t i, Floats x) {
  if (number == Number::F32)
    return save((float *)y + i, x);
  if (number == Number::F16) {
    HalfFloats halves = __builtin_convertvector(x, HalfFloats);
    memcpy((uint16_t *)y + i, &halves, sizeof(halves));
    return;
  }
#ifdef __AVX512BF16__
  __m256i halves = (__m256i)_mm512_cvtneps_pbh((__m512)x);
#else
  Ints bits = bitsOf(x);
  Ints rounded = bits + 0x7fff + ((bits >> 16) & 1);
  rounded = x == x ? rounded : bits | 0x400000;
  Halves halves = __builtin_convertvector(rounded >> 16, Halves);
#endif
  memcpy((uint16_t *)y + i, &halves, sizeof(halves));
}

static void storeRow(void *y, Number number, const float *x, int64_t n,
                     float factor) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    saveAny(y, number, i, load(x + i) * factor);
  for (; i < n; ++i)
    setNumber(y, number, i, x[i] * factor);
}

KERF_INLINE void finishRow(void *y, Number number, const float *x,
                           const void *bias, Number biasNumber, bool accumulate,
                           int64_t n) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Floats sum = load(x + i);
    if (bias)
      sum += loadAny(bias, biasNumber, i);
    if (accumulate)
      sum += loadAny(y, number, i);
    saveAny(y, number, i, sum);
  }
  for (; i < n; ++i) {
    float sum = x[i];
    if (bias)
      sum += numberAt(bias, biasNumber, i);
    if (accumulate)
      sum += numberAt(y, number, i);
    setNumber(y, number, i, sum);
  }
}

/// Where each row has pages of its own, no processor foresees the next one:
/// lines are fetched some rows before they are written.
static void finishRows(void *y, Number number, int64_t yRow, const float *x,
                       int64_t xRow, const void *bias, Number biasNumber,
                       bool accumulate, int64_t rows, int64_t n) {
  constexpr int64_t before = 8, page = 4096;
  int64_t rowBytes = yRow * bytesOf(number), bytes = n * bytesOf(number);
  char *out = (char *)y;
  for (int64_t i = 0; i < rows; ++i, out += rowBytes, x += xRow) {
    if (rowBytes > page && i + before < rows)
      for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(out + before * rowBytes + at, 1);
    finishRow(out, number, x, bias, biasNumber, accumulate, n);
  }
}

static float dotRow(const void *a, const void *b, Number number, int64_t n) {
  float sum[block] = {}, x[block], y[block];
  for (int64_t j = 0; j < n; j += block) {
    copyLine(x, a, number, j, n - j);
    copyLine(y, b, number, j, n - j);
    for (int i = 0; i < block; ++i)
      sum[i] += x[i] * y[i];
  }
  for (int step = block / 2; step; step /= 2)
    for (int i = 0; i < step; ++i)
      sum[i] += sum[i + step];
  return sum[0];
}

static void storeTransposed(void *y, int64_t yRow, Number number,
                            const float *x, int64_t xRow, int64_t rows,
                            int64_t columns) {
  float out[block * block];
  for (int64_t i = 0; i < rows; i += block)
    for (int64_t j = 0; j < columns; j += block) {
      int64_t lines = least(block, rows - i), count = least(block, columns - j);
      transposeBlock(out, block, count, x, Number::F32, i * xRow + j, xRow,
                     count, lines);
      for (int64_t l = 0; l < count; ++l)
        storeRow((char *)y + ((j + l) * yRow + i) * bytesOf(number), number,
                 out + l * block, lines, 1.0f);
    }
}

constexpr kerf::cpu::Engine f32Engine = {
    false, false, panel, KERF_STRIP,        4,
    block, packA, packB, multiply<Singles>, nullptr};

static inline void nothing() {}

constexpr kerf::cpu::Kernels table(const char *name,
                                   const kerf::cpu::Engine &bf16,
                                   void (*enter)() = nothing,
                                   void (*leave)() = nothing) {
  return {name,        enter,    leave,    f32Engine,  bf16,   softmaxRow,
          gradientRow, scaleRow, storeRow, finishRows, dotRow, storeTransposed};
}

} // namespace impl
} // namespace

#endif // KERF_DEVICES_CPU_KERNELSIMPL_H
