//===- EmitSpecial.cpp - largest elements, tables, running sums -----------===//

#include "PartEmitter.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

//===----------------------------------------------------------------------===//
// Largest elements
//===----------------------------------------------------------------------===//

/// An integer that orders like a float, NaN above all, both zeros alike.
static Value orderKey(Emitter &e, Value x) {
  Arith &a = e.arith;
  Type integer = a.f64() == x.getType() ? a.i64() : a.i32();
  unsigned width = integer.getIntOrFloatBitWidth();
  uint64_t largest = ~uint64_t(0) >> (65 - width);
  Value bits =
      arith::BitcastOp::create(e.builder, a.loc, integer, a.add(x, 0.0));
  Value sign = arith::ShRSIOp::create(e.builder, a.loc, bits,
                                      a.bits(integer, width - 1));
  Value flip =
      arith::AndIOp::create(e.builder, a.loc, sign, a.bits(integer, largest));
  Value key = arith::XOrIOp::create(e.builder, a.loc, bits, flip);
  Value isNaN =
      arith::CmpFOp::create(e.builder, a.loc, arith::CmpFPredicate::UNO, x, x);
  return a.select(isNaN, a.bits(integer, largest), key);
}

/// Of key, position and number, one each per thread of a warp: those with the
/// largest key, and of them the first.
static void largestOf(Emitter &e, Emitter::Carried &best) {
  Arith &a = e.arith;
  auto compare = [&](arith::CmpIPredicate p, Value x, Value y) -> Value {
    return arith::CmpIOp::create(e.builder, a.loc, p, x, y);
  };
  for (int64_t distance = e.team().size / 2; distance >= 1; distance /= 2) {
    Emitter::Carried other;
    for (Value value : best)
      other.push_back(e.exchange(value, distance));
    Value isFirst = arith::AndIOp::create(
        e.builder, a.loc, compare(arith::CmpIPredicate::eq, other[0], best[0]),
        compare(arith::CmpIPredicate::slt, other[1], best[1]));
    Value isBetter = arith::OrIOp::create(
        e.builder, a.loc, isFirst,
        compare(arith::CmpIPredicate::sgt, other[0], best[0]));
    for (auto [mine, theirs] : llvm::zip(best, other))
      mine = a.select(isBetter, theirs, mine);
  }
}

bool PartEmitter::emitTopKRow(TopKOp op, const Part &part, const Index &row) {
  int64_t columns = typeOf(op.getX()).getShape().back(), k = op.getK();
  Type number = e.typeOfNumbers(typeOf(op.getX()).getElementType());
  Type integer = number.isF64() ? a.i64() : a.i32();
  unsigned width = integer.getIntOrFloatBitWidth();
  uint64_t largest = ~uint64_t(0) >> (65 - width);
  auto predicate = [&](arith::CmpIPredicate p, Value x, Value y) -> Value {
    return arith::CmpIOp::create(e.builder, a.loc, p, x, y);
  };
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(e.builder, a.loc, x, y);
  };
  // Each round finds the largest that comes after the one found before.
  Emitter::Carried before = {a.bits(integer, largest), word(-1)};
  bool isDone = true;
  auto round = [&](const Index &j, ValueRange found) -> Emitter::Carried {
    Emitter::Carried best = {a.bits(integer, largest + 1), word(0),
                             a.number(number, 0)};
    auto result = e.sharedLoop(
        word(0), word(columns), {0, columns - 1}, best,
        [&](const Index &column, ValueRange best) -> Emitter::Carried {
          auto x = e.pullAt(op.getX(), row * columns + column);
          if (!x)
            return {};
          Value key = orderKey(e, x->value), at = e.materialize(column);
          Value isNext = arith::OrIOp::create(
              e.builder, a.loc,
              predicate(arith::CmpIPredicate::slt, key, found[0]),
              both(predicate(arith::CmpIPredicate::eq, key, found[0]),
                   predicate(arith::CmpIPredicate::sgt, at, found[1])));
          Value isBetter =
              both(isNext, predicate(arith::CmpIPredicate::sgt, key, best[0]));
          return {a.select(isBetter, key, best[0]),
                  a.select(isBetter, at, best[1]),
                  a.select(isBetter, x->value, best[2])};
        });
    if (!result) {
      isDone = false;
      return {};
    }
    largestOf(e, *result);
    Value at = arith::TruncIOp::create(e.builder, a.loc, a.i32(), (*result)[1]);
    for (unsigned i : part.results) {
      bool isIndex = values[i] == op.getIndices();
      e.store(i, row * k + j, {isIndex ? at : (*result)[2], false});
    }
    return {(*result)[0], (*result)[1]};
  };
  e.reduceLoop(word(0), word(k), {0, k - 1}, before, round);
  return isDone;
}

