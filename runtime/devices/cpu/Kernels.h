//===- Kernels.h - inner loops by instruction set -------------------------===//
//
// The inner loops of all operations, compiled once per instruction set and
// chosen when the device is created.
//
// Matmuls work on packed operands. With L = 64 / element bytes (16 for f32,
// 32 for bf16):
//  - A, m x k: strips of h rows (stripRows), each [k / L][h][L], zero-filled;
//  - B, k x n: panels of `panel` columns, each [k][panel] for f32,
//    [k / 2][panel][2] (pairs of k) for bf16 and, for AMX, [k / 32][panel / 16]
//    [16][16][2], zero-filled to whole panels and k to whole L.
// So pairs lie as f32 do: the loops are the same but for what they add.
// An element of the matmul is summed in the order of k, whatever its place in
// a tile: its bits do not depend on how rows and columns are split.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_KERNELS_H
#define KERF_DEVICES_CPU_KERNELS_H

#include <stdint.h>

namespace kerf::cpu {

/// Number types of operands in memory.
enum class Number : uint8_t { F32, BF16, F16 };

inline int64_t bytesOf(Number number) { return number == Number::F32 ? 4 : 2; }

/// Rows and columns of a matrix in memory: element (i, j) lies at
/// data + i * row + j * column elements.
struct View {
  const void *data;
  int64_t row, column;
  Number number;
};

/// Complete sums of a block, [rows][panel], and where they go: y = sums + bias,
/// added to y if asked for.
struct BlockSums {
  const float *sums;
  void *y;
  Number number;
  int64_t yRow;     ///< elements from a row of y to the next
  const void *bias; ///< of the panel's columns, or null
  Number biasNumber;
  bool accumulate;
};

/// Blocks of c, one after the other down a panel: rows of a, whole strips, by
/// some of k, a multiple of L.
struct BlockRun {
  int64_t blocks, k;
  const char *a;      ///< the first of k columns
  int64_t stripBytes; ///< from a strip to the next
  const char *b;      ///< of the panel
  /// Places of sums, [places][rows][panel]: block i has place (first + i) %
  /// places.
  float *sums;
  int64_t first, places;
  bool accumulate;
  /// Lines that are read afterwards, or null; they are fetched meanwhile.
  const char *next;
  int64_t nextBytes;
  /// Complete sums of a block before, or null: they are brought to where they
  /// go meanwhile.
  const BlockSums *waiting;
  /// Where the first block's sums go when they are complete afterwards, or
  /// null. All but the last ones are brought there.
  const BlockSums *target;

  float *place(int64_t block, int64_t floats) const {
    return sums + (first + block) % places * floats;
  }
};

/// Matmuls by blocks of c whose sums have a place of their own in the first
/// cache.
struct BlockLoops {
  int64_t rows;  ///< of a block: whole strips
  int64_t depth; ///< most of k at once
  void (*multiply)(const BlockRun &run);
};

/// Matmuls of one packed element type; values are summed in f32.
struct Engine {
  bool bf16;            ///< packed elements are bf16, else f32
  bool wholeStrips;     ///< all strips have `strip` rows
  int64_t panel;        ///< columns of a panel
  int64_t strip;        ///< largest number of rows of a strip
  int64_t elementBytes; ///< of a packed element
  int64_t lanes;        ///< L: k is padded to a multiple

  /// Packs rows [0, m) and columns [0, k) of `a` in strips of `stripRows`.
  void (*packA)(void *packed, View a, int64_t m, int64_t k, int64_t stripRows);
  /// Packs rows [0, k) and columns [0, n) of `b`.
  void (*packB)(void *packed, View b, int64_t k, int64_t n);
  /// c[m, n] (+)= a b over one panel, n <= panel. `a` points to the first of
  /// k columns (a multiple of L from the start), strips lie `stripBytes` apart;
  /// `b` to the first of k rows of the panel. k counts elements, padded ones
  /// included. `next`: the panel that comes next, or null; it is fetched
  /// meanwhile.
  void (*multiply)(int64_t m, int64_t n, int64_t k, const void *a,
                   int64_t stripRows, int64_t stripBytes, const void *b,
                   float *c, int64_t cRow, bool accumulate, const void *next);
  const BlockLoops *blocks; ///< null: only the loops above

