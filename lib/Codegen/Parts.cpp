//===- Parts.cpp - how the results of a kernel are computed ---------------===//

#include "Parts.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

/// Elements, or numbers of about equal work, that a thread should have.
static constexpr int64_t kGrain = 16384;
static constexpr int64_t kBlock = 4096;

bool kerf::codegen::reducesRows(ReduceOp op) {
  int64_t rank = typeOf(op.getX()).getRank();
  int64_t count = op.getDims().size();
  return count == 0 || op.getDims().front() == rank - count;
}

void kerf::codegen::forCone(llvm::ArrayRef<Value> roots,
                            llvm::function_ref<void(Operation *)> body) {
  llvm::SmallPtrSet<Operation *, 32> seen;
  llvm::SmallVector<Value> open(roots);
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    llvm::append_range(open, op->getOperands());
    body(op);
  }
}

static void collect(Value root, llvm::SmallPtrSetImpl<Operation *> &seen,
                    llvm::SmallVectorImpl<ReduceOp> &reduces) {
  Operation *op = root.getDefiningOp();
  if (!op || !seen.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    collect(operand, seen, reduces);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    if (reducesRows(reduce))
      reduces.push_back(reduce);
}

llvm::SmallVector<ReduceOp> kerf::codegen::rowReducesOf(Value root) {
  llvm::SmallPtrSet<Operation *, 32> seen;
  llvm::SmallVector<ReduceOp> reduces;
  collect(root, seen, reduces);
  return reduces;
}

static ScatterAddOp scatterOf(Value value) {
  return value.getDefiningOp<ScatterAddOp>();
}

std::optional<ScatterRoot> kerf::codegen::scatterRootOf(Value value) {
  bool isRenamed = isView(value, ViewKind::Rename);
  Value made = isRenamed ? value.getDefiningOp()->getOperand(0) : value;
  if (ScatterAddOp scatter = scatterOf(made))
    return ScatterRoot{scatter, Value()};
  auto add = value.getDefiningOp<AddOp>();
  if (!add)
    return std::nullopt;
  for (auto [own, other] : {std::pair{add.getLhs(), add.getRhs()},
                            std::pair{add.getRhs(), add.getLhs()}})
    if (ScatterAddOp scatter = scatterOf(own))
      if (!scatterOf(other))
        return ScatterRoot{scatter, other};
  return std::nullopt;
}

/// Number of rows, if the value is computed row by row: of its own, where it
/// has sums over such, for short sums of a GPU's kernels may be of others.
static std::optional<int64_t> rowCountOf(Value value) {
  int64_t elements = typeOf(value).getNumElements(), rows = 0, own = 0;
  for (ReduceOp reduce : rowReducesOf(value)) {
    int64_t count = typeOf(reduce.getResult()).getNumElements();
    if (count == 0 || elements % count != 0)
      continue;
    rows = std::max(rows, count);
    if (count < elements && typeOf(reduce.getX()).getNumElements() == elements)
      own = std::max(own, count);
  }
  rows = own ? own : rows;
  return rows ? std::optional(rows) : std::nullopt;
}

static int64_t columnsOf(Value value, int64_t rows) {
  int64_t columns = typeOf(value).getNumElements() / std::max<int64_t>(rows, 1);
  for (ReduceOp reduce : rowReducesOf(value))
    if (typeOf(reduce.getResult()).getNumElements() == rows)
      columns =
          std::max(columns, typeOf(reduce.getX()).getNumElements() / rows);
  return std::max<int64_t>(columns, 1);
}

/// Whether the last dimension is put together from pieces somewhere on the way:
/// then rows are computed piece by piece.
static bool hasPieces(Value root, int64_t columns) {
  bool found = false;
  forCone(root, [&](Operation *op) {
    if (!isView(op, ViewKind::Pad, ViewKind::Join))
      return;
    auto type = typeOf(op->getResult(0));
    found |= type.getRank() && type.getShape().back() == columns;
  });
  return found;
}

/// The part that one result would be by itself.
static Part partOf(Value value, unsigned result) {
  auto type = typeOf(value);
  Operation *op = value.getDefiningOp();
  if (auto root = scatterRootOf(value)) {
    int64_t rows = typeOf(root->scatter.getResult()).getDimSize(0);
    return {Part::ScatterAdd,
            {result},
            rows,
            std::max<int64_t>((rows + 63) / 64, 1)};
  }
  if (auto topK = dyn_cast_or_null<TopKOp>(op)) {
    int64_t rows = type.getNumElements() / topK.getK();
    int64_t work = typeOf(topK.getX()).getShape().back() * topK.getK() * 4;
    return {Part::TopK, {result}, rows,
            1,          false,    std::max<int64_t>(kGrain / work, 1)};
  }
  if (auto cumsum = dyn_cast_or_null<CumsumOp>(op)) {
    int64_t length = std::max<int64_t>(type.getDimSize(cumsum.getDim()), 1);
    int64_t lines = type.getNumElements() / length;
    return {Part::Cumsum, {result}, lines, 64};
  }
  if (auto partial = dyn_cast_or_null<exec::PartialReduceOp>(op))
    return {type.getDimSize(1) == 1 ? Part::Flat : Part::Rows,
            {result},
            partial.getRowCount(),
            partial.getChunkRows(),
            true};
  if (auto rows = rowCountOf(value))
    return {Part::Rows, {result},
            *rows,      1,
            false,      std::max<int64_t>(kGrain / columnsOf(value, *rows), 1)};
  int64_t last = type.getRank() ? type.getShape().back() : 1;
  if (last >= 8 && hasPieces(value, last))
    return {Part::Rows, {result}, type.getNumElements() / last,
            1,          false,    std::max<int64_t>(kGrain / last, 1)};
  return {Part::Flat, {result}, type.getNumElements(),
          kBlock,     false,    kGrain / kBlock};
}

/// Whether one loop nest can compute both.
static bool belongTogether(const Part &a, const Part &b,
                           exec::KernelOp kernel) {
  if (a.kind == Part::TopK && b.kind == Part::TopK) {
    auto values = kernel.getYield().getValues();
    return values[a.results[0]].getDefiningOp() ==
           values[b.results[0]].getDefiningOp();
  }
  if (a.kind != b.kind || (a.kind != Part::Flat && a.kind != Part::Rows))
    return false;
  bool sameChunks = !a.isPartial || !b.isPartial || a.chunk == b.chunk;
  return a.count == b.count && sameChunks;
}

static void join(Part &to, const Part &from) {
  llvm::append_range(to.results, from.results);
  if (from.isPartial)
    to.chunk = from.chunk;
  to.isPartial |= from.isPartial;
  if (to.isPartial)
    to.grain = 1;
}

/// Flat results join rows that have as many elements: they read the same.
static void joinFlatWithRows(std::vector<Part> &parts, exec::KernelOp kernel) {
  auto values = kernel.getYield().getValues();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].kind != Part::Flat || parts[i].isPartial)
      continue;
    auto rows = llvm::find_if(parts, [&](const Part &part) {
      if (part.kind != Part::Rows || part.count < 1)
        return false;
      return llvm::any_of(part.results, [&](unsigned result) {
        Value value = values[result];
        if (auto partial = value.getDefiningOp<exec::PartialReduceOp>())
          value = partial.getX();
        return typeOf(value).getNumElements() == parts[i].count ||
               columnsOf(value, part.count) * part.count == parts[i].count;
      });
    });
    if (rows == parts.end())
      continue;
    llvm::append_range(rows->results, parts[i].results);
    parts.erase(parts.begin() + i--);
  }
}

