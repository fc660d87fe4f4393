//===- ChunkSums.cpp - sums over many rows as sums of chunks --------------===//

#include "ChunkSums.h"

#include "Parts.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

/// From this many elements on, a sum is worth two launches.
static constexpr int64_t kLargeSum = 32768;

namespace {
/// How finely sums are split. Neither depends on the processor's cores: results
/// would.
struct ChunkLimits {
  int64_t most;       ///< chunks of a sum over rows
  int64_t mostOfAll;  ///< chunks of a sum over all elements
  int64_t leastOfAll; ///< elements of such a chunk
};
} // namespace

static constexpr ChunkLimits kCpuLimits = {64, 64, kLargeSum / 2};
/// A GPU has hundreds of blocks at work at a time. Where warps have rows of
/// their own, sums need up to 225 registers, which only few blocks may have
/// (`registersFor`): on an H200 768 columns took twice as long with 528 chunks.
/// Chunks of all elements are so many as 132 processors work at with one, two,
/// four or eight blocks each.
static constexpr ChunkLimits kGpuLimits = {256, 1056, kLargeSum / 4};

/// Chunks of rows of so many columns, which a block takes one by one: up to
/// eight for each of 132 processors, and as often as many as are at work at a
/// time. Of 1,600 columns these are 3, and 1,024 chunks took an H100 as long as
/// 3 x 396; a sixth less when they were 396. (264 took an H200 a sixth longer
/// at 2,048 columns, 256 a third at 1,600.)
static int64_t chunksOfLong(int64_t columns, int64_t lanes) {
  constexpr int64_t processors = 132, mostOfProcessor = 8;
  int64_t threads = std::max<int64_t>(threadsOfChunk(columns, lanes), 64);
  int64_t atOnce =
      std::clamp<int64_t>(blocksOfProcessor(threads), 1, mostOfProcessor);
  return processors * (mostOfProcessor / atOnce * atOnce);
}

/// Rows of x for a reduction of the first dimensions, or of all.
static std::optional<int64_t> leadingRows(ReduceOp op) {
  auto dims = op.getDims();
  if (dims.empty() || elementCount(op.getX()) == 0)
    return std::nullopt;
  int64_t rows = 1;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim != static_cast<int64_t>(i))
      return std::nullopt;
    rows *= typeOf(op.getX()).getDimSize(dim);
  }
  return rows;
}

/// Is x known only when all of each of its `rows` was read?
static bool sharesRows(ReduceOp op, int64_t rows) {
  return llvm::any_of(rowReducesOf(op.getX()), [&](ReduceOp inner) {
    return elementCount(inner.getResult()) == rows;
  });
}

/// Chunks of a GPU's sums over rows. All sums of a kernel are split alike: as
/// those whose rows must be known first and do not fit a warp's registers,
/// which a block takes one by one.
static int64_t chunksOnGpu(exec::KernelOp kernel) {
  int64_t lanes = gpuLanesOf(kernel);
  for (Operation &each : kernel.getBody().front()) {
    auto op = dyn_cast<ReduceOp>(each);
    auto rows = op ? leadingRows(op) : std::nullopt;
    if (!rows || *rows < 2 || !sharesRows(op, *rows))
      continue;
    int64_t columns = elementCount(op.getX()) / *rows;
    if (!fitsWarp(columns, lanes))
      return chunksOfLong(columns, lanes);
  }
  return kGpuLimits.most;
}

/// Rows of a chunk, or none if one launch does. `most` chunks of a sum over
/// rows.
static std::optional<int64_t> chunkRowsOf(ReduceOp op, int64_t most,
                                          const ChunkLimits &limits) {
  auto rows = leadingRows(op);
  if (!rows || *rows < 2)
    return std::nullopt;
  int64_t elements = elementCount(op.getX()), columns = elements / *rows;
  auto roundUp = [](int64_t x, int64_t to) { return (x + to - 1) / to * to; };
  if (columns == 1) {
    bool hasRows = llvm::any_of(rowReducesOf(op.getX()), [](ReduceOp inner) {
      return elementCount(inner.getResult()) > 1;
    });
    if (elements < kLargeSum || hasRows)
      return std::nullopt;
    int64_t chunk =
        std::max<int64_t>(elements / limits.mostOfAll, limits.leastOfAll);
    return roundUp(chunk, 4096);
  }
  if (!sharesRows(op, *rows) && elements < kLargeSum)
    return std::nullopt;
  int64_t chunks = std::min(most, (*rows + 15) / 16);
  return (*rows + chunks - 1) / chunks;
}

