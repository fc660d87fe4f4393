//===- GroupedMma.cu - grouped products on tensor cores -------------------===//
//
// A block of four warps computes 128 x 128 results, 64 x 64 of each warp, from
// pieces of 64 of the summed index, of which three lie in shared memory: one
// that is multiplied and two on their way. Sums of weights' gradients go on
// from one group's rows to the next group's.
//
//===----------------------------------------------------------------------===//

#include "GroupedArguments.h"
#include "Mma.h"

#pragma clang force_cuda_host_device begin
#include "kerf/Artifact/CudaWorkspace.h"
#pragma clang force_cuda_host_device end

using namespace kerf::cuda;

namespace {

constexpr int side = groupedMmaSide, depth = groupedMmaDepth;
constexpr int stages = groupedMmaStages, threads = groupedMmaThreads;
constexpr int warpSide = side / 2, m = warpSide / 16, n = warpSide / 8;
constexpr int stageBytes = 2 * side * depth; ///< of one factor
static_assert(groupedMmaBytes == 2 * stages * stageBytes);
static_assert(side == KERF_CUDA_GROUPED_ROWS);

/// A factor of a block: `lines` lines, which lie along the summed index, or
/// across it (`across`).
template <class T, bool across> struct Factor {
  using Tile = SharedTile<across ? side : depth>;
  const T *data; ///< of the first line, at the start of the present segment
  int64_t stride;
  int lines;

  /// Starts copies of a piece from `at` of `end`.
  KERF_MEMBER void copy(Tile to, int at, int end) const {
    if constexpr (across)
      copyTile<depth, threads>(to, data + at * stride, stride, end - at, lines);
    else
      copyTile<side, threads>(to, data + at, stride, lines, end - at);
  }
  /// Lanes' addresses of 16 lines and 16 of the summed index, as the left or
  /// the right factor of an instruction.
  static KERF_MEMBER uint32_t lane(Tile tile, bool left) {
    return left != across ? tile.downLane() : tile.acrossLane();
  }
  static KERF_MEMBER void load(uint32_t (&to)[4], uint32_t lane, int line,
                               int step) {
    if constexpr (across)
      loadTransposed(to, Tile::moved(lane, 16 * step, line / chunkChannels));
    else
      loadMatrices(to, Tile::moved(lane, line, 2 * step));
  }
};

/// A row of sums of a block: what of the summed index belongs to it, in parts.
struct Segments {
  const GroupedArguments &a;
  int64_t expert; ///< of gradients; their parts are the groups
  int length;     ///< of the only part otherwise

