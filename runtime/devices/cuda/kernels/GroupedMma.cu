//===- GroupedMma.cu - grouped matmuls on tensor cores --------------------===//
//
// A block of four warps computes 128 x 128 results, 64 x 64 of each warp, from
// pieces of 64 of the summed index, of which three lie in shared memory: one
// that is multiplied and two on their way. Sums of weights' gradients go on
// from one group's rows to the next group's.
//
//===----------------------------------------------------------------------===//

#include "GroupedBlock.h"
#include "Mma.h"

using namespace kerf::cuda;

namespace {

constexpr int side = groupedMmaSide, depth = groupedMmaDepth;
constexpr int stages = groupedMmaStages, threads = groupedMmaThreads;
constexpr int warpSide = side / 2, m = warpSide / 16, n = warpSide / 8;
constexpr int stageBytes = 2 * side * depth; ///< of one factor
static_assert(groupedMmaBytes == 2 * stages * stageBytes);
static_assert(side == KERF_CUDA_GROUPED_ROWS);

/// How a factor lies in shared memory.
template <class T, bool across> struct Factor {
  using Tile = SharedTile<across ? side : depth>;

  /// Starts copies of a piece from `at` of `end`.
  static KERF_MEMBER void copy(Tile to, const Lines<T> &from, int at, int end) {
    if constexpr (across)
      copyTile<depth, threads>(to, from.data + at * from.stride, from.stride,
                               end - at, from.count);
    else
      copyTile<side, threads>(to, from.data + at, from.stride, from.count,
                              end - at);
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

template <class Kind> struct Matmul {
  using T = typename Kind::T;
  using Left = Factor<T, Kind::leftAcross>;
  using Right = Factor<T, Kind::rightAcross>;
  const GroupedArguments &a;
  const typename Kind::Result &block;
  uint32_t shared;
  MmaSums<m, n> sums;

  KERF_MEMBER typename Left::Tile leftTile(int stage) const {
    return {shared + stage * stageBytes};
  }
  KERF_MEMBER typename Right::Tile rightTile(int stage) const {
    return {shared + (stages + stage) * stageBytes};
  }
  /// Starts the copies of a piece, if it is one, and moves to the next.
  KERF_MEMBER void fetch(Piece &piece, int stage) const {
    const auto &segments = block.segments;
    if (segments.has(piece)) {
      Left::copy(leftTile(stage), block.left.of(piece), piece.at, piece.end);
      Right::copy(rightTile(stage), block.right.of(piece), piece.at, piece.end);
      piece = segments.after(piece, depth);
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
  KERF_MEMBER void store() const;
};

template <class Kind> KERF_MEMBER void Matmul<Kind>::multiplyStage(int stage) {
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

template <class Kind> KERF_MEMBER void Matmul<Kind>::run() {
  sums.clear();
  const auto &segments = block.segments;
  Piece piece = segments.first(), fetched = piece;
#pragma unroll 1
  for (int stage = 0; stage < stages - 1; ++stage)
    fetch(fetched, stage);
  int stage = 0;
  while (segments.has(piece)) {
    waitForCopies<stages - 2>();
    barrier(); // copies of all are there; no warp uses the stage before
    fetch(fetched, stage == 0 ? stages - 1 : stage - 1);
    multiplyStage(stage);
    stage = stage == stages - 1 ? 0 : stage + 1;
    piece = segments.after(piece, depth);
  }
  waitForCopies<0>();
}

/// Adds to, or writes, two neighbours of y. A function of its own, so that its
/// cases are not repeated for every pair.
__attribute__((device, noinline)) inline void writePair(void *data, int dtype,
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

template <class Kind> KERF_MEMBER void Matmul<Kind>::store() const {
  const Results &to = block.results;
#pragma unroll
  for (int i = 0; i < m * n * 2; ++i) {
    const float (&c)[4] = sums.at[i / 2 / n][i / 2 % n];
    int r = row() + sumRow(i / 2 / n, i % 2 * 2);
    int c0 = column() + sumColumn(i / 2 % n, 0);
    if (r < to.rows && c0 < to.columns)
      writePair(a.y, a.yDtype, a.accumulate, to.first + r * to.stride + c0,
                c[i % 2 * 2], c[i % 2 * 2 + 1]);
  }
}

template <class Kind>
KERF_DEVICE void multiply(const GroupedArguments &a, uint32_t shared) {
  auto block = Kind{a}.at(blockX());
  if (block.results.rows == 0)
    return;
  Matmul<Kind> matmul = {a, block, shared, {}};
  matmul.run();
  matmul.store();
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

KERF_GROUPED(rows, multiply<Rows<Number::KERF_NUMBER, false, side>>)
KERF_GROUPED(rows_transposed, multiply<Rows<Number::KERF_NUMBER, true, side>>)
KERF_GROUPED(weights, multiply<Weights<Number::KERF_NUMBER, side>>)