bool PartEmitter::emitTopK(const Part &part) {
  auto op = values[part.results[0]].getDefiningOp<TopKOp>();
  bool isDone = true;
  e.isFinal = true;
  forUnits(part, [&](const Index &unit) {
    forRows(part, unit,
            [&](const Index &row) { isDone = emitTopKRow(op, part, row); });
  });
  return isDone;
}

//===----------------------------------------------------------------------===//
// Rows added into a table
//===----------------------------------------------------------------------===//

static Value isWithin(Emitter &e, Value row, Value first, Value last) {
  Arith &a = e.arith;
  return arith::AndIOp::create(
      e.builder, a.loc,
      arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::sge, row,
                            first),
      arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::slt, row,
                            last));
}

bool PartEmitter::forOwnTokens(
    Value index, Value first, Value last,
    llvm::function_ref<void(const Index &, Value)> body) {
  if (e.isGpu())
    return forOwnTokensOfWarp(index, first, last, body);
  int64_t tokens = typeOf(index).getNumElements();
  bool isDone = true;
  e.loop(word(0), word(tokens), {0, tokens - 1}, [&](const Index &token) {
    auto id = e.pullAt(index, token);
    if (!id)
      return void(isDone = false);
    Value row = arith::ExtSIOp::create(e.builder, a.loc, a.i64(), id->value);
    e.when(isWithin(e, row, first, last), [&] { body(token, row); });
  });
  return isDone;
}

// The index of a group of 32 tokens that a lane has, and which lanes' tokens
// are in [first, last): all lanes know. None of a token that there is not.
std::optional<PartEmitter::Group>
PartEmitter::lookAt(Value index, const Index &group, Value first, Value last) {
  constexpr int64_t warp = 32;
  int64_t tokens = typeOf(index).getNumElements();
  Index at = group * warp + e.space.divide(e.thread, warp)->remainder;
  Value exists;
  if (e.space.rangeOf(at).high >= tokens) {
    Value number = e.materialize(at), safe = smaller(number, word(tokens - 1));
    exists = arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::eq,
                                   number, safe);
    at = e.opaque(safe, {0, tokens - 1}, true);
  }
  auto id = e.pullAt(index, at);
  if (!id)
    return std::nullopt;
  auto narrow = [&](Value x) -> Value {
    return arith::TruncIOp::create(e.builder, a.loc, a.i32(), x);
  };
  // Rows before the first are large without their sign.
  Value isMine = arith::CmpIOp::create(
      e.builder, a.loc, arith::CmpIPredicate::ult,
      a.sub(id->value, narrow(first)), narrow(a.sub(last, first)));
  if (exists)
    isMine = arith::AndIOp::create(e.builder, a.loc, exists, isMine);
  return Group{id->value, e.ballot(isMine)};
}

void PartEmitter::forBits(Value mask, int64_t count,
                          llvm::function_ref<void(const Index &, Value)> body) {
  e.loop(word(0), word(count), {0, count - 1}, [&](const Index &j) {
    Value bit =
        arith::TruncIOp::create(e.builder, a.loc, a.i32(), e.materialize(j));
    Value shifted = arith::ShRUIOp::create(e.builder, a.loc, mask, bit);
    Value isSet = arith::TruncIOp::create(e.builder, a.loc,
                                          e.builder.getI1Type(), shifted);
    e.when(isSet, [&] { body(j, bit); });
  });
}