  KERF_MEMBER int count() const { return a.gradient ? a.groups : 1; }
  KERF_MEMBER int lengthOf(int part) const {
    if (!a.gradient)
      return length;
    return startOf(part) < 0 ? 0 : a.sizes[part * a.experts + expert];
  }
  /// First row of a part of gradients, -1 where sizes do not fit.
  KERF_MEMBER int startOf(int part) const {
    return static_cast<const int32_t *>(a.plan)[part * a.experts + expert];
  }
};

/// A piece of the summed index.
struct Piece {
  int part, at, end;
};

template <class T, bool leftAcross, bool rightAcross> struct Product {
  using Left = Factor<T, leftAcross>;
  using Right = Factor<T, rightAcross>;
  const GroupedArguments &a;
  Left left;
  Right right;
  Segments segments;
  uint32_t shared;
  MmaSums<m, n> sums;

  KERF_MEMBER typename Left::Tile leftTile(int stage) const {
    return {shared + stage * stageBytes};
  }
  KERF_MEMBER typename Right::Tile rightTile(int stage) const {
    return {shared + (stages + stage) * stageBytes};
  }
  /// The first piece with something in it, from this one on.
  KERF_MEMBER Piece find(Piece piece) const {
    while (piece.at >= piece.end && ++piece.part < segments.count())
      piece = {piece.part, 0, segments.lengthOf(piece.part)};
    return piece;
  }
  /// Starts the copies of a piece, if it is one, and moves to the next.
  KERF_MEMBER void fetch(Piece &piece, int stage) const {
    if (piece.part < segments.count()) {
      Left l = left;
      Right r = right;
      if (a.gradient) {
        int64_t row =
            (int64_t)piece.part * a.rows + segments.startOf(piece.part);
        l.data += row * l.stride;
        r.data += row * r.stride;
      }
      l.copy(leftTile(stage), piece.at, piece.end);
      r.copy(rightTile(stage), piece.at, piece.end);
      piece.at += depth;
      piece = find(piece);
    }
    endCopies(); // an empty group counts, too
  }
  KERF_MEMBER int row() const {
    return threadIndex() / warpThreads / 2 * warpSide;
  }
  KERF_MEMBER int column() const {
    return threadIndex() / warpThreads % 2 * warpSide;
  }

  KERF_MEMBER void multiplyStage(int stage);
  KERF_MEMBER void run();
  KERF_MEMBER void store(int64_t first, int64_t stride, int rows,
                         int64_t columns) const;
};

template <class T, bool leftAcross, bool rightAcross>
KERF_MEMBER void Product<T, leftAcross, rightAcross>::multiplyStage(int stage) {
  uint32_t leftLane = Left::lane(leftTile(stage), true);
  uint32_t rightLane = Right::lane(rightTile(stage), false);
  int firstRow = row(), firstColumn = column();
#pragma unroll
  for (int step = 0; step < depth / 16; ++step) {
    uint32_t l[m][4], r[4];
#pragma unroll
    for (int i = 0; i < m; ++i)
      Left::load(l[i], leftLane, firstRow + 16 * i, step);
#pragma unroll
    for (int j = 0; j < n; j += 2) {
      Right::load(r, rightLane, firstColumn + 8 * j, step);
#pragma unroll
      for (int i = 0; i < m; ++i) {
        multiplyAdd<T>(sums.at[i][j], l[i], r[0], r[1]);
        multiplyAdd<T>(sums.at[i][j + 1], l[i], r[2], r[3]);
      }
    }
  }
}

template <class T, bool leftAcross, bool rightAcross>
KERF_MEMBER void Product<T, leftAcross, rightAcross>::run() {
  sums.clear();
  Piece fetched = find({-1, 0, 0}), piece = fetched;
#pragma unroll 1
  for (int stage = 0; stage < stages - 1; ++stage)
    fetch(fetched, stage);
  int stage = 0;
  while (piece.part < segments.count()) {
    waitForCopies<stages - 2>();
    barrier(); // copies of all are there; no warp uses the stage before
    fetch(fetched, stage == 0 ? stages - 1 : stage - 1);
    multiplyStage(stage);
    stage = stage == stages - 1 ? 0 : stage + 1;
    piece.at += depth;
    piece = find(piece);
  }
  waitForCopies<0>();
}

/// Adds to, or writes, two neighbours of y. A function of its own, so that its
/// cases are not repeated for every pair.
__attribute__((device, noinline)) inline void storePair(void *data, int dtype,
                                                        bool accumulate,
                                                        int64_t at, float first,
                                                        float second) {
  if (dtype == KERF_F32) {
    float *y = static_cast<float *>(data) + at;
    y[0] = first + (accumulate ? y[0] : 0.0f);
    y[1] = second + (accumulate ? y[1] : 0.0f);
  } else if (dtype == KERF_BF16) {
    Bf16 *y = static_cast<Bf16 *>(data) + at;
    *reinterpret_cast<uint32_t *>(y) =
        packed<Bf16>(first + (accumulate ? toFloat(y[0]) : 0.0f),
                     second + (accumulate ? toFloat(y[1]) : 0.0f));
  } else {
    F16 *y = static_cast<F16 *>(data) + at;
    *reinterpret_cast<uint32_t *>(y) =
        packed<F16>(first + (accumulate ? toFloat(y[0]) : 0.0f),
                    second + (accumulate ? toFloat(y[1]) : 0.0f));
  }
}

/// Writes rows < `rows` and columns < `columns` of the block to y from `first`.
template <class T, bool leftAcross, bool rightAcross>
KERF_MEMBER void
Product<T, leftAcross, rightAcross>::store(int64_t first, int64_t stride,
                                           int rows, int64_t columns) const {
#pragma unroll
  for (int i = 0; i < m * n * 2; ++i) {
    const float (&c)[4] = sums.at[i / 2 / n][i / 2 % n];
    int r = row() + sumRow(i / 2 / n, i % 2 * 2);
    int c0 = column() + sumColumn(i / 2 % n, 0);
    if (r < rows && c0 < columns)
      storePair(a.y, a.yDtype, a.accumulate, first + r * stride + c0,
                c[i % 2 * 2], c[i % 2 * 2 + 1]);
  }
}

KERF_DEVICE int clamped(int64_t lines) { return lines < side ? lines : side; }

/// y[rows of the expert] = x[rows] w[e]. Blocks count columns fastest, then
/// tiles, groups.
template <class T, bool transposed>
KERF_DEVICE void multiplyRows(const GroupedArguments &a, uint32_t shared) {
  int64_t index = blockX(), columns = (a.n + side - 1) / side;
  int64_t column = index % columns * side;
  index /= columns;
  auto tile = static_cast<const kerf_cuda_grouped_tile *>(a.plan)[index];
  if (tile.rows == 0)
    return;
  int64_t row = index / a.tiles * a.rows + tile.row;
  const T *w = static_cast<const T *>(a.w) + tile.expert * a.n * a.k;
  Product<T, false, transposed> product = {
      a,
      {static_cast<const T *>(a.x) + row * a.k, a.k, tile.used},
      {w + column * (transposed ? 1 : a.k), transposed ? a.n : a.k,
       clamped(a.n - column)},
      {a, 0, tile.used ? (int)a.k : 0},
      shared,
      {}};
  product.run();
  product.store(row * a.n + column, a.n, tile.rows, a.n - column);
}

/// y[e] (+)= sum over the expert's rows of x^T w, or its transpose. Blocks
/// count columns fastest, then rows, experts.
template <class T>
KERF_DEVICE void multiplyWeights(const GroupedArguments &a, uint32_t shared) {
  int64_t height = a.transposed ? a.k : a.n, width = a.transposed ? a.n : a.k;
  int64_t index = blockX(), columns = (width + side - 1) / side;
  int64_t column = index % columns * side;
  index /= columns;
  int64_t down = (height + side - 1) / side;
  int64_t row = index % down * side, expert = index / down;
  auto left = static_cast<const T *>(a.transposed ? a.w : a.x);
  auto right = static_cast<const T *>(a.transposed ? a.x : a.w);
  Product<T, true, true> product = {
      a,
      {left + row, height, clamped(height - row)},
      {right + column, width, clamped(width - column)},
      {a, expert, 0},
      shared,
      {}};
  product.run();
  product.store((expert * height + row) * width + column, width,
                clamped(height - row), width - column);
}

} // namespace

extern __shared__ __attribute__((aligned(1024))) char dynamicShared[];

#define KERF_NAMED(NAME, NUMBER) grouped_mma_##NAME##_##NUMBER
#define KERF_NAME(NAME, NUMBER) KERF_NAMED(NAME, NUMBER)
#define KERF_GROUPED(NAME, ...)                                                \
  KERF_KERNEL(groupedMmaThreads, 2)                                            \
  void KERF_NAME(NAME, KERF_NUMBER)(const GroupedArguments a) {                \
    __VA_ARGS__(a, sharedAddress(dynamicShared));                              \
  }

KERF_GROUPED(rows, multiplyRows<Number::KERF_NUMBER, false>)
KERF_GROUPED(rows_transposed, multiplyRows<Number::KERF_NUMBER, true>)
KERF_GROUPED(weights, multiplyWeights<Number::KERF_NUMBER>)