std::vector<Part> kerf::codegen::partsOf(exec::KernelOp kernel) {
  std::vector<Part> parts;
  for (auto [i, value] : llvm::enumerate(kernel.getYield().getValues())) {
    if (typeOf(value).getNumElements() == 0)
      continue;
    Part part = partOf(value, i);
    auto same = llvm::find_if(parts, [&](const Part &other) {
      return belongTogether(other, part, kernel);
    });
    if (same == parts.end())
      parts.push_back(part);
    else
      join(*same, part);
  }
  joinFlatWithRows(parts, kernel);
  return parts;
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

static constexpr int64_t kMaxLanes = 8;
/// Vectors of a row that a thread can keep in registers.
static constexpr int64_t kTurns = 4;
/// Few blocks have a multiprocessor each, or share it with one other.
static bool areFew(int64_t blocks, const GpuParts &gpu) {
  return blocks <= 2 * gpu.processors;
}

int64_t kerf::codegen::gpuLanesOf(exec::KernelOp kernel) {
  unsigned bits = 64;
  auto narrow = [&](Type type) {
    Type element = cast<RankedTensorType>(type).getElementType();
    if (cast<RankedTensorType>(type).getNumElements() > 1 &&
        !element.isInteger(1))
      bits = std::min(bits, element.getIntOrFloatBitWidth());
  };
  llvm::for_each(kernel.getArgumentTypes(), narrow);
  llvm::for_each(kernel.getResultTypes(), narrow);
  return std::min<int64_t>(128 / bits, kMaxLanes);
}

/// Vectors of a row, if they are as wide as its length allows.
static int64_t vectorsOf(int64_t columns, int64_t lanes) {
  while (columns % lanes != 0)
    lanes /= 2;
  return columns / lanes;
}

bool kerf::codegen::fitsWarp(int64_t columns, int64_t lanes) {
  int64_t vectors = vectorsOf(columns, lanes);
  return vectors % kWarp == 0 && vectors <= kTurns * kWarp;
}

static int64_t threadsFor(int64_t vectors) {
  int64_t threads = kWarp;
  while (threads < 256 && threads < vectors)
    threads *= 2;
  return threads;
}

/// Threads of a block that computes a row: such that all have equally many
/// vectors, which then stay in registers from loop to loop, and about 256.
static int64_t threadsOfRow(int64_t vectors, int64_t rows,
                            const GpuParts &gpu) {
  int64_t best = 0;
  for (int64_t turns = 1; turns <= 2 * kTurns; ++turns) {
    int64_t threads = vectors / turns;
    if (vectors % turns == 0 && threads % kWarp == 0 && threads >= 2 * kWarp &&
        threads <= 1024 && std::abs(threads - 256) < std::abs(best - 256))
      best = threads;
  }
  if (best > 0)
    return best;
  // A row is read again for each loop: those that are at work at a time, two
  // per processor or one, must fit into the cache.
  if (vectors >= 8192)
    return 1024;
  return vectors >= 2048 && !areFew(rows, gpu) ? 512 : threadsFor(vectors);
}

int64_t kerf::codegen::threadsOfChunk(int64_t columns, int64_t lanes) {
  for (; lanes >= 1; lanes /= 2) {
    int64_t vectors = columns / lanes, best = 0;
    for (int64_t threads = 2 * kWarp; threads <= 512; threads += kWarp)
      if (columns % lanes == 0 && vectors % threads == 0 &&
          fitsRegisters(vectors / threads, lanes) &&
          std::abs(threads - 256) < std::abs(best - 256))
        best = threads;
    if (best > 0)
      return best;
  }
  return 0;
}

/// Threads of a warp that compute a row. All rows of a warp exist: they
/// exchange registers together. Best are two vectors for each, or at least
/// equally many, which then stay in registers.
static int64_t teamFor(int64_t vectors, int64_t rows) {
  int64_t best = kWarp, least = kTurns;
  for (int64_t team = kWarp; team >= 4; team /= 2) {
    int64_t turns = vectors / team, distance = std::abs(turns - 2);
    bool isEven = vectors % team == 0 && turns >= 1 && turns <= kTurns;
    if (rows % (kWarp / team) == 0 && isEven && distance < least) {
      best = team;
      least = distance;
    }
  }
  return best;
}

static int64_t longestRow(const Part &part, exec::KernelOp kernel) {
  int64_t columns = 1;
  for (unsigned result : part.results) {
    Value value = kernel.getYield().getValues()[result];
    if (auto partial = value.getDefiningOp<exec::PartialReduceOp>())
      value = partial.getX();
    columns = std::max(columns, columnsOf(value, part.count));
  }
  return columns;
}

/// Whether all results have elements row by row, and nothing of a row is known
/// only when all of it was read.
static bool hasPlainColumns(const Part &part, exec::KernelOp kernel,
                            int64_t columns) {
  return llvm::all_of(part.results, [&](unsigned result) {
    Value value = kernel.getYield().getValues()[result];
    if (auto partial = value.getDefiningOp<exec::PartialReduceOp>())
      value = partial.getX();
    return rowReducesOf(value).empty() &&
           typeOf(value).getNumElements() == part.count * columns;
  });
}

/// As `assignThreads`, for largest elements and running sums.
static int64_t assignLines(Part &part, exec::KernelOp kernel) {
  Operation *op =
      kernel.getYield().getValues()[part.results[0]].getDefiningOp();
  int64_t threads = 64; // lines are long: few of them in a block
  part.owner = Part::Thread;
  if (part.kind == Part::TopK) {
    if (typeOf(op->getOperand(0)).getShape().back() > kShortRow)
      part.owner = Part::Warp;
  } else if (int64_t length =
                 typeOf(op->getResult(0)).getNumElements() / part.count;
             length >= 256 && part.count < 4096) {
    part.owner = Part::Block;
    threads = 256;
  }
  return threads;
}

/// Fewest addends of a sum over leading dimensions that are not taken along
/// where the element is computed; 0 if there is no such sum.
static int64_t leastAddends(Value root) {
  int64_t least = 0;
  forCone(root, [&](Operation *op) {
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!reduce || reducesRows(reduce))
      return;
    int64_t sums = typeOf(reduce.getResult()).getNumElements();
    if (sums == 0)
      return;
    int64_t addends = typeOf(reduce.getX()).getNumElements() / sums;
    least = least ? std::min(least, addends) : addends;
  });
  return least;
}

