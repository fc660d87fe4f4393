//===- GroupedWgmma.cu - grouped products by warpgroups -------------------===//
//
// For compute capability 9.0. Two warpgroups compute a block of 128 x 256
// results, 64 rows of each warpgroup, or of 128 x 128 where no more columns are
// left, from pieces of 64 of the summed index. Four pieces lie in shared
// memory: the one before, which may still be multiplied, the one that is given
// to the tensor cores next, and two on their way, so that neither they nor the
// copies wait for the instructions between.
//
// A processor has room for one pair of warpgroups, which goes from block to
// block: the first pieces of the next one are on their way while results are
// written.
//
//===----------------------------------------------------------------------===//

#include "GroupedBlock.h"
#include "Wgmma.h"

using namespace kerf::cuda;

namespace {

constexpr int side = groupedMmaSide, depth = groupedMmaDepth;
constexpr int stages = groupedWgmmaStages, threads = groupedWgmmaThreads;
constexpr int width = groupedWgmmaColumns;
constexpr int ahead = 2; ///< pieces on their way
// The piece before may be read until the next barrier.
static_assert(stages == ahead + 2);
static_assert(side == KERF_CUDA_GROUPED_ROWS && width == 2 * side);
static_assert(side / wgmmaRows * warpgroupThreads == threads);

/// A stage: `side` rows of the left factor, then twice as many of the right
/// one.
constexpr int sideBytes = side * depth * 2, stageBytes = 3 * sideBytes;
static_assert(groupedWgmmaBytes == stages * stageBytes);

/// Floats of a row of sums in shared memory: 8 more than there are, so that
/// those that a warp writes at once lie in different banks.
constexpr int warpRows = 16, pitch = side + 8;
constexpr int warpBytes = stageBytes / (warpgroupThreads / warpThreads);
static_assert(warpRows * pitch * 4 <= warpBytes);

typedef float Four __attribute__((ext_vector_type(4)));
typedef uint32_t Words __attribute__((ext_vector_type(4)));

/// Starts copies of a piece of `side` lines from `at` of `end`.
template <bool across, class T>
KERF_DEVICE void copySide(uint32_t to, const Lines<T> &from, int at, int end) {
  using Tile = SharedTile<lineChannels>;
  if constexpr (!across) {
    copyTile<side, threads>(Tile{to}, from.data + at, from.stride, from.count,
                            end - at);
  } else {
    const T *data = from.data + at * from.stride;
#pragma unroll
    for (int row = 0; row < side; row += lineChannels)
      copyTile<depth, threads>(Tile{to + row * depth * 2},
                               data + (row < from.count ? row : 0), from.stride,
                               end - at, from.count - row);
  }
}

/// The lines behind the first `side`.
template <bool across, class T> KERF_DEVICE Lines<T> rest(const Lines<T> &all) {
  return {all.data + side * (across ? 1 : all.stride), all.stride,
          all.count - side};
}

/// Eight neighbours of y.
KERF_DEVICE void readEight(float (&to)[8], const float *y) {
  auto *from = reinterpret_cast<const Four *>(y);
  Four low = from[0], high = from[1];
#pragma unroll
  for (int i = 0; i < 8; ++i)
    to[i] = i < 4 ? low[i] : high[i - 4];
}
template <class T> KERF_DEVICE void readEight(float (&to)[8], const T *y) {
  Words words = *reinterpret_cast<const Words *>(y);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    to[i] =
        toFloat(__builtin_bit_cast(T, (uint16_t)(words[i / 2] >> i % 2 * 16)));
}
KERF_DEVICE void writeEight(float *y, const float (&values)[8]) {
  auto *to = reinterpret_cast<Four *>(y);
  to[0] = Four{values[0], values[1], values[2], values[3]};
  to[1] = Four{values[4], values[5], values[6], values[7]};
}
template <class T> KERF_DEVICE void writeEight(T *y, const float (&values)[8]) {
  *reinterpret_cast<Words *>(y) =
      Words{packed<T>(values[0], values[1]), packed<T>(values[2], values[3]),
            packed<T>(values[4], values[5]), packed<T>(values[6], values[7])};
}

/// Adds to, or writes, them.
template <class T>
KERF_DEVICE void putEight(void *data, int64_t at, float (&values)[8],
                          bool accumulate) {
  T *y = static_cast<T *>(data) + at;
  if (accumulate) {
    float before[8];
    readEight(before, y);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      values[i] += before[i];
  }
  writeEight(y, values);
}

/// The blocks that this pair of warpgroups computes.
template <class Kind> struct Blocks {
  Kind kind;
  unsigned index, end;
  typename Kind::Result block;

  explicit KERF_MEMBER Blocks(const GroupedArguments &a)
      : kind{a}, index(blockX()), end((unsigned)(kind.down() * kind.across())),
        block(kind.at(index)) {}
  /// Moves to the next one; false: there is none.
  KERF_MEMBER bool next() {
    index += blocksX();
    if (index >= end)
      return false;
    block = kind.at(index);
    return true;
  }
};

/// Copies the pieces of all blocks, one after the other.
template <class Kind> struct Fetcher {
  Blocks<Kind> blocks;
  Piece piece;

  explicit KERF_MEMBER Fetcher(const GroupedArguments &a)
      : blocks(a), piece(blocks.block.segments.first()) {
    find();
  }
  /// Moves to a block that has a piece, from this one on.
  KERF_MEMBER void find() {
    while (!blocks.block.segments.has(piece) && blocks.next())
      piece = blocks.block.segments.first();
  }
  /// Starts the copies of a piece to a stage, if there is one left.
  KERF_MEMBER void fetch(uint32_t stage) {
    const auto &segments = blocks.block.segments;
    if (segments.has(piece)) {
      auto left = blocks.block.left.of(piece);
      auto right = blocks.block.right.of(piece);
      copySide<Kind::leftAcross>(stage, left, piece.at, piece.end);
      copySide<Kind::rightAcross>(stage + sideBytes, right, piece.at,
                                  piece.end);
      if (right.count > side)
        copySide<Kind::rightAcross>(stage + 2 * sideBytes,
                                    rest<Kind::rightAcross>(right), piece.at,
                                    piece.end);
      piece = segments.after(piece, depth);
      find();
    }
    endCopies(); // an empty group counts, too
  }
};

template <class Kind> struct Product {
  using T = typename Kind::T;
  const GroupedArguments &a;
  uint32_t shared;
  Fetcher<Kind> fetcher;
  int stage; ///< of the piece that is multiplied next
  MmaSums<1, width / 8> sums;

  KERF_MEMBER uint32_t stageAt(int after) const {
    return shared + (stage + after) % stages * stageBytes;
  }
  KERF_MEMBER void run();
  template <int columns>
  KERF_MEMBER void compute(const typename Kind::Result &block);
  template <int columns> KERF_MEMBER void multiplyStage(bool first);
  template <int columns> KERF_MEMBER void store(const Results &to) const;
  KERF_MEMBER void storeRows(const Results &to, uint32_t from, int row,
                             int column) const;
};

template <class Kind>
template <int columns>
KERF_MEMBER void Product<Kind>::multiplyStage(bool first) {
  using Left = WgmmaFactor<Kind::leftAcross, depth>;
  using Right = WgmmaFactor<Kind::rightAcross, depth>;
  int group = threadIndex() / warpgroupThreads;
  Left left(stageAt(0) + group * Left::bytes(wgmmaRows));
  Right right(stageAt(0) + sideBytes);
  beginProducts();
#pragma unroll
  for (int step = 0; step < depth / wgmmaDepth; ++step)
    multiplyGroup<T, Kind::leftAcross, Kind::rightAcross, columns>(
        sums, left.at(step), right.at(step), step > 0 || !first);
  endProducts();
}

template <class Kind>
template <int columns>
KERF_MEMBER void Product<Kind>::compute(const typename Kind::Result &block) {
  Piece piece = block.segments.first();
  bool first = true; // whose product overwrites the sums
#pragma unroll 1
  for (; block.segments.has(piece); stage = (stage + 1) % stages) {
    waitForCopies<ahead - 1>();
    publishShared();
    barrier(); // all copies are there, and nobody reads the last but one piece
    multiplyStage<columns>(first);
    first = false;
    fetcher.fetch(stageAt(ahead));
    waitForProducts<1>();
    piece = block.segments.after(piece, depth);
  }
  waitForProducts<0>();
  if (first)
    sums.clear();
  barrier(); // nobody reads the last piece
  store<columns>(block.results);
}

/// Through the stages that nothing is on its way to, so that whole rows are
/// written: a stage for each warpgroup.
template <class Kind>
template <int columns>
KERF_MEMBER void Product<Kind>::store(const Results &to) const {
  constexpr int warps = warpgroupThreads / warpThreads;
  int warp = threadIndex() / warpThreads;
  uint32_t own = stageAt(ahead + warp / warps) + warp % warps * warpBytes;
#pragma unroll
  for (int first = 0; first < columns; first += side) {
#pragma unroll
    for (int i = 0; i < side / 4; ++i) {
      const float (&c)[4] = sums.at[0][first / 8 + i / 2];
      int half = i % 2 * 2;
      storePair(own + (sumRow(0, half) * pitch + sumColumn(i / 2, 0)) * 4,
                c[half], c[half + 1]);
    }
    joinLanes();
    storeRows(to, own, warp * warpRows, first);
    joinLanes();
  }
}

/// Writes a warp's rows from `row` and `side` columns from `column`: a thread
/// has eight neighbours.
template <class Kind>
KERF_MEMBER void Product<Kind>::storeRows(const Results &to, uint32_t from,
                                          int row, int column) const {
  constexpr int chunks = side / chunkChannels;
#pragma unroll 1
  for (int i = laneIndex(); i < warpRows * chunks; i += warpThreads) {
    int down = i / chunks, across = i % chunks * chunkChannels;
    if (row + down >= to.rows || column + across >= to.columns)
      continue;
    float values[8];
    loadEight(values, from + (down * pitch + across) * 4);
    int64_t at = to.first + (row + down) * to.stride + column + across;
    if (a.yDtype == KERF_F32)
      putEight<float>(a.y, at, values, a.accumulate);
    else if (a.yDtype == KERF_BF16)
      putEight<Bf16>(a.y, at, values, a.accumulate);
    else
      putEight<F16>(a.y, at, values, a.accumulate);
  }
}

template <class Kind> KERF_MEMBER void Product<Kind>::run() {
#pragma unroll 1
  for (int i = 0; i < ahead; ++i)
    fetcher.fetch(stageAt(i));
  Blocks<Kind> blocks(a);
  do {
    if (blocks.block.results.rows == 0)
      continue;
    if (blocks.block.right.count > side)
      compute<width>(blocks.block);
    else
      compute<side>(blocks.block);
  } while (blocks.next());
  waitForCopies<0>();
}

template <class Kind>
KERF_DEVICE void multiply(const GroupedArguments &a, uint32_t shared) {
  Product<Kind> product = {a, shared, Fetcher<Kind>(a), 0, {}};
  product.run();
}

} // namespace

extern __shared__ __attribute__((aligned(1024))) char dynamicShared[];

#define KERF_NAMED(NAME, NUMBER) grouped_wgmma_##NAME##_##NUMBER
#define KERF_NAME(NAME, NUMBER) KERF_NAMED(NAME, NUMBER)
#define KERF_GROUPED(NAME, ...)                                                \
  KERF_KERNEL(groupedWgmmaThreads, 1)                                          \
  void KERF_NAME(NAME, KERF_NUMBER)(const GroupedArguments a) {                \
    multiply<__VA_ARGS__>(a, sharedAddress(dynamicShared));                    \
  }

KERF_GROUPED(rows, Rows<Number::KERF_NUMBER, false, width>)
KERF_GROUPED(rows_transposed, Rows<Number::KERF_NUMBER, true, width>)
KERF_GROUPED(weights, Weights<Number::KERF_NUMBER, width>)