// Each warp looks through all tokens, 32 at a time, so that all threads know
// which are theirs. Eight times 32 are read at once: one after the other would
// take eight times as long, few have what is looked for.
bool PartEmitter::forOwnTokensOfWarp(
    Value index, Value first, Value last,
    llvm::function_ref<void(const Index &, Value)> body) {
  constexpr int64_t warp = 32;
  int64_t tokens = typeOf(index).getNumElements();
  int64_t groups = (tokens + warp - 1) / warp;
  int64_t atOnce = std::min<int64_t>(groups, 8);
  int64_t batches = (groups + atOnce - 1) / atOnce;
  Value none = a.bits(a.i32(), 0);
  auto isSet = [&](Value bits) -> Value {
    return arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::ne,
                                 bits, none);
  };
  bool isDone = true;
  e.loop(word(0), word(batches), {0, batches - 1}, [&](const Index &batch) {
    Value found = none;
    for (int64_t k = 0; k < atOnce && isDone; ++k) {
      auto group = lookAt(index, batch * atOnce + Index(k), first, last);
      isDone = group.has_value();
      if (isDone)
        found = arith::OrIOp::create(
            e.builder, a.loc, found,
            a.select(isSet(group->mine), a.bits(a.i32(), 1 << k), none));
    }
    if (!isDone)
      return;
    e.when(isSet(found), [&] {
      forBits(found, atOnce, [&](const Index &k, Value) {
        Index number = batch * atOnce + k;
        Group group = *lookAt(index, number, first, last);
        forBits(group.mine, warp, [&](const Index &j, Value bit) {
          Value token = e.materialize(number * warp + j);
          Value own = e.broadcast(group.row, bit);
          body(e.opaque(token, {0, tokens - 1}),
               arith::ExtSIOp::create(e.builder, a.loc, a.i64(), own));
        });
      });
    });
  });
  return isDone;
}

// What a row of the table has before anything is added.
std::optional<Element> PartEmitter::emptyRow(const ScatterRoot &root,
                                             const Index &position) {
  ScatterAddOp op = root.scatter;
  if (root.other)
    return e.pullAt(root.other, position);
  Type number = e.typeOfNumbers(typeOf(op.getX()).getElementType());
  return Element{a.number(number, 0), false};
}

bool PartEmitter::fillRow(const ScatterRoot &root, unsigned result,
                          const Index &row, int64_t columns, int64_t lanes) {
  if (auto table = dyn_cast_or_null<BlockArgument>(root.other);
      table && e.kernel.getInplaceArgument(result) == table.getArgNumber())
    return true; // It has what it had.
  bool isDone = true;
  auto all = e.forVectors(columns, lanes, {}, {},
                          [&](const Index &column, ValueRange) {
                            Index position = row * columns + column;
                            auto x = emptyRow(root, position);
                            if (x)
                              e.store(result, position, *x);
                            isDone &= x.has_value();
                            return Emitter::Carried();
                          });
  return isDone && all.has_value();
}

// Adds a token's row to one of the table. `isFirst`: the row has nothing yet,
// not even what it has when it is empty; null: it always has that.
bool PartEmitter::addToken(const ScatterRoot &root, unsigned result,
                           const Index &token, const Index &row, Value isFirst,
                           int64_t lanes) {
  ScatterAddOp op = root.scatter;
  int64_t columns = typeOf(op.getResult()).getNumElements() /
                    typeOf(op.getResult()).getDimSize(0);
  Value isLater;
  if (isFirst)
    isLater = arith::XOrIOp::create(e.builder, a.loc, isFirst,
                                    a.bits(isFirst.getType(), 1));
  bool isDone = true;
  auto vector = [&](const Index &column, ValueRange) {
    Index position = row * columns + column;
    auto x = e.pullAt(op.getX(), token * columns + column);
    isDone &= x.has_value();
    auto addTo = [&](Element before) {
      Value sum = a.add(before.value, x->value);
      e.store(result, position, {sum, column.lane != 0});
    };
    if (!x)
      return Emitter::Carried();
    if (!isFirst) {
      addTo(e.load(result, position));
      return Emitter::Carried();
    }
    e.when(isFirst, [&] {
      auto empty = emptyRow(root, position);
      isDone &= empty.has_value();
      if (empty)
        addTo(*empty);
    });
    e.when(isLater, [&] { addTo(e.load(result, position)); });
    return Emitter::Carried();
  };
  auto all = e.forVectors(columns, lanes, {}, {}, vector);
  return isDone && all.has_value();
}