/// Whether all elements of a part are such sums, too few to keep a GPU busy
/// with a thread for each.
static bool hasFewTallSums(const Part &part, exec::KernelOp kernel) {
  constexpr int64_t mostElements = 1 << 17, fewestAddends = 32;
  return part.kind == Part::Flat && !part.isPartial &&
         part.count % kWarp == 0 && part.count <= mostElements &&
         llvm::all_of(part.results, [&](unsigned result) {
           return leastAddends(kernel.getYield().getValues()[result]) >=
                  fewestAddends;
         });
}

/// Whether a table's rows have a token each at most, of tokens that there are.
static bool isPlaced(const Part &part, exec::KernelOp kernel) {
  Value table = kernel.getYield().getValues()[part.results[0]];
  ScatterAddOp op = scatterRootOf(table)->scatter;
  int64_t tokens = typeOf(op.getIndex()).getNumElements();
  return op.getDistinct() && tokens > 0 && tokens <= INT32_MAX;
}

/// Tiles of elements of [columns, rows] that are read as [rows, columns].
static std::optional<Tiling> tilingOf(const Part &part, exec::KernelOp kernel,
                                      int64_t lanes) {
  if (part.kind != Part::Flat || part.isPartial)
    return std::nullopt;
  llvm::SmallVector<Value> results;
  for (unsigned result : part.results)
    results.push_back(kernel.getYield().getValues()[result]);
  return tilingOf(results, lanes);
}

