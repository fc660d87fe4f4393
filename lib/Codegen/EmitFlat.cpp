//===- EmitFlat.cpp - parts that are blocks of elements -------------------===//

#include "PartEmitter.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

//===----------------------------------------------------------------------===//
// Elements in blocks
//===----------------------------------------------------------------------===//

PartEmitter::Sums PartEmitter::sumsOf(const Part &part, int64_t lanes) {
  Sums sums;
  for (unsigned result : part.results)
    (partialOf(values[result]) ? sums.partial : sums.plain).push_back(result);
  for (unsigned result : sums.partial) {
    auto op = partialOf(values[result]);
    Type type = e.typeOfNumbers(typeOf(op.getX()).getElementType());
    sums.isMax.push_back(op.getKind() == ReduceKind::Max);
    sums.initial.push_back(
        e.neutral(lanes > 1 ? a.vector(type, lanes) : type, sums.isMax.back()));
  }
  return sums;
}

Emitter::Carried PartEmitter::addTo(const Sums &sums, const Index &position,
                                    ValueRange before, Value counts) {
  Emitter::Carried next;
  for (auto [i, result] : llvm::enumerate(sums.partial)) {
    auto x = e.pullAt(elementsOf(values[result]), position);
    if (!x)
      return Emitter::Carried();
    bool isMax = sums.isMax[i];
    Value v = e.vectorOf(*x), none = e.neutral(v.getType(), isMax);
    if (e.space.activeLanes < e.lanes)
      v = a.select(e.mask(), v, none);
    if (counts)
      v = a.select(counts, v, none);
    next.push_back(isMax ? a.max(before[i], v) : a.add(before[i], v));
  }
  return next;
}

bool PartEmitter::emitFlatBlock(const Part &part, const Index &unit,
                                int64_t lanes) {
  Sums flat = sumsOf(part, lanes);
  Emitter::Carried sums = flat.initial;
  int64_t vectors = part.count / lanes, perUnit = part.chunk / lanes;
  bool isDone = true;
  if (vectors > 0) {
    Value first = e.materialize(unit * perUnit);
    Value last = smaller(a.add(first, word(perUnit)), word(vectors));
    auto result = e.reduceLoop(first, last, {0, vectors - 1}, sums,
                               [&](const Index &v, ValueRange before) {
                                 Emitter::Carried next;
                                 Index position = v * lanes;
                                 position.lane = lanes > 1;
                                 e.withLanes(lanes, lanes, [&] {
                                   isDone &= storeAll(flat.plain, position);
                                   next =
                                       addTo(flat, position, before, Value());
                                 });
                                 return next;
                               });
    if (!result || !isDone)
      return false;
    sums = *result;
  }
  if (int64_t tail = part.count % lanes) {
    Value isLast =
        arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::eq,
                              e.materialize(unit), word(part.units() - 1));
    Index position(vectors * lanes);
    position.lane = 1;
    if (!flat.plain.empty())
      e.when(isLast, [&] {
        e.withLanes(lanes, tail,
                    [&] { isDone &= storeAll(flat.plain, position); });
      });
    Emitter::Carried next;
    e.withLanes(lanes, tail,
                [&] { next = addTo(flat, position, sums, isLast); });
    if (next.size() != sums.size())
      return false;
    sums = next;
  }
  for (auto [i, result] : llvm::enumerate(flat.partial)) {
    Value total = lanes > 1 ? a.reduceLanes(sums[i], flat.isMax[i]) : sums[i];
    e.store(result, unit, {total, false});
  }
  return isDone;
}

// A thread has one vector of the block, or some if vectors must be narrow. With
// partial sums, threads take turns until the unit's chunk is done.
bool PartEmitter::emitFlatThreads(const Part &part, const Index &unit,
                                  int64_t lanes) {
  Sums flat = sumsOf(part, lanes);
  int64_t vectors = part.count / lanes, perUnit = part.chunk / lanes;
  bool isDone = true;
  Emitter::Carried sums = flat.initial;
  auto at = [&](const Index &position, int64_t width, ValueRange before) {
    Emitter::Carried next;
    e.withLanes(width, width, [&] {
      isDone &= storeAll(flat.plain, position);
      next = addTo(flat, position, before, Value());
    });
    return next;
  };
  auto vector = [&](const Index &v, ValueRange before) {
    Index position = v * lanes;
    position.lane = lanes > 1;
    return at(position, lanes, before);
  };
  if (sums.empty()) {
    forTurns(unit * perUnit, perUnit, part.units(), vectors,
             [&](const Index &v) { vector(v, {}); });
  } else if (vectors > 0) {
    Value first = e.materialize(unit * perUnit);
    Value last = smaller(a.add(first, word(perUnit)), word(vectors));
    auto result = e.sharedLoop(first, last, {0, vectors - 1}, sums, vector);
    if (!result)
      return false;
    sums = *result;
  }
  for (auto [sum, isMax] : llvm::zip(sums, flat.isMax))
    sum = lanes > 1 ? a.reduceLanes(sum, isMax) : sum;
  if (int64_t tail = part.count % lanes; tail && isDone) {
    Value isLast =
        arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::eq,
                              e.materialize(unit), word(part.units() - 1));
    Value first = a.select(isLast, word(0), word(tail));
    auto result =
        e.sharedLoop(first, word(tail), {0, tail - 1}, sums,
                     [&](const Index &j, ValueRange before) {
                       return at(j + Index(vectors * lanes), 1, before);
                     });
    if (!result)
      return false;
    sums = *result;
  }
  if (!isDone)
    return false;
  sums = e.combine(sums, flat.isMax);
  for (auto [result, sum] : llvm::zip(flat.partial, sums))
    e.store(result, unit, {sum, false});
  return true;
}

// A lane has an element. All warps compute it, each from its share of the
// addends, and the first one stores it.
bool PartEmitter::emitSums(const Part &part, const Index &unit) {
  constexpr int64_t warp = 32;
  auto split = *e.space.divide(e.thread, warp);
  Index position = unit * warp + split.remainder;
  e.addends = {e.threads / warp, split.quotient};
  llvm::SmallVector<Element> elements;
  for (unsigned result : part.results) {
    auto element = e.pullAt(values[result], position);
    if (!element)
      break;
    elements.push_back(*element);
  }
  e.addends = Team();
  if (elements.size() < part.results.size())
    return false;
  if (overwrites(part.results))
    e.synchronize(); // All warps have read what the first one writes.
  Value isFirst =
      arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::eq,
                            e.materialize(split.quotient), word(0));
  e.when(isFirst, [&] {
    e.team() = Team();
    for (auto [result, element] : llvm::zip(part.results, elements))
      e.store(result, position, element);
  });
  return true;
}

bool PartEmitter::emitFlat(const Part &part) {
  bool isDone = false;
  e.isFinal = true;
  if (part.owner == Part::Sums || part.owner == Part::Tiles)
    return e.tryEmit([&] {
      forUnits(part, [&](const Index &unit) {
        isDone = part.owner == Part::Sums ? emitSums(part, unit)
                                          : emitTiles(part, unit);
      });
      return isDone;
    });
  for (int64_t lanes : widths(part.count)) {
    if (part.chunk % lanes != 0)
      continue;
    isDone = e.tryEmit([&] {
      bool inner = true;
      forUnits(part, [&](const Index &unit) {
        inner = e.isGpu() ? emitFlatThreads(part, unit, lanes)
                          : emitFlatBlock(part, unit, lanes);
      });
      return inner;
    });
    if (isDone)
      break;
  }
  return isDone;
}
