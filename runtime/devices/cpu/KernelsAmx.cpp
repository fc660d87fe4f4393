//===- KernelsAmx.cpp - loops for AMX's bf16 tiles ------------------------===//
//
// A tile register has 16 rows of 64 bytes; tile matmuls sum a [16, 32] of A
// (one block of a strip) times b [32, 16] of B (half a block of a panel, pairs
// of k side by side) into c [16, 16]. Four sums are kept: two strips by the
// two halves of a panel.
//
//===----------------------------------------------------------------------===//

#include "KernelsBf16Impl.h"

namespace {
namespace impl {

constexpr int64_t bf16Strip = 16; ///< rows of a strip
constexpr Packing halves = {64, 1024};

struct alignas(64) TileShapes {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// Where strips of a lie: rows `row` bytes apart, blocks of 32 columns `block`,
/// strips `strip`.
struct Layout {
  int64_t row, block, strip;
};

/// Two strips from `a` times a panel into `c`. Meanwhile, `lines` of every 32
/// of the next panel are fetched from `next` on.
KERF_INLINE void twoStrips(int64_t k, const char *a, Layout at, const char *b,
                           float *c, int64_t cRow, bool accumulate,
                           const char *next, int64_t lines) {
  int64_t cBytes = cRow * 4;
  if (accumulate) {
    _tile_loadd(0, c, cBytes);
    _tile_loadd(1, c + 16, cBytes);
    _tile_loadd(2, c + 16 * cRow, cBytes);
    _tile_loadd(3, c + 16 * cRow + 16, cBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t l = 0; l < k; l += line, a += at.block, b += 2048) {
    fetch(next, 0, lines);
    next += 2048;
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, at.row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 1024, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + at.strip, at.row);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, cBytes);
  _tile_stored(1, c + 16, cBytes);
  _tile_stored(2, c + 16 * cRow, cBytes);
  _tile_stored(3, c + 16 * cRow + 16, cBytes);
}

KERF_INLINE void oneStrip(int64_t k, const char *a, Layout at, const char *b,
                          float *c, int64_t cRow, bool accumulate) {
  int64_t cBytes = cRow * 4;
  if (accumulate) {
    _tile_loadd(0, c, cBytes);
    _tile_loadd(1, c + 16, cBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (int64_t l = 0; l < k; l += line, a += at.block, b += 2048) {
    _tile_loadd(4, a, at.row);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 1024, 64);
    _tile_dpbf16ps(1, 4, 7);
  }
  _tile_stored(0, c, cBytes);
  _tile_stored(1, c + 16, cBytes);
}

/// Whatever of two strips the matrix has, through a buffer.
static void partStrips(int64_t rows, int64_t n, int64_t k, const char *a,
                       Layout at, const char *b, float *c, int64_t cRow,
                       bool accumulate) {
  alignas(64) float part[2 * bf16Strip * panel];
  // Sums start from c, as those of whole tiles do: the same bits.
  for (int64_t i = 0; i < 2 * bf16Strip; ++i)
    for (int64_t j = 0; j < panel; ++j)
      part[i * panel + j] =
          accumulate && i < rows && j < n ? c[i * cRow + j] : 0;
  if (rows > bf16Strip)
    twoStrips(k, a, at, b, part, panel, true, b, 0);
  else
    oneStrip(k, a, at, b, part, panel, true);
  savePart(c, cRow, part, panel, rows, n, false);
}

static void multiplyAt(int64_t m, int64_t n, int64_t k, const char *a,
                       Layout at, const char *b, float *c, int64_t cRow,
                       bool accumulate, const char *next) {
  constexpr int64_t pair = 2 * bf16Strip, panelLines = 32;
  int64_t lines = next ? (panelLines * pair + m - 1) / m : 0, first = 0;
  next = next ? next : b;
  for (int64_t i = 0; i < m; i += pair, a += 2 * at.strip, first += lines) {
    int64_t rows = least(pair, m - i);
    lines = least(lines, panelLines - first);
    if (n == panel && rows == pair)
      twoStrips(k, a, at, b, c + i * cRow, cRow, accumulate, next + first * 64,
                lines);
    else if (n == panel && rows == bf16Strip)
      oneStrip(k, a, at, b, c + i * cRow, cRow, accumulate);
    else
      partStrips(rows, n, k, a, at, b, c + i * cRow, cRow, accumulate);
  }
}

static void multiplyBf16(int64_t m, int64_t n, int64_t k, const void *a,
                         int64_t, int64_t stripBytes, const void *b, float *c,
                         int64_t cRow, bool accumulate, const void *next) {
  multiplyAt(m, n, k, (const char *)a, {64, 1024, stripBytes}, (const char *)b,
             c, cRow, accumulate, (const char *)next);
}

static void multiplyRows(int64_t m, int64_t n, int64_t k, const void *a,
                         int64_t rowBytes, const void *b, float *c,
                         int64_t cRow, bool accumulate, const void *next) {
  multiplyAt(m, n, k, (const char *)a, {rowBytes, 64, bf16Strip * rowBytes},
             (const char *)b, c, cRow, accumulate, (const char *)next);
}

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
                                          multiplyRows};

} // namespace impl
} // namespace

const kerf::cpu::Kernels kerf::cpu::amxKernels =
    impl::table("amx", impl::bf16Engine, impl::enter, impl::leave);