/// Threads of a block of tiles. Where there are few, many blocks share them.
static int64_t threadsOfTiles(const Tiling &tiling, const GpuParts &gpu) {
  int64_t tiles = tiling.tilesDown() * tiling.tilesAlong();
  int64_t all = tiles * tiling.outer * tiling.middle;
  return std::min<int64_t>(threadsFor(tiles),
                           areFew(all / 256, gpu) ? 64 : 256);
}

/// Chooses who computes what of a part; returns the threads that it wants.
static int64_t assignThreads(Part &part, exec::KernelOp kernel,
                             const GpuParts &gpu) {
  int64_t lanes = gpu.maxLanes;
  part.grain = 1;
  if (part.kind == Part::TopK || part.kind == Part::Cumsum)
    return assignLines(part, kernel);
  if (hasFewTallSums(part, kernel)) {
    part.owner = Part::Sums;
    return gpu.parts.size() == 1 ? 512 : 256;
  }
  if (auto tiling = tilingOf(part, kernel, lanes)) {
    part.owner = Part::Tiles;
    part.tiling = *tiling;
    return threadsOfTiles(*tiling, gpu);
  }
  if (part.kind == Part::Flat)
    return threadsFor(part.isPartial ? part.chunk / lanes : part.count / lanes);
  if (part.kind == Part::ScatterAdd && isPlaced(part, kernel)) {
    constexpr int64_t mostRows = 8192; // of 48 KiB of shared memory
    part.owner = Part::Placed;
    int64_t blocks = 2 * gpu.processors;
    part.chunk =
        std::clamp<int64_t>((part.count + blocks - 1) / blocks, 1, mostRows);
    return 256;
  }
  if (part.kind == Part::ScatterAdd) {
    constexpr int64_t blocks = 512;
    part.chunk = std::max<int64_t>((part.count + blocks - 1) / blocks, 1);
    Value table = kernel.getYield().getValues()[part.results[0]];
    int64_t columns = typeOf(table).getNumElements() / part.count;
    return threadsFor(vectorsOf(std::max<int64_t>(columns, 1), lanes));
  }
  int64_t columns = longestRow(part, kernel);
  int64_t vectors = vectorsOf(columns, lanes);
  if (part.isPartial && hasPlainColumns(part, kernel, columns)) {
    part.owner = Part::Columns;
    return std::min<int64_t>(threadsFor(vectors), 128);
  }
  if (part.isPartial && fitsWarp(columns, lanes)) {
    part.owner = Part::Warp;
    return kWarp * (columns / vectors); // see `combineVectors`
  }
  if (!part.isPartial && columns <= kShortRow)
    part.owner = Part::Thread;
  else if (!part.isPartial && vectors <= kTurns * kWarp)
    part.owner = Part::Warp;
  if (part.owner == Part::Warp)
    part.team = teamFor(vectors, part.count);
  if (part.owner != Part::Block)
    return std::min<int64_t>(128, threadsFor(part.count * part.team));
  if (int64_t threads = part.isPartial ? threadsOfChunk(columns, lanes) : 0)
    return threads;
  return threadsOfRow(vectors, part.count, gpu);
}

