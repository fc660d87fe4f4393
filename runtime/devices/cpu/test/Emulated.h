//===- Emulated.h - AVX-512 and AMX in plain loops ------------------------===//
//
// What the kernels' source files use of AVX-512, its bf16 and AMX, on any
// processor: the names of the instructions, replaced before such a file is
// included. So these files are tested on machines without the instructions.
// KERF_EMULATE_BF16: the file is for processors with bf16.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_TEST_EMULATED_H
#define KERF_DEVICES_CPU_TEST_EMULATED_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define __AVX512F__ 1
#ifdef KERF_EMULATE_BF16
#define __AVX512BF16__ 1
#endif

namespace {
namespace emulated {

/// Registers are written and read as arrays.
template <typename To, typename From> To cast(const From &from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
struct Words {
  uint32_t at[16];
};
struct Quads {
  uint64_t at[8];
};
struct Singles {
  float at[16];
};
struct Halves {
  uint16_t at[16];
};
struct ManyHalves {
  uint16_t at[32];
};

inline float ofBf16(uint16_t x) { return cast<float>(uint32_t(x) << 16); }
/// To the nearest, ties to even; NaN stays NaN, subnormal numbers become 0.
inline uint16_t toBf16(float x) {
  uint32_t bits = cast<uint32_t>(x);
  if (x != x)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  if ((bits & 0x7f800000) == 0)
    return static_cast<uint16_t>(bits >> 16 & 0x8000);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Unpacks within each 128 bits: `half` 0 the low elements, 1 the high ones.
template <typename Vector> __m512i unpack(__m512i a, __m512i b, int half) {
  Vector x = cast<Vector>(a), y = cast<Vector>(b), z;
  constexpr int count = 16 / sizeof(x.at[0]);
  for (int lane = 0; lane < 4; ++lane)
    for (int i = 0; i < count / 2; ++i) {
      int from = lane * count + half * count / 2 + i;
      z.at[lane * count + 2 * i] = x.at[from];
      z.at[lane * count + 2 * i + 1] = y.at[from];
    }
  return cast<__m512i>(z);
}

inline __m512i shuffleLanes(__m512i a, __m512i b, int order) {
  Words x = cast<Words>(a), y = cast<Words>(b), z;
  for (int lane = 0; lane < 4; ++lane)
    memcpy(z.at + 4 * lane, (lane < 2 ? x : y).at + 4 * (order >> 2 * lane & 3),
           16);
  return cast<__m512i>(z);
}

/// Numbers whose bit is set in a mask, zeros else; reads no other.
template <typename Register, typename Vector>
Register loadMasked(uint32_t mask, const void *from) {
  Vector x{};
  for (size_t i = 0; i < sizeof x.at / sizeof x.at[0]; ++i)
    if (mask >> i & 1)
      memcpy(&x.at[i], static_cast<const char *>(from) + i * sizeof x.at[0],
             sizeof x.at[0]);
  return cast<Register>(x);
}

inline __m512 ofF16(__m256i halves) {
  Halves x = cast<Halves>(halves);
  Singles y;
  for (int i = 0; i < 16; ++i)
    y.at[i] = static_cast<float>(cast<_Float16>(x.at[i]));
  return cast<__m512>(y);
}

inline __m512i widen(__m256i halves) {
  Halves x = cast<Halves>(halves);
  Words y;
  for (int i = 0; i < 16; ++i)
    y.at[i] = x.at[i];
  return cast<__m512i>(y);
}

inline __m256i narrow(__m512 x) {
  Singles numbers = cast<Singles>(x);
  Halves y;
  for (int i = 0; i < 16; ++i)
    y.at[i] = toBf16(numbers.at[i]);
  return cast<__m256i>(y);
}

inline __m512i shiftLeft(__m512i x, int bits) {
  Words y = cast<Words>(x);
  for (uint32_t &word : y.at)
    word <<= bits;
  return cast<__m512i>(y);
}

inline __m512 addPairs(__m512 sum, __m512i a, __m512i b) {
  Singles z = cast<Singles>(sum);
  ManyHalves x = cast<ManyHalves>(a), y = cast<ManyHalves>(b);
  for (int i = 0; i < 32; ++i)
    z.at[i / 2] += ofBf16(x.at[i]) * ofBf16(y.at[i]);
  return cast<__m512>(z);
}

inline __m512i widerOf(__m256i x) {
  __m512i y{};
  memcpy(&y, &x, sizeof x);
  return y;
}
inline __m512i inserted(__m512i x, __m256i y, int half) {
  memcpy(reinterpret_cast<char *>(&x) + 32 * half, &y, sizeof y);
  return x;
}

/// One tile's 16 rows of 64 bytes.
struct Tile {
  char rows[16][64];
};
inline thread_local Tile tiles[8];

inline void loadTile(int tile, const void *from, int64_t row) {
  for (int i = 0; i < 16; ++i)
    memcpy(tiles[tile].rows[i], static_cast<const char *>(from) + i * row, 64);
}
inline void storeTile(int tile, void *to, int64_t row) {
  for (int i = 0; i < 16; ++i)
    memcpy(static_cast<char *>(to) + i * row, tiles[tile].rows[i], 64);
}
inline void addTiles(int c, int a, int b) {
  for (int i = 0; i < 16; ++i)
    for (int pair = 0; pair < 16; ++pair) {
      Words x;
      for (uint32_t &word : x.at)
        memcpy(&word, tiles[a].rows[i] + 4 * pair, 4);
      auto sum = cast<__m512>(tiles[c].rows[i]);
      auto y = cast<__m512i>(tiles[b].rows[pair]);
      sum = addPairs(sum, cast<__m512i>(x), y);
      memcpy(tiles[c].rows[i], &sum, 64);
    }
}

} // namespace emulated
} // namespace

#undef _mm512_shuffle_i32x4
#undef _mm512_inserti64x4
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define __m512bh __m512i
#define _mm512_unpacklo_epi32(a, b) emulated::unpack<emulated::Words>(a, b, 0)
#define _mm512_unpackhi_epi32(a, b) emulated::unpack<emulated::Words>(a, b, 1)
#define _mm512_unpacklo_epi64(a, b) emulated::unpack<emulated::Quads>(a, b, 0)
#define _mm512_unpackhi_epi64(a, b) emulated::unpack<emulated::Quads>(a, b, 1)
#define _mm512_shuffle_i32x4(a, b, order) emulated::shuffleLanes(a, b, order)
#define _mm512_maskz_loadu_ps(mask, from)                                      \
  emulated::loadMasked<__m512, emulated::Singles>(mask, from)
#define _mm256_maskz_loadu_epi16(mask, from)                                   \
  emulated::loadMasked<__m256i, emulated::Halves>(mask, from)
#define _mm512_maskz_loadu_epi16(mask, from)                                   \
  emulated::loadMasked<__m512i, emulated::ManyHalves>(mask, from)
#define _mm512_cvtph_ps(x) emulated::ofF16(x)
#define _mm512_cvtepu16_epi32(x) emulated::widen(x)
#define _mm512_cvtneps_pbh(x) emulated::narrow(x)
#define _mm512_slli_epi32(x, bits) emulated::shiftLeft(x, bits)
#define _mm512_or_si512(x, y) ((__m512i)((x) | (y)))
#define _mm512_castps_si512(x) emulated::cast<__m512i>(x)
#define _mm512_castsi512_ps(x) emulated::cast<__m512>(x)
#define _mm512_setzero_si512() (__m512i{})
#define _mm512_castsi256_si512(x) emulated::widerOf(x)
#define _mm512_inserti64x4(x, y, half) emulated::inserted(x, y, half)
#define _mm512_storeu_si512(to, x)                                             \
  do {                                                                         \
    __m512i stored = x;                                                        \
    memcpy(to, &stored, sizeof stored);                                        \
  } while (0)
#define _mm512_storeu_ps(to, x)                                                \
  do {                                                                         \
    __m512 stored = x;                                                         \
    memcpy(to, &stored, sizeof stored);                                        \
  } while (0)
#define _mm512_dpbf16_ps(sum, x, y) emulated::addPairs(sum, x, y)
#define _tile_loadconfig(shapes) (void)(shapes)
#define _tile_release() (void)0
#define _tile_zero(tile) (emulated::tiles[tile] = {})
#define _tile_loadd(tile, from, row) emulated::loadTile(tile, from, row)
#define _tile_stream_loadd(tile, from, row) emulated::loadTile(tile, from, row)
#define _tile_stored(tile, to, row) emulated::storeTile(tile, to, row)
#define _tile_dpbf16ps(c, a, b) emulated::addTiles(c, a, b)

#endif // KERF_DEVICES_CPU_TEST_EMULATED_H
