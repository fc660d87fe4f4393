//===- EmitPartial.cpp - sums of chunks of rows, on a GPU -----------------===//
//
// Sums stay in registers while a thread walks down the rows of a chunk. Where a
// row must be known as a whole first (its mean, its maximum), the block
// computes row after row; else each thread has its columns for itself.
//
//===----------------------------------------------------------------------===//

#include "PartEmitter.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

/// Columns of the sums; none if they differ.
static std::optional<int64_t> columnsOfSums(const Part &part,
                                            OperandRange values) {
  std::optional<int64_t> columns;
  for (unsigned result : part.results) {
    auto partial = partialOf(values[result]);
    if (!partial)
      continue;
    int64_t own = typeOf(partial.getX()).getNumElements() / part.count;
    if (columns && columns != own)
      return std::nullopt;
    columns = own;
  }
  return columns;
}

/// A column in vectors.
static Index columnAt(const Index &v, int64_t lanes) {
  Index column = v * lanes;
  column.lane = lanes > 1;
  return column;
}

// A unit is a slab of columns of a chunk.
bool PartEmitter::emitDown(const Part &part, const Index &unit, int64_t lanes) {
  Sums sums = sumsOf(part, lanes);
  int64_t columns = *columnsOfSums(part, values), vectors = columns / lanes;
  int64_t widest = e.maxLanes;
  while (columns % widest != 0)
    widest /= 2;
  auto at = *e.space.divide(unit, part.slabs);
  Value first = e.materialize(at.quotient * part.chunk);
  Value last = smaller(a.add(first, word(part.chunk)), word(part.count));
  bool isDone = true;
  auto walk = [&](const Index &v) {
    Index column = columnAt(v, lanes);
    auto totals = e.reduceLoop(first, last, {0, part.count - 1}, sums.initial,
                               [&](const Index &row, ValueRange before) {
                                 Emitter::Carried next;
                                 e.withLanes(lanes, lanes, [&] {
                                   Index position = row * columns + column;
                                   isDone &= storeAll(sums.plain, position);
                                   next =
                                       addTo(sums, position, before, Value());
                                 });
                                 return next;
                               });
    isDone &= totals.has_value();
    if (!totals)
      return;
    e.withLanes(lanes, lanes, [&] {
      for (auto [result, total] : llvm::zip(sums.partial, *totals))
        e.store(result, at.quotient * columns + column, {total, lanes > 1});
    });
  };
  int64_t perSlab = e.threads * (widest / lanes);
  forTurns(at.remainder * perSlab, perSlab, part.slabs, vectors, walk);
  return isDone;
}

// A unit is a chunk: all threads are at the same row, or each warp is at one of
// its own.
bool PartEmitter::emitChunk(const Part &part, const Index &unit,
                            int64_t lanes) {
  Sums sums = sumsOf(part, lanes);
  int64_t columns = *columnsOfSums(part, values);
  Team team = e.team();
  int64_t step = 1;
  Value begin = e.materialize(unit * part.chunk);
  Value last = smaller(a.add(begin, word(part.chunk)), word(part.count));
  Value first = begin;
  if (part.owner == Part::Warp) {
    auto split = *e.space.divide(e.thread, kWarp);
    team = {kWarp, split.remainder};
    step = e.threads / kWarp;
    first = a.add(begin, e.materialize(split.quotient));
  }
  int64_t vectors = columns / lanes, turns = vectors / team.size;
  if (vectors % team.size != 0 || !fitsRegisters(turns, lanes))
    return false;
  auto columnOf = [&](int64_t turn) {
    return columnAt(team.rank + Index(turn * team.size), lanes);
  };
  bool isDone = true;
  auto addRow = [&](const Index &row, ValueRange before) {
    size_t reads = e.reads.size();
    isDone = isDone && emitRowReduces(part, row);
    e.isFinal = true;
    isDone = isDone && emitOthers(part, columns, row, unit);
    Emitter::Carried all;
    size_t count = sums.partial.size();
    for (int64_t turn = 0; turn < turns && isDone; ++turn)
      e.withLanes(lanes, lanes, [&] {
        Index position = row * columns + columnOf(turn);
        isDone = storeAll(alikeOf(part, columns), position);
        if (isDone)
          llvm::append_range(all,
                             addTo(sums, position,
                                   before.slice(turn * count, count), Value()));
      });
    e.prefetchRows(row, step, last, columns, reads);
    return all;
  };
  Emitter::Carried initial;
  for (int64_t turn = 0; turn < turns; ++turn)
    llvm::append_range(initial, sums.initial);
  e.isFinal = false;
  auto totals =
      e.stepLoop(first, last, step, {0, part.count - 1}, team, initial, addRow);
  if (!totals || !isDone)
    return false;
  for (auto [i, total] : llvm::enumerate(*totals)) {
    size_t number = i % sums.partial.size();
    unsigned result = sums.partial[number];
    int64_t turn = i / sums.partial.size();
    if (part.owner == Part::Warp)
      e.combineVectors(total, sums.isMax[number],
                       [&](const Index &column, Value sum) {
                         Index position = unit * columns + column +
                                          Index(turn * kWarp * lanes);
                         e.store(result, position, {sum, false});
                       });
    else
      e.withLanes(lanes, lanes, [&] {
        e.store(result, unit * columns + columnOf(turn), {total, lanes > 1});
      });
  }
  return true;
}

llvm::SmallVector<unsigned> PartEmitter::alikeOf(const Part &part,
                                                 int64_t columns) {
  llvm::SmallVector<unsigned> alike;
  for (unsigned result : part.results)
    if (!partialOf(values[result]) &&
        typeOf(values[result]).getNumElements() == part.count * columns)
      alike.push_back(result);
  return alike;
}

bool PartEmitter::emitOthers(const Part &part, int64_t columns,
                             const Index &row, const Index &unit) {
  for (unsigned result : part.results) {
    int64_t own = typeOf(values[result]).getNumElements() / part.count;
    if (!partialOf(values[result]) && own != columns &&
        !emitColumns(result, own, row, Value(), unit))
      return false;
  }
  return true;
}

bool PartEmitter::emitPartialRows(const Part &part) {
  std::optional<int64_t> columns = columnsOfSums(part, values);
  if (!columns)
    return false;
  bool isDown = part.owner == Part::Columns;
  for (int64_t lanes : widths(*columns)) {
    if (*columns % lanes != 0)
      continue;
    bool isDone = e.tryEmit([&] {
      bool inner = true;
      e.isFinal = isDown;
      forUnits(part, [&](const Index &unit) {
        inner =
            isDown ? emitDown(part, unit, lanes) : emitChunk(part, unit, lanes);
      });
      return inner;
    });
    if (isDone)
      return true;
  }
  return false;
}
