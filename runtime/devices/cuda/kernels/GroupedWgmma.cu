//===- GroupedWgmma.cu - grouped matmuls by warpgroups --------------------===//
//
// For compute capability 9.0. Two warpgroups compute a block of 128 x 256
// results, 64 rows of each warpgroup, or of 128 x 128 where no more columns are
// left, from pieces of 64 of the summed index. A third one does nothing but
// copy pieces to shared memory, so that no instruction of a copy stands between
// two matmuls. Four pieces lie there: the one before, which may still be
// multiplied, the one that is given to the tensor cores next, and two on their
// way.
//
// Each of the four stages has two barriers. At "full" the copying warpgroup
// arrives and the others wait, at "empty" the other way round. At the start all
// stages are told empty, and at the end the copying warpgroup waits for that
// once more, so that every arrival is waited for.
//
// A processor has room for one block, which goes on to other results: the next
// pieces are on their way while results are written.
//
//===----------------------------------------------------------------------===//

#include "GroupedBlock.h"
#include "Wgmma.h"

using namespace kerf::cuda;

namespace {

constexpr int side = groupedMmaSide, depth = groupedMmaDepth;
constexpr int stages = groupedWgmmaStages, threads = groupedWgmmaThreads;
constexpr int width = groupedWgmmaColumns;
constexpr int multipliers = side / wgmmaRows * warpgroupThreads;
static_assert(side == KERF_CUDA_GROUPED_ROWS && width == 2 * side);
static_assert(multipliers + warpgroupThreads == threads);

/// A stage: `side` rows of the left factor, then twice as many of the right
/// one.
constexpr int sideBytes = side * depth * 2, stageBytes = 3 * sideBytes;

/// Behind the stages: a part for each warp that multiplies, in which `warpRows`
/// rows of `partColumns` sums pass to whole rows of y.
constexpr int warpRows = 16, partColumns = 64;
constexpr int partBytes = groupedWgmmaResultBytes;
static_assert(groupedWgmmaResultWarps * warpThreads == multipliers);
static_assert(groupedWgmmaBytes ==
              stages * stageBytes + groupedWgmmaResultWarps * partBytes);

/// A stage, by the number of a piece.
struct Stage {
  unsigned index;

