//===- KernelsAmx.cpp - loops for AMX's bf16 tiles ------------------------===//
//
// A tile register has 16 rows of 64 bytes; tile matmuls sum a [16, 32] of A
// (one block of a strip) times b [32, 16] of B (half a block of a panel, pairs
// of k side by side) into c [16, 16]. Four sums are kept: two strips by the
// two halves of a panel, which is a block of c for BlockLoops.
//
//===----------------------------------------------------------------------===//

#include "KernelsBf16Impl.h"

namespace {
namespace impl {

using kerf::cpu::BlockRun;
using kerf::cpu::BlockSums;

constexpr int64_t bf16Strip = 16; ///< rows of a strip
constexpr int64_t blockRows = 2 * bf16Strip;
constexpr int64_t tileBytes = 1024;
constexpr Packing halves = {64, tileBytes};

struct alignas(64) TileShapes {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// Four sums begin at 0 or as they lie in c, rows of two strips by a panel.
KERF_INLINE void beginSums(const float *c, int64_t cRow, bool accumulate) {
  if (accumulate) {
    _tile_loadd(0, c, cRow * 4);
    _tile_loadd(1, c + 16, cRow * 4);
    _tile_loadd(2, c + 16 * cRow, cRow * 4);
    _tile_loadd(3, c + 16 * cRow + 16, cRow * 4);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
}

KERF_INLINE void endSums(float *c, int64_t cRow) {
  _tile_stored(0, c, cRow * 4);
  _tile_stored(1, c + 16, cRow * 4);
  _tile_stored(2, c + 16 * cRow, cRow * 4);
  _tile_stored(3, c + 16 * cRow + 16, cRow * 4);
}

/// Adds a line of two strips by a panel. `Stream`: what is read of a does not
/// displace the panel from the first cache.
template <bool Stream>
KERF_INLINE void addLine(const char *a, int64_t stripBytes, const char *b) {
  _tile_loadd(6, b, 64);
  if (Stream)
    _tile_stream_loadd(4, a, 64);
  else
    _tile_loadd(4, a, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(7, b + tileBytes, 64);
  _tile_dpbf16ps(1, 4, 7);
  if (Stream)
    _tile_stream_loadd(5, a + stripBytes, 64);
  else
    _tile_loadd(5, a + stripBytes, 64);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

/// Two strips from `a` times a panel into `c`.
KERF_INLINE void twoStrips(int64_t k, const char *a, int64_t stripBytes,
                           const char *b, float *c, int64_t cRow,
                           bool accumulate) {
  beginSums(c, cRow, accumulate);
  for (int64_t l = 0; l < k; l += line, a += tileBytes, b += 2 * tileBytes)
    addLine<false>(a, stripBytes, b);
  endSums(c, cRow);
}

KERF_INLINE void oneStrip(int64_t k, const char *a, const char *b, float *c,
                          int64_t cRow, bool accumulate) {
  int64_t cBytes = cRow * 4;
  if (accumulate) {
    _tile_loadd(0, c, cBytes);
    _tile_loadd(1, c + 16, cBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (int64_t l = 0; l < k; l += line, a += tileBytes, b += 2 * tileBytes) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + tileBytes, 64);
    _tile_dpbf16ps(1, 4, 7);
  }
  _tile_stored(0, c, cBytes);
  _tile_stored(1, c + 16, cBytes);
}

/// Whatever of two strips the matrix has, through a buffer.
static void partStrips(int64_t rows, int64_t n, int64_t k, const char *a,
                       int64_t stripBytes, const char *b, float *c,
                       int64_t cRow, bool accumulate) {
  alignas(64) float part[blockRows * panel];
  // Sums start from c, as those of whole tiles do: the same bits.
  for (int64_t i = 0; i < blockRows; ++i)
    for (int64_t j = 0; j < panel; ++j)
      part[i * panel + j] =
          accumulate && i < rows && j < n ? c[i * cRow + j] : 0;
  if (rows > bf16Strip)
    twoStrips(k, a, stripBytes, b, part, panel, true);
  else
    oneStrip(k, a, b, part, panel, true);
  savePart(c, cRow, part, panel, rows, n, false);
}

static void multiplyBf16(int64_t m, int64_t n, int64_t k, const void *a,
                         int64_t, int64_t stripBytes, const void *b, float *c,
                         int64_t cRow, bool accumulate, const void *) {
  const char *strips = (const char *)a, *columns = (const char *)b;
  for (int64_t i = 0; i < m; i += blockRows, strips += 2 * stripBytes) {
    int64_t rows = least(blockRows, m - i);
    float *to = c + i * cRow;
    if (n == panel && rows == blockRows)
      twoStrips(k, strips, stripBytes, columns, to, cRow, accumulate);
    else if (n == panel && rows == bf16Strip)
      oneStrip(k, strips, columns, to, cRow, accumulate);
    else
      partStrips(rows, n, k, strips, stripBytes, columns, to, cRow, accumulate);
  }
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// What becomes of complete sums while others are made: the frequent cases have
/// loops of their own.
enum class Ending { None, Bf16, Bf16Bias, F32, F32Add, Any };

static Ending endingOf(const BlockSums *sums) {
  if (!sums)
    return Ending::None;
  if (sums->number == Number::F32 && !sums->bias)
    return sums->accumulate ? Ending::F32Add : Ending::F32;
  if (sums->number == Number::BF16 && !sums->accumulate)
    return sums->bias ? Ending::Bf16Bias : Ending::Bf16;
  return Ending::Any;
}

/// Brings one row of complete sums to where they go.
template <Ending E>
KERF_INLINE void finishLine(const BlockSums &s, int64_t row) {
  if (E == Ending::None)
    return;
  const float *sums = s.sums + row * panel;
  char *y = (char *)s.y + row * s.yRow * bytesOf(s.number);
  if (E == Ending::Any)
    return finishRow(y, s.number, sums, s.bias, s.biasNumber, s.accumulate,
                     panel);
  constexpr bool isF32 = E == Ending::F32 || E == Ending::F32Add;
#pragma GCC unroll 4
  for (int64_t i = 0; i < panel; i += lanes) {
    Floats sum = load(sums + i);
    if (E == Ending::Bf16Bias)
      sum += loadAny(s.bias, s.biasNumber, i);
    if (E == Ending::F32Add)
      sum += load((const float *)y + i);
    saveAny(y, isF32 ? Number::F32 : Number::BF16, i, sum);
  }
}

/// What is done while a block is multiplied.
struct Meanwhile {
  const char *next;       ///< lines to read
  const BlockSums *ready; ///< sums to finish
  const BlockSums *later; ///< whose lines are written later, or null
};

/// Lines of rows that are written later. Of a row as narrow as a line only the
/// last one is fetched: the one before is the previous panel's last.
struct LaterLines {
  const char *last = nullptr; ///< byte of the next row
  int64_t row = 0, left = 0;
  bool wide = false;

  LaterLines(const BlockSums *sums) {
    if (!sums)
      return;
    int64_t bytes = bytesOf(sums->number);
    row = sums->yRow * bytes;
    last = (const char *)sums->y + panel * bytes - 1;
    left = blockRows;
    wide = bytes > 2;
  }
  __attribute__((always_inline)) void fetchTwo() {
    if (left <= 0)
      return;
    for (int i = 0; i < 2; ++i, last += row) {
      __builtin_prefetch(last, 1);
      if (wide)
        __builtin_prefetch(last - 64, 1);
    }
    left -= 2;
  }
};

/// Two strips from `a` by a panel that stays in the first cache while strips
/// pass by: they are read so that they do not displace it.
template <Ending E, int Lines>
static void oneBlock(int64_t k, const char *a, int64_t stripBytes,
                     const char *b, float *sums, bool accumulate,
                     const Meanwhile &meanwhile) {
  beginSums(sums, panel, accumulate);
  const char *next = meanwhile.next;
  LaterLines later(meanwhile.later);
  int64_t done = 0;
  for (int64_t l = 0; l < k; l += line, a += tileBytes, b += 2 * tileBytes) {
    for (int i = 0; i < Lines; ++i)
      _mm_prefetch(next + i * 64, _MM_HINT_T1);
    next += Lines * 64;
    later.fetchTwo();
    if (E != Ending::None && done < blockRows) {
      finishLine<E>(*meanwhile.ready, done);
      finishLine<E>(*meanwhile.ready, done + 1);
      done += 2;
    }
    addLine<true>(a, stripBytes, b);
  }
  if (E != Ending::None)
    for (; done < blockRows; ++done)
      finishLine<E>(*meanwhile.ready, done);
  endSums(sums, panel);
}

template <Ending E, int Lines> static void runBlocks(const BlockRun &run) {
  const char *a = run.a, *next = run.next;
  BlockSums ready = run.waiting ? *run.waiting : BlockSums{}, later = {};
  if (run.target)
    later = *run.target;
  int64_t yBytes = blockRows * later.yRow * bytesOf(later.number);
  bool isReady = run.waiting;
  for (int64_t i = 0; i < run.blocks; ++i) {
    float *sums = run.place(i, blockRows * panel);
    Meanwhile meanwhile = {next, &ready, run.target ? &later : nullptr};
    if (isReady)
      oneBlock<E, Lines>(run.k, a, run.stripBytes, run.b, sums, run.accumulate,
                         meanwhile);
    else
      oneBlock<Ending::None, Lines>(run.k, a, run.stripBytes, run.b, sums,
                                    run.accumulate, meanwhile);
    ready = later;
    ready.sums = sums;
    isReady = run.target;
    later.y = (char *)later.y + yBytes;
    a += 2 * run.stripBytes;
    next += Lines * (run.k / line) * 64;
  }
}

template <Ending E> static void runBlocksOf(const BlockRun &run) {
  int64_t steps = run.blocks * (run.k / line);
  if (!run.next || !steps)
    runBlocks<E, 0>(run);
  else if (run.nextBytes <= steps * 5 * 64)
    runBlocks<E, 5>(run);
  else
    runBlocks<E, 8>(run);
}

static void multiplyBlocks(const BlockRun &run) {
  switch (endingOf(run.waiting ? run.waiting : run.target)) {
  case Ending::None:
    return runBlocksOf<Ending::None>(run);
  case Ending::Bf16:
    return runBlocksOf<Ending::Bf16>(run);
  case Ending::Bf16Bias:
    return runBlocksOf<Ending::Bf16Bias>(run);
  case Ending::F32:
    return runBlocksOf<Ending::F32>(run);
  case Ending::F32Add:
    return runBlocksOf<Ending::F32Add>(run);
  case Ending::Any:
    return runBlocksOf<Ending::Any>(run);
  }
}

constexpr kerf::cpu::BlockLoops blockLoops = {blockRows, 384, multiplyBlocks};

static void enter() {
  const TileShapes shapes;
  _tile_loadconfig(&shapes);
}

static void leave() { _tile_release(); }

constexpr kerf::cpu::Engine bf16Engine = {true,
                                          true,
                                          panel,
                                          bf16Strip,
                                          2,
                                          line,
                                          packBf16A,
                                          packBf16B<halves>,
                                          multiplyBf16,
                                          &blockLoops};

} // namespace impl
} // namespace

const kerf::cpu::Kernels kerf::cpu::amxKernels =
    impl::table("amx", impl::bf16Engine, impl::enter, impl::leave);