// A unit owns some rows of the table: it looks through all indices for its own.
// Sums are taken in the order of the indices. On a CPU rows are filled before;
// on a GPU those that got nothing are filled after.
bool PartEmitter::emitScatterRows(const ScatterRoot &root, unsigned result,
                                  const Index &unit, const Part &part,
                                  int64_t lanes) {
  ScatterAddOp op = root.scatter;
  int64_t tokens = typeOf(op.getIndex()).getNumElements();
  int64_t columns = typeOf(op.getResult()).getNumElements() / part.count;
  Value first = e.materialize(unit * part.chunk);
  Value last = smaller(a.add(first, word(part.chunk)), word(part.count));
  bool isDone = true;
  auto forOwnRows = [&](llvm::function_ref<void(const Index &)> body) {
    e.loop(first, last, {0, part.count - 1}, body);
  };
  auto fill = [&](const Index &row) {
    isDone &= fillRow(root, result, row, columns, lanes);
  };
  bool isMarked = e.isGpu() && tokens > 0 && part.count > 1;
  if (!isMarked)
    forOwnRows(fill);
  if (tokens == 0 || !isDone)
    return isDone;
  Value marks = isMarked ? e.clearBits(part.chunk) : Value();
  auto add = [&](const Index &token, Value row) {
    Value isFirst;
    if (isMarked)
      isFirst = e.setBit(marks, a.sub(row, first));
    Index to = e.opaque(row, {0, part.count - 1});
    isDone &= addToken(root, result, token, to, isFirst, lanes);
  };
  if (!forOwnTokens(op.getIndex(), first, last, add))
    return false;
  if (isMarked)
    forOwnRows([&](const Index &row) {
      e.when(e.isClear(marks, a.sub(e.materialize(row), first)),
             [&] { fill(row); });
    });
  return isDone;
}

// All threads look through the indices together, several at once: one after the
// other would take as many times as long.
void PartEmitter::findTokens(Value index, Value tokenOf, Value first,
                             Value last) {
  constexpr int64_t atOnce = 8;
  int64_t tokens = typeOf(index).getNumElements();
  int64_t each = e.threads * atOnce, batches = (tokens + each - 1) / each;
  e.loop(word(0), word(batches), {0, batches - 1}, [&](const Index &batch) {
    llvm::SmallVector<std::pair<Value, Value>> found; // row and token
    for (int64_t k = 0; k < atOnce; ++k) {
      Index at = batch * each + Index(k * e.threads) + e.thread;
      Value number = e.materialize(at);
      Value token = smaller(number, word(tokens - 1));
      auto id = e.pullAt(index, e.opaque(token, {0, tokens - 1}, true));
      Value row = arith::ExtSIOp::create(e.builder, a.loc, a.i64(), id->value);
      Value exists = arith::CmpIOp::create(
          e.builder, a.loc, arith::CmpIPredicate::eq, number, token);
      found.push_back({a.select(exists, row, word(-1)), token});
    }
    for (auto [row, token] : found)
      e.when(isWithin(e, row, first, last), [&, row = row, token = token] {
        e.storeWord(tokenOf, a.sub(row, first),
                    arith::TruncIOp::create(e.builder, a.loc, a.i32(), token));
      });
  });
}

bool PartEmitter::emitPlacedRow(const ScatterRoot &root, unsigned result,
                                const Index &row, Value token, int64_t lanes) {
  ScatterAddOp op = root.scatter;
  int64_t tokens = typeOf(op.getIndex()).getNumElements();
  int64_t columns = typeOf(op.getX()).getNumElements() / tokens;
  Index from =
      e.opaque(arith::ExtSIOp::create(e.builder, a.loc, a.i64(), token),
               {0, tokens - 1});
  bool isDone = true;
  auto vector = [&](const Index &column, ValueRange) {
    Index position = row * columns + column;
    auto x = e.pullAt(op.getX(), from * columns + column);
    auto empty = emptyRow(root, position);
    isDone &= x && empty;
    if (x && empty)
      e.store(result, position,
              {a.add(empty->value, x->value), column.lane != 0});
    return Emitter::Carried();
  };
  return e.forVectors(columns, lanes, {}, {}, vector) && isDone;
}

// A unit owns some rows of the table: it notes in shared memory which token
// each of them has, -1 for none.
bool PartEmitter::emitPlacedRows(const ScatterRoot &root, unsigned result,
                                 const Index &unit, const Part &part,
                                 int64_t lanes) {
  constexpr int64_t warp = 32;
  ScatterAddOp op = root.scatter;
  int64_t columns = typeOf(op.getResult()).getNumElements() / part.count;
  Value first = e.materialize(unit * part.chunk);
  Value last = smaller(a.add(first, word(part.chunk)), word(part.count));
  Value tokenOf = e.sharedWords(part.chunk);
  e.sharedLoop(word(0), word(part.chunk), {0, part.chunk - 1}, {},
               [&](const Index &row, ValueRange) {
                 e.storeWord(tokenOf, e.materialize(row), a.bits(a.i32(), -1));
                 return Emitter::Carried();
               });
  e.synchronize();
  findTokens(op.getIndex(), tokenOf, first, last);
  e.synchronize();
  auto split = *e.space.divide(e.thread, warp);
  Team team = {warp, split.remainder};
  bool isDone = true;
  auto put = [&](const Index &row, ValueRange) {
    Value token = e.loadWord(tokenOf, a.sub(e.materialize(row), first));
    Value isNone = arith::CmpIOp::create(
        e.builder, a.loc, arith::CmpIPredicate::slt, token, a.bits(a.i32(), 0));
    Value isThere = arith::XOrIOp::create(e.builder, a.loc, isNone,
                                          a.bits(isNone.getType(), 1));
    e.guarded(isThere, [&] {
      isDone &= emitPlacedRow(root, result, row, token, lanes);
    });
    e.guarded(isNone,
              [&] { isDone &= fillRow(root, result, row, columns, lanes); });
    return Emitter::Carried();
  };
  e.stepLoop(a.add(first, e.materialize(split.quotient)), last,
             e.threads / warp, {0, part.count - 1}, team, {}, put);
  return isDone;
}

