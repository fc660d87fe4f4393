//===- EmitRows.cpp - parts that are rows ---------------------------------===//

#include "PartEmitter.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// How many reductions must be done before this one, one after the other.
static unsigned levelOf(ReduceOp op, llvm::ArrayRef<ReduceOp> among,
                        llvm::DenseMap<Operation *, unsigned> &levels) {
  unsigned level = 0;
  for (ReduceOp other : rowReducesOf(op.getX()))
    if (llvm::is_contained(among, other))
      level = std::max(level, levels[other] + 1);
  return levels[op] = level;
}

/// Takes a maximum and the sum of exponentials below it out of two loops over a
/// row that lies in memory, if there is nothing else in them: the row is then
/// read once for both. Returns false if code for them was begun and failed.
bool PartEmitter::emitRowExps(std::vector<Emitter::RowReduce> &first,
                              std::vector<Emitter::RowReduce> &second,
                              int64_t columns) {
  auto isPicked = [](const Emitter::RowReduce &each) { return picks(each.op); };
  auto max = llvm::find_if_not(first, isPicked);
  if (!e.isGpu() || e.isUnrolled(columns / e.maxLanes) || second.size() != 1 ||
      max == first.end() || !sumsExpBelow(second[0].op, max->op) ||
      llvm::count_if(first, isPicked) + 1 != int64_t(first.size()))
    return true;
  Emitter::RowReduce top = *max;
  first.erase(max);
  bool isDone = e.reduceExps(top, second[0], first);
  first.clear();
  second.clear();
  return isDone;
}

bool PartEmitter::emitRowReduces(const Part &part, const Index &row) {
  llvm::SmallVector<ReduceOp> reduces;
  for (unsigned result : part.results)
    for (ReduceOp op : rowReducesOf(elementsOf(values[result])))
      if (typeOf(op.getResult()).getNumElements() == part.count &&
          !llvm::is_contained(reduces, op))
        reduces.push_back(op);
  llvm::DenseMap<Operation *, unsigned> levels;
  std::map<std::pair<unsigned, int64_t>, std::vector<Emitter::RowReduce>> loops;
  for (ReduceOp op : reduces) {
    unsigned level = levelOf(op, reduces, levels);
    int64_t columns = typeOf(op.getX()).getNumElements() / part.count;
    auto at = e.space.delinearize(row, typeOf(op.getResult()).getShape());
    if (!at)
      return false;
    if (columns > 0)
      loops[{level, columns}].push_back({op, *at});
  }
  for (auto &[key, together] : loops) {
    auto next = loops.find({key.first + 1, key.second});
    if (next != loops.end() && !emitRowExps(together, next->second, key.second))
      return false;
    if (!together.empty() && !e.reduceRows(together))
      return false;
  }
  // What a lane read for the sums, another may overwrite. Shuffles order no
  // memory; the sums of a block have waited at a barrier.
  if (!loops.empty() && e.team().size <= kWarp && overwrites(part.results))
    e.synchronize();
  return true;
}

/// Columns at which pieces of rows begin.
static llvm::SmallVector<int64_t> piecesOf(llvm::ArrayRef<Value> roots,
                                           int64_t columns) {
  llvm::SmallVector<int64_t> splits;
  forCone(roots, [&](Operation *op) {
    int64_t rank = typeOf(op->getResult(0)).getRank();
    if (rank == 0 || typeOf(op->getResult(0)).getShape().back() != columns)
      return;
    std::optional<View> view = viewOf(op);
    if (!view)
      return;
    if (view->kind == ViewKind::Pad) {
      int64_t low = view->offsets.back();
      splits.push_back(low);
      splits.push_back(low + typeOf(op->getOperand(0)).getShape().back());
    }
    int64_t begin = 0;
    if (view->kind == ViewKind::Join && view->dims[0] == rank - 1)
      for (Value input : op->getOperands())
        splits.push_back(begin += typeOf(input).getShape().back());
  });
  llvm::sort(splits);
  splits.erase(llvm::unique(splits), splits.end());
  llvm::erase_if(splits,
                 [&](int64_t split) { return split <= 0 || split >= columns; });
  constexpr size_t limit = 8; // Each piece has code of its own.
  if (splits.size() > limit)
    splits.clear();
  return splits;
}

bool PartEmitter::emitColumns(llvm::ArrayRef<unsigned> results, int64_t columns,
                              const Index &row, Value isFirst,
                              const Index &unit) {
  llvm::SmallVector<unsigned> plain, partial;
  llvm::SmallVector<Value> roots;
  for (unsigned result : results) {
    (partialOf(values[result]) ? partial : plain).push_back(result);
    roots.push_back(elementsOf(values[result]));
  }
  auto body = [&](const Index &column) {
    Index position = row * columns + column;
    if (!storeAll(plain, position))
      return false;
    for (unsigned result : partial) {
      auto op = partialOf(values[result]);
      bool isMax = op.getKind() == ReduceKind::Max;
      auto x = e.pullAt(op.getX(), position);
      if (!x)
        return false;
      Index to = unit * columns + column;
      Value old = e.load(result, to).value, v = x->value;
      Value next = isMax ? a.max(old, v) : a.add(old, v);
      e.store(result, to, {a.select(isFirst, v, next), column.lane != 0});
    }
    return true;
  };
  // Elements that all threads read: they do so before one of them writes.
  if (columns == 1 && e.team().size > 1 && overwrites(plain)) {
    if (!e.tryEmit([&] { return storeAll(plain, row); }))
      return false;
    plain.clear();
    if (partial.empty())
      return true;
  }
  llvm::SmallVector<int64_t> pieces = piecesOf(roots, columns);
  for (int64_t lanes : widths(columns)) {
    llvm::SmallVector<int64_t> splits =
        pieces.empty() ? e.splitsOf(roots, columns, lanes) : pieces;
    bool isDone = e.tryEmit([&] {
      bool inner = true;
      auto all = e.forVectors(columns, lanes, splits, {},
                              [&](const Index &column, ValueRange) {
                                inner = inner && body(column);
                                return Emitter::Carried();
                              });
      inner &= all.has_value();
      return inner;
    });
    if (isDone)
      return true;
  }
  return false;
}

bool PartEmitter::emitRow(const Part &part, const Index &row, Value isFirst,
                          const Index &unit) {
  e.isFinal = false;
  if (!emitRowReduces(part, row))
    return false;
  e.isFinal = true;
  llvm::MapVector<int64_t, llvm::SmallVector<unsigned>> byColumns;
  for (unsigned result : part.results) {
    Value value = elementsOf(values[result]);
    byColumns[typeOf(value).getNumElements() / part.count].push_back(result);
  }
  for (auto &[columns, results] : byColumns)
    if (!emitColumns(results, columns, row, isFirst, unit))
      return false;
  return true;
}

bool PartEmitter::emitRows(const Part &part) {
  if (e.isGpu() && part.isPartial && emitPartialRows(part))
    return true;
  if (part.owner == Part::Columns)
    return false; // No other way splits its units so.
  if (e.isGpu() && part.isPartial && part.owner == Part::Warp) {
    Part slow = part; // Sums are kept in memory.
    slow.owner = Part::Block;
    return emitRows(slow);
  }
  bool isDone = true;
  forUnits(part, [&](const Index &unit) {
    Value first = e.materialize(unit * part.chunk);
    forRows(part, unit, [&](const Index &row) {
      Value isFirst;
      if (part.isPartial)
        isFirst =
            arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::eq,
                                  e.materialize(row), first);
      isDone = emitRow(part, row, isFirst, unit);
    });
  });
  return isDone;
}