  int64_t paddedDepth(int64_t k) const {
    return (k + lanes - 1) / lanes * lanes;
  }
  /// Height of the strips that m rows are split into: as equal as they can be.
  int64_t stripRows(int64_t m) const {
    if (wholeStrips)
      return strip;
    int64_t strips = (m + strip - 1) / strip;
    return strips ? (m + strips - 1) / strips : 1;
  }
  int64_t stripBytes(int64_t stripRows, int64_t k) const {
    return stripRows * paddedDepth(k) * elementBytes;
  }
  int64_t panelBytes(int64_t k) const {
    return panel * paddedDepth(k) * elementBytes;
  }
  /// From a packed A to its column k, from a panel to its row k.
  int64_t offsetA(int64_t stripRows, int64_t k) const {
    return k * stripRows * elementBytes;
  }
  int64_t offsetB(int64_t k) const { return k * panel * elementBytes; }
};

/// Masks of a row of attention's scores, in local keys.
struct RowMask {
  int64_t begin, end;      ///< keys that position allows
  const int32_t *segments; ///< of the keys, or null
  int32_t segment;         ///< of the query
};

/// Random numbers of dropout; threshold 0: none.
struct Dropout {
  uint64_t stream;
  uint32_t threshold; ///< numbers below are dropped, of 2^24
  float factor;       ///< 1 / (1 - rate)
};

/// State of a row's online softmax.
struct RowState {
  float max, sum;
};

struct Kernels {
  const char *name; ///< instruction set
  /// Around a thread's calls of `multiply`: sets up and frees tile registers.
  void (*enter)();
  void (*leave)();
  Engine f32;  ///< any operands
  Engine bf16; ///< bf16 and f32 operands; may compute in f32

  /// That of a matmul of such operands.
  const Engine &engineOf(Number a, Number b) const {
    return a == Number::BF16 && b == Number::BF16 ? bf16 : f32;
  }

  /// One row of scores becomes exp(scale s - max), hidden ones 0; the state
  /// moves on. Under a cap above 0, cap tanh(scale s / cap) is in the place of
  /// scale s. Returns what earlier sums must be multiplied with. `first` is
  /// the random index of key 0.
  float (*softmaxRow)(float *scores, int64_t n, float scale, float cap,
                      const RowMask &mask, const Dropout &dropout,
                      uint64_t first, RowState &state);
  /// Backward, for one key and n queries: s and dp become p (with dropout) and
  /// ds = scale p (drop dp - delta), under a cap times 1 - tanh^2. Queries
  /// [begin, end) see the key; with segments, those of the same. `first` is the
  /// random index of query 0, `step` that of the next.
  void (*gradientRow)(float *s, float *dp, int64_t n, float scale, float cap,
                      const float *lse, const float *delta, const RowMask &mask,
                      const Dropout &dropout, uint64_t first, uint64_t step);

  void (*scale)(float *x, int64_t n, float factor);
  /// y[i] = x[i] * factor.
  void (*store)(void *y, Number number, const float *x, int64_t n,
                float factor);
  /// For `rows` rows: y[i] = x[i] + bias[i] + (accumulate ? y[i] : 0), i < n;
  /// bias may be null, y may be x.
  void (*finishRows)(void *y, Number number, int64_t yRow, const float *x,
                     int64_t xRow, const void *bias, Number biasNumber,
                     bool accumulate, int64_t rows, int64_t n);
  /// sum of a[i] b[i].
  float (*dot)(const void *a, const void *b, Number number, int64_t n);
  /// The first `columns` of x^T, x [rows, columns]: y[j * yRow + i] = x[i][j].
  void (*storeTransposed)(void *y, int64_t yRow, Number number, const float *x,
                          int64_t xRow, int64_t rows, int64_t columns);
};

/// Those of the best instruction set that this machine and system have;
/// AVX-512's for bf16 only where `isBf16Fast`.
const Kernels &kernels();
/// By name ("generic", "avx2", "avx512", "avx512bf16", "amx"); null if this
/// machine lacks it.
const Kernels *findKernels(const char *name);

extern const Kernels genericKernels;
extern const Kernels avx2Kernels;
extern const Kernels avx512Kernels;
extern const Kernels avx512Bf16Kernels;
extern const Kernels amxKernels;

} // namespace kerf::cpu

#endif // KERF_DEVICES_CPU_KERNELS_H