/// Rows or elements of a block.
static int64_t gpuChunkOf(const Part &part, const GpuParts &gpu) {
  if (part.isPartial || part.kind == Part::ScatterAdd)
    return part.chunk;
  if (part.owner == Part::Sums)
    return kWarp;
  if (part.kind == Part::Flat)
    return gpu.threads * gpu.maxLanes;
  if (part.owner == Part::Thread)
    return gpu.threads;
  return part.owner == Part::Warp ? gpu.threads / part.team : 1;
}

/// Slabs of columns, of a vector for each thread.
static int64_t slabsOf(int64_t columns, const GpuParts &gpu) {
  int64_t vectors = vectorsOf(columns, gpu.maxLanes);
  return (vectors + gpu.threads - 1) / gpu.threads;
}

/// Registers of a multiprocessor. Each of its quarters has as many, and whole
/// warps: 9 warps take the room of 12.
static constexpr int64_t kRegisters = 65536, kQuarters = 4;
static constexpr int64_t kUsualRegisters = 128; ///< of a thread, at most

int64_t kerf::codegen::blocksOfProcessor(int64_t threads) {
  return kRegisters / kUsualRegisters / threads;
}

/// Registers that a thread may have. Long rows wait for memory more than they
/// compute: blocks share a multiprocessor such that 1,024 threads are there,
/// and 768 of sums of all elements.
static int64_t registersFor(const GpuParts &gpu) {
  int64_t units = 0, registers = 64;
  for (const Part &part : gpu.parts) {
    units += part.units();
    bool isLongRow = part.kind == Part::Rows && part.owner == Part::Block &&
                     !part.isPartial && gpu.threads >= 512;
    bool isSum = part.kind == Part::Flat && part.isPartial;
    if (!isLongRow)
      registers = std::max<int64_t>(registers, isSum ? 80 : kUsualRegisters);
  }
  if (areFew(units, gpu))
    registers = 255;
  int64_t threads = llvm::alignTo(gpu.threads, kQuarters * kWarp);
  return std::min(registers, kRegisters / threads / 8 * 8);
}

GpuParts kerf::codegen::gpuPartsOf(exec::KernelOp kernel, int processors) {
  GpuParts gpu;
  gpu.processors = processors;
  gpu.parts = partsOf(kernel);
  gpu.maxLanes = gpuLanesOf(kernel);
  for (Part &part : gpu.parts)
    gpu.threads = std::max(gpu.threads, assignThreads(part, kernel, gpu));
  for (Part &part : gpu.parts) {
    part.chunk = gpuChunkOf(part, gpu);
    if (part.owner == Part::Tiles)
      dealOut(part.tiling, gpu.threads);
    if (part.owner == Part::Columns)
      part.slabs = slabsOf(longestRow(part, kernel), gpu);
  }
  gpu.registers = registersFor(gpu);
  return gpu;
}