/// The maximum of rows that `op` takes the maximum of, or null.
static ReduceOp rowMaximaOf(ReduceOp op) {
  auto rows = op.getX().getDefiningOp<ReduceOp>();
  bool isMaximum = rows && op.getKind() == ReduceKind::Max &&
                   rows.getKind() == ReduceKind::Max && rows->hasOneUse() &&
                   typeOf(op.getResult()).getRank() == 0 && reducesRows(rows);
  return isMaximum ? rows : ReduceOp();
}

/// Maxima of rows' maxima become maxima of all elements, where no other
/// reduction wants rows: a block then goes through its elements without a pause
/// between rows. (Rows of 8,960 took an H100 half as long again.)
static bool mergeMaxima(exec::KernelOp kernel) {
  llvm::SmallVector<ReduceOp> whole;
  size_t reduces = 0;
  for (auto op : kernel.getBody().getOps<ReduceOp>()) {
    ++reduces;
    if (rowMaximaOf(op))
      whole.push_back(op);
  }
  if (whole.empty() || reduces != 2 * whole.size())
    return false;
  for (ReduceOp op : whole) {
    ReduceOp rows = rowMaximaOf(op);
    OpBuilder builder(op);
    PlainBuilder p{builder, op.getLoc()};
    Value all = p.reduce(ReduceKind::Max, rows.getX(),
                         dimRange(0, typeOf(rows.getX()).getRank()));
    op.getResult().replaceAllUsesWith(all);
    op.erase();
    rows.erase();
  }
  return true;
}

bool kerf::codegen::chunkSums(exec::KernelOp kernel, bool forGpu) {
  const ChunkLimits &limits = forGpu ? kGpuLimits : kCpuLimits;
  int64_t most = forGpu ? chunksOnGpu(kernel) : limits.most;
  bool changed = mergeMaxima(kernel);
  for (Operation &each : llvm::make_early_inc_range(kernel.getBody().front())) {
    auto op = dyn_cast<ReduceOp>(each);
    auto by = op ? chunkRowsOf(op, most, limits) : std::nullopt;
    if (!by)
      continue;
    int64_t rows = *leadingRows(op), columns = elementCount(op.getX()) / rows;
    int64_t chunks = (rows + *by - 1) / *by;
    OpBuilder builder(op);
    // Partial sums of bf16 are f32: they are stored.
    Value x = op.getX();
    RankedTensorType wide = computeType(x.getType());
    if (wide != x.getType())
      x = CastOp::create(builder, op.getLoc(), wide, x);
    Value sum = exec::PartialReduceOp::create(
        builder, op.getLoc(), withShape(wide, {chunks, columns}), op.getKind(),
        x, *by);
    // Sums of sums of all elements are a row, which a GPU's block adds up; of a
    // column each sum is one thread's.
    if (forGpu && columns == 1)
      sum = ReshapeOp::create(builder, op.getLoc(), withShape(wide, {chunks}),
                              sum);
    if (chunks > 1)
      sum = ReduceOp::create(builder, op.getLoc(), op.getKind(), sum,
                             llvm::ArrayRef<int64_t>{0});
    auto type = typeOf(op.getResult());
    if (typeOf(sum).getShape() != type.getShape())
      sum = ReshapeOp::create(builder, op.getLoc(),
                              withShape(wide, type.getShape()), sum);
    if (sum.getType() != type)
      sum = CastOp::create(builder, op.getLoc(), type, sum);
    op.getResult().replaceAllUsesWith(sum);
    op.erase();
    changed = true;
  }
  return changed;
}