  explicit KERF_MEMBER Stage(unsigned piece) : index(piece % stages) {}
  KERF_MEMBER uint32_t in(uint32_t shared) const {
    return shared + index * stageBytes;
  }
  KERF_MEMBER int full() const { return 1 + index; }
  KERF_MEMBER int empty() const { return 1 + stages + index; }
};

/// The blocks that a group of warpgroups computes.
template <class Kind> struct Blocks {
  Kind kind;
  unsigned index;
  typename Kind::Result block;

  explicit KERF_MEMBER Blocks(const GroupedArguments &a)
      : kind{a}, index(blockX()), block(kind.at(index)) {}
  /// Moves to the next one; false: there is none.
  KERF_MEMBER bool next() {
    index += blocksX();
    // Found again each time: a register for it would be one too many.
    uint32_t end = opaque((uint32_t)kind.down()) * (uint32_t)kind.across();
    if (index >= end)
      return false;
    block = kind.at(index);
    return true;
  }
};

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// What a thread of the copying warpgroup copies of a factor: a chunk of every
/// 16th line, from the piece that comes next. What does not exist becomes zero.
template <class T, bool across> struct FactorCopies {
  static constexpr int chunks = lineChannels / chunkChannels;
  static constexpr int step = warpgroupThreads / chunks;
  static_assert(step % atomLines == 0); // chunks are exchanged alike

  const char *from; ///< its chunk of its first line
  uint32_t stride;  ///< bytes
  int count;        ///< of the factor's rows, from the thread's first one on

  static KERF_MEMBER int line() {
    return threadIndex() % warpgroupThreads / chunks;
  }
  static KERF_MEMBER int channel() {
    return threadIndex() % chunks * chunkChannels;
  }
  /// Of the thread's first chunk, in a stage.
  static KERF_MEMBER uint32_t place() {
    return SharedTile<lineChannels>{0}.at(line(), channel() / chunkChannels);
  }

  /// Begins a part of the summed index.
  KERF_MEMBER void start(const Lines<T> &lines) {
    from = reinterpret_cast<const char *>(lines.data + line() * lines.stride +
                                          channel());
    stride = (uint32_t)lines.stride * sizeof(T);
    count = lines.count - (across ? channel() : line());
  }
  /// Starts copies of `side` rows from `first`; `left`: of the summed index.
  /// What is opaque is found again for each piece, in one instruction a chunk
  /// for its address and one for whether it exists.
  KERF_MEMBER void copy(uint32_t to, int first, int left) const {
    constexpr int each = across ? lineChannels : step;
    uint32_t bytes = opaque(stride);
    left -= across ? line() : channel();
#pragma unroll
    for (int i = 0; i < (across ? depth : step); i += step) {
      int end = opaque(i < left ? count : 0);
#pragma unroll
      for (int row = first; row < first + side; row += each)
        startCopy(to + (row + i) * lineBytes,
                  from + (uint64_t)bytes * (unsigned)(across ? i : row) +
                      (across ? row * sizeof(T) : 0),
                  row < end);
    }
  }
  /// Goes on to the next piece.
  KERF_MEMBER void next() {
    from += across ? (uint64_t)stride * depth : depth * sizeof(T);
  }
};

/// The warpgroup that copies the pieces of all blocks, one after the other.
template <class Kind> struct Copier {
  using T = typename Kind::T;
  uint32_t shared;
  unsigned piece; ///< its number, of all
  FactorCopies<T, Kind::leftAcross> left;
  FactorCopies<T, Kind::rightAcross> right;
  /// A piece is told full when this many pieces more have been asked for,
  /// before the next one is: so it is told long before the matmul that waits
  /// for it, and the copies before have had the time of a matmul to arrive.
  static constexpr unsigned ahead = 2;

  /// Whose copies by this thread have arrived.
  KERF_MEMBER void tellFull(unsigned arrived) const {
    publishShared();
    arriveAt<threads>(Stage(arrived).full());
  }
  /// `rest`: of the summed index, in the part.
  KERF_MEMBER void copyPiece(int rest, bool isWide);
  KERF_MEMBER void copyBlock(const typename Kind::Result &block);
  KERF_MEMBER void end() const;
};

template <class Kind>
KERF_MEMBER void Copier<Kind>::copyPiece(int rest, bool isWide) {
  Stage stage(piece);
  waitAt<threads>(stage.empty());
  if (piece >= ahead) {
    waitForCopies<ahead - 1>();
    tellFull(piece - ahead);
  }
  uint32_t to = stage.in(shared) + left.place();
  left.copy(to, 0, rest);
  right.copy(to + sideBytes, 0, rest);
  if (isWide)
    right.copy(to + sideBytes, side, rest);
  endCopies();
  left.next();
  right.next();
  ++piece;
}

template <class Kind>
KERF_MEMBER void Copier<Kind>::copyBlock(const typename Kind::Result &block) {
  bool isWide = block.right.count > side;
  Piece at = block.segments.first();
#pragma unroll 1
  while (block.segments.has(at)) {
    left.start(block.left.of(at));
    right.start(block.right.of(at));
#pragma unroll 1
    for (; at.at < at.end; at.at += depth)
      copyPiece(at.end - at.at, isWide);
    at = block.segments.find(at);
  }
}

/// Tells that the last pieces are there, and waits until all are multiplied.
template <class Kind> KERF_MEMBER void Copier<Kind>::end() const {
  waitForCopies<0>();
#pragma unroll 1
  for (unsigned i = piece < ahead ? 0 : piece - ahead; i < piece; ++i)
    tellFull(i);
#pragma unroll 1
  for (unsigned i = 0; i < stages; ++i)
    waitAt<threads>(Stage(piece + i).empty());
}

template <class Kind>
KERF_DEVICE void copyAll(const GroupedArguments &a, uint32_t shared) {
  Copier<Kind> copier = {shared, 0, {}, {}};
  Blocks<Kind> blocks(a);
#pragma unroll 1
  do
    copier.copyBlock(blocks.block);
  while (blocks.next());
  copier.end();
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

typedef float Four __attribute__((ext_vector_type(4)));
typedef uint32_t Words __attribute__((ext_vector_type(4)));

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
KERF_DEVICE void putEight(char *to, float (&values)[8], bool accumulate) {
  T *y = reinterpret_cast<T *>(to);
  if (accumulate) {
    float before[8];
    readEight(before, y);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      values[i] += before[i];
  }
  writeEight(y, values);
}

/// A warpgroup that multiplies.
template <class Kind> struct Matmul {
  using T = typename Kind::T;
  const GroupedArguments &a;
  uint32_t shared;
  unsigned piece; ///< its number, of all
  MmaSums<1, width / 8> sums;

  /// Nobody of this warpgroup reads it any more.
  KERF_MEMBER void tellEmpty(unsigned multiplied) const {
    arriveAt<threads>(Stage(multiplied).empty());
  }
  KERF_MEMBER void run();
  template <int columns>
  KERF_MEMBER void compute(const typename Kind::Result &block);
  template <int columns> KERF_MEMBER void multiplyStage(bool first);
  template <int columns> KERF_MEMBER void store(const Results &to) const;
  KERF_MEMBER void storePart(uint32_t to, int first) const;
  KERF_MEMBER void storeZeros(const Results &to) const;
  template <bool isZero>
  KERF_MEMBER void storeRows(const Results &to, uint32_t from,
                             int column) const;
};

template <class Kind>
template <int columns>
KERF_MEMBER void Matmul<Kind>::multiplyStage(bool first) {
  using Left = WgmmaFactor<Kind::leftAcross, depth>;
  using Right = WgmmaFactor<Kind::rightAcross, depth>;
  uint32_t stage = Stage(piece).in(shared);
  int group = threadIndex() / warpgroupThreads;
  Left left(stage + group * Left::bytes(wgmmaRows));
  Right right(stage + sideBytes);
  beginMatmuls();
#pragma unroll
  for (int step = 0; step < depth / wgmmaDepth; ++step)
    multiplyGroup<T, Kind::leftAcross, Kind::rightAcross, columns>(
        sums, left.at(step), right.at(step), step > 0 || !first);
  endMatmuls();
}

template <class Kind>
template <int columns>
KERF_MEMBER void Matmul<Kind>::compute(const typename Kind::Result &block) {
  Piece at = block.segments.first();
  bool first = true; // whose matmul overwrites the sums
#pragma unroll 1
  for (; block.segments.has(at); at = block.segments.after(at, depth)) {
    waitAt<threads>(Stage(piece).full());
    multiplyStage<columns>(first);
    waitForMatmuls<1>();
    if (!first)
      tellEmpty(piece - 1);
    first = false;
    ++piece;
  }
  waitForMatmuls<0>();
  tellEmpty(piece - 1);
  store<columns>(block.results);
}

/// Where a row of a warp's part begins: each of four rows lies 8 banks further
/// than the one before, so that sums written at once lie in different banks.
KERF_DEVICE int partRow(int row) {
  constexpr int shift = 32;
  return row * (partColumns * 4 + shift) - row / 4 * shift;
}
static_assert(warpRows / 4 * (4 * partColumns * 4 + 3 * 32) == partBytes);

/// Writes a warp's sums of `partColumns` columns from `first`.
template <class Kind>
KERF_MEMBER void Matmul<Kind>::storePart(uint32_t to, int first) const {
  uint32_t own = to + partRow(laneIndex() / 4) + laneIndex() % 4 * 8;
#pragma unroll
  for (int i = 0; i < partColumns / 4; ++i) {
    const float (&c)[4] = sums.at[0][first / 8 + i / 2];
    int half = i % 2 * 2; // eight rows further down
    storePair(own + i / 2 * 32 + partRow(half * 4), c[half], c[half + 1]);
  }
}

/// Eight neighbours of a row that begins at `from`. Half of the threads take
/// the second four first: so those that read at once read different banks.
KERF_DEVICE void loadEight(float (&to)[8], uint32_t from, int chunk) {
  float four[2][4];
  bool turned = chunk >= 4;
  from += chunk * 32 + turned * 16;
  loadFour(four[0], from);
  loadFour(four[1], from ^ 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[i] = turned ? four[1][i] : four[0][i];
    to[i + 4] = turned ? four[0][i] : four[1][i];
  }
}

/// Through shared memory, so that whole rows are written.
template <class Kind>
template <int columns>
KERF_MEMBER void Matmul<Kind>::store(const Results &to) const {
  int warp = threadIndex() / warpThreads;
  uint32_t own = shared + stages * stageBytes + warp * partBytes;
#pragma unroll
  for (int first = 0; first < columns; first += partColumns) {
    storePart(own, first);
    joinLanes();
    storeRows<false>(to, own, first);
    joinLanes();
  }
}

/// Of a block that has no pieces.
template <class Kind>
KERF_MEMBER void Matmul<Kind>::storeZeros(const Results &to) const {
#pragma unroll 1
  for (int first = 0; first < width; first += partColumns)
    storeRows<true>(to, 0, first);
}

/// Writes a warp's rows of `partColumns` columns from `column`: a thread has
/// eight neighbours of every fourth row.
template <class Kind>
template <bool isZero>
KERF_MEMBER void Matmul<Kind>::storeRows(const Results &to, uint32_t from,
                                         int column) const {
  constexpr int chunks = partColumns / chunkChannels,
                step = warpThreads / chunks;
  static_assert(step == 4); // rows that lie alike
  int lane = opaque(laneIndex());
  int row = threadIndex() / warpThreads * warpRows;
  int chunk = lane % chunks, down = row + lane / chunks;
  column += chunk * chunkChannels;
  if (column >= to.columns)
    return;
  from += partRow(lane / chunks);
  int bytes = a.yDtype == KERF_F32 ? 4 : 2;
  char *at =
      static_cast<char *>(a.y) + (to.first + down * to.stride + column) * bytes;
#pragma unroll 1
  for (int end = least(to.rows, row + warpRows); down < end; down += step) {
    float values[8] = {};
    if constexpr (!isZero)
      loadEight(values, from, chunk);
    if (a.yDtype == KERF_F32)
      putEight<float>(at, values, a.accumulate);
    else if (a.yDtype == KERF_BF16)
      putEight<Bf16>(at, values, a.accumulate);
    else
      putEight<F16>(at, values, a.accumulate);
    at += step * to.stride * bytes;
    from += partRow(step);
  }
}

template <class Kind> KERF_MEMBER void Matmul<Kind>::run() {
#pragma unroll
  for (unsigned i = 0; i < stages; ++i)
    tellEmpty(i);
  Blocks<Kind> blocks(a);
#pragma unroll 1
  do {
    const auto &segments = blocks.block.segments;
    if (!segments.has(segments.first()))
      storeZeros(blocks.block.results);
    else if (blocks.block.right.count > side)
      compute<width>(blocks.block);
    else
      compute<side>(blocks.block);
  } while (blocks.next());
}

template <class Kind>
KERF_DEVICE void multiply(const GroupedArguments &a, uint32_t shared) {
  if (warpIndex() >= groupedWgmmaResultWarps)
    return copyAll<Kind>(a, shared);
  Matmul<Kind> matmul = {a, shared, 0, {}};
  matmul.run();
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