bool PartEmitter::emitScatter(const Part &part) {
  unsigned result = part.results[0];
  auto root = *scatterRootOf(values[result]);
  int64_t columns = typeOf(values[result]).getNumElements() / part.count;
  e.isFinal = true;
  for (int64_t lanes : widths(columns)) {
    bool isDone = e.tryEmit([&] {
      bool inner = true;
      forUnits(part, [&](const Index &unit) {
        inner = part.owner == Part::Placed
                    ? emitPlacedRows(root, result, unit, part, lanes)
                    : emitScatterRows(root, result, unit, part, lanes);
      });
      return inner;
    });
    if (isDone)
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Running sums
//===----------------------------------------------------------------------===//

// A block takes as many elements at a time as it has threads.
bool PartEmitter::emitCumsumLine(
    unsigned result, int64_t length,
    llvm::function_ref<Index(const Index &)> positionOf) {
  Value summed = values[result].getDefiningOp()->getOperand(0);
  Type number = e.typeOfNumbers(typeOf(summed).getElementType());
  int64_t tiles = (length + e.threads - 1) / e.threads;
  auto done = e.reduceLoop(
      word(0), word(tiles), {0, tiles - 1}, e.neutral(number, false),
      [&](const Index &tile, ValueRange before) -> Emitter::Carried {
        Value j = e.materialize(tile * e.threads + e.thread);
        Value safe = smaller(j, word(length - 1));
        Value exists = arith::CmpIOp::create(e.builder, a.loc,
                                             arith::CmpIPredicate::eq, j, safe);
        Index at = e.opaque(safe, {0, length - 1}, /*differs=*/true);
        auto x = e.pullAt(summed, positionOf(at));
        if (!x)
          return {};
        auto [earlier, all] =
            e.scan(a.select(exists, x->value, a.number(number, 0)));
        Value sum = a.add(before[0], earlier);
        e.when(exists, [&] {
          e.team() = Team();
          e.store(result, positionOf(at), {sum, false});
        });
        return {a.add(before[0], all)};
      });
  return done.has_value();
}

bool PartEmitter::emitCumsum(const Part &part) {
  unsigned result = part.results[0];
  auto op = values[result].getDefiningOp<CumsumOp>();
  llvm::ArrayRef<int64_t> shape = typeOf(op.getX()).getShape();
  int64_t length = shape[op.getDim()], inner = 1;
  for (int64_t size : shape.drop_front(op.getDim() + 1))
    inner *= size;
  Type number = e.typeOfNumbers(typeOf(op.getX()).getElementType());
  bool isDone = true;
  e.isFinal = true;
  forUnits(part, [&](const Index &unit) {
    forRows(part, unit, [&](const Index &line) {
      auto at = *e.space.divide(line, inner);
      auto positionOf = [&](const Index &j) {
        return (at.quotient * length + j) * inner + at.remainder;
      };
      if (e.isGpu() && part.owner == Part::Block)
        isDone &= emitCumsumLine(result, length, positionOf);
      else
        isDone &=
            e.reduceLoop(word(0), word(length), {0, length - 1},
                         e.neutral(number, false),
                         [&](const Index &j, ValueRange sum) {
                           auto x = e.pullAt(op.getX(), positionOf(j));
                           if (!x)
                             return Emitter::Carried();
                           e.store(result, positionOf(j), {sum[0], false});
                           return Emitter::Carried{a.add(sum[0], x->value)};
                         })
                .has_value();
    });
  });
  return isDone;
}
