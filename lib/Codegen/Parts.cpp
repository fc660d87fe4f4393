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

std::optional<ScatterRoot> kerf::codegen::scatterRootOf(Value value) {
  if (auto scatter = value.getDefiningOp<ScatterAddOp>())
    return ScatterRoot{scatter, Value()};
  auto add = value.getDefiningOp<AddOp>();
  if (!add)
    return std::nullopt;
  for (auto [own, other] : {std::pair{add.getLhs(), add.getRhs()},
                            std::pair{add.getRhs(), add.getLhs()}})
    if (auto scatter = own.getDefiningOp<ScatterAddOp>())
      if (!other.getDefiningOp<ScatterAddOp>())
        return ScatterRoot{scatter, other};
  return std::nullopt;
}

/// Number of rows, if the value is computed row by row.
static std::optional<int64_t> rowCountOf(Value value) {
  int64_t elements = typeOf(value).getNumElements(), rows = 0;
  for (ReduceOp reduce : rowReducesOf(value)) {
    int64_t count = typeOf(reduce.getResult()).getNumElements();
    if (count > 0 && elements % count == 0)
      rows = std::max(rows, count);
  }
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
  llvm::SmallPtrSet<Operation *, 32> seen;
  llvm::SmallVector<Value> open = {root};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    llvm::append_range(open, op->getOperands());
    if (!isa<PadOp, ConcatOp>(op))
      continue;
    auto type = typeOf(op->getResult(0));
    if (type.getRank() && type.getShape().back() == columns)
      return true;
  }
  return false;
}

/// The part that one result would be by itself.
static Part partOf(Value value, unsigned result) {
  auto type = typeOf(value);
  Operation *op = value.getDefiningOp();
  if (scatterRootOf(value)) {
    int64_t rows = type.getDimSize(0);
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
