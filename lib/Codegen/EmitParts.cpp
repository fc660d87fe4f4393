//===- EmitParts.cpp - loop nests of the parts of a kernel ----------------===//

#include "Emitter.h"
#include "Parts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

namespace LLVM = mlir::LLVM;

namespace {
/// Emits the parts of one kernel.
class PartEmitter {
public:
  PartEmitter(Emitter &e, exec::KernelOp kernel)
      : e(e), a(e.arith), values(kernel.getYield().getValues()) {}

  bool emit(const Part &part, int64_t firstUnit, bool isOnly);

private:
  bool emitFlat(const Part &part);
  bool emitFlatBlock(const Part &part, const Index &unit, int64_t lanes);
  bool emitRows(const Part &part);
  bool emitRow(const Part &part, const Index &row, Value isFirst,
               const Index &unit);
  bool emitRowReduces(const Part &part, const Index &row);
  bool emitColumns(llvm::ArrayRef<unsigned> results, int64_t columns,
                   const Index &row, Value isFirst, const Index &unit);
  bool emitTopK(const Part &part);
  bool emitTopKRow(TopKOp op, const Part &part, const Index &row);
  bool emitScatter(const Part &part);
  bool emitScatterRows(const ScatterRoot &root, unsigned result,
                       const Index &unit, const Part &part, int64_t lanes);
  bool emitCumsum(const Part &part);

  /// Stores `results` at a position that all of them count the same way.
  bool storeAll(llvm::ArrayRef<unsigned> results, const Index &position);
  Value word(int64_t number) { return a.bits(a.i64(), number); }
  Value smaller(Value x, Value y) {
    return arith::MinSIOp::create(e.builder, a.loc, x, y);
  }
  /// Widths to try: the largest first.
  llvm::SmallVector<int64_t> widths(int64_t count);

  /// The unit range of the part that is being emitted.
  Value begin, end;
  Emitter &e;
  Arith &a;
  OperandRange values;
};
} // namespace

static exec::PartialReduceOp partialOf(Value value) {
  return value.getDefiningOp<exec::PartialReduceOp>();
}

/// What is computed for each element: of a partial sum, its operand.
static Value elementsOf(Value value) {
  auto partial = partialOf(value);
  return partial ? partial.getX() : value;
}

llvm::SmallVector<int64_t> PartEmitter::widths(int64_t count) {
  int64_t width = 1;
  while (width < e.maxLanes && width < count)
    width *= 2;
  llvm::SmallVector<int64_t> all;
  for (; width >= 1; width /= 2)
    all.push_back(width);
  return all;
}

bool PartEmitter::storeAll(llvm::ArrayRef<unsigned> results,
                           const Index &position) {
  llvm::SmallVector<Element> elements;
  for (unsigned result : results) {
    auto element = e.pullAt(values[result], position);
    if (!element)
      return false;
    elements.push_back(*element);
  }
  // All reads come before all writes: buffers may be shared.
  for (auto [result, element] : llvm::zip(results, elements))
    e.store(result, position, element);
  return true;
}

//===----------------------------------------------------------------------===//
// Elements in blocks
//===----------------------------------------------------------------------===//

bool PartEmitter::emitFlatBlock(const Part &part, const Index &unit,
                                int64_t lanes) {
  llvm::SmallVector<unsigned> plain, partial;
  for (unsigned result : part.results)
    (partialOf(values[result]) ? partial : plain).push_back(result);
  llvm::SmallVector<Value> sums;
  llvm::SmallVector<bool> isMax;
  for (unsigned result : partial) {
    auto op = partialOf(values[result]);
    Type type = e.typeOfNumbers(typeOf(op.getX()).getElementType());
    isMax.push_back(op.getKind() == ReduceKind::Max);
    sums.push_back(
        e.neutral(lanes > 1 ? a.vector(type, lanes) : type, isMax.back()));
  }
  int64_t vectors = part.count / lanes, perUnit = part.chunk / lanes;
  auto combine = [&](const Index &position, ValueRange before, Value counts) {
    Emitter::Carried next;
    for (auto [i, result] : llvm::enumerate(partial)) {
      auto x = e.pullAt(elementsOf(values[result]), position);
      if (!x)
        return Emitter::Carried();
      Value v = e.vectorOf(*x), none = e.neutral(v.getType(), isMax[i]);
      if (e.space.activeLanes < e.lanes)
        v = a.select(e.mask(), v, none);
      if (counts)
        v = a.select(counts, v, none);
      next.push_back(isMax[i] ? a.max(before[i], v) : a.add(before[i], v));
    }
    return next;
  };
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
                                   isDone &= storeAll(plain, position);
                                   next = combine(position, before, Value());
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
    if (!plain.empty())
      e.when(isLast, [&] {
        e.withLanes(lanes, tail, [&] { isDone &= storeAll(plain, position); });
      });
    Emitter::Carried next;
    e.withLanes(lanes, tail, [&] { next = combine(position, sums, isLast); });
    if (next.size() != sums.size())
      return false;
    sums = next;
  }
  for (auto [i, result] : llvm::enumerate(partial)) {
    Value total = lanes > 1 ? a.reduceLanes(sums[i], isMax[i]) : sums[i];
    e.store(result, unit, {total, false});
  }
  return isDone;
}

bool PartEmitter::emitFlat(const Part &part) {
  bool isDone = false;
  e.isFinal = true;
  for (int64_t lanes : widths(part.count)) {
    if (part.chunk % lanes != 0)
      continue;
    isDone = e.tryEmit([&] {
      bool inner = true;
      e.loop(begin, end, {0, part.units() - 1}, [&](const Index &unit) {
        inner = emitFlatBlock(part, unit, lanes);
      });
      return inner;
    });
    if (isDone)
      break;
  }
  return isDone;
}

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
  for (auto &[key, together] : loops)
    if (!e.reduceRows(together))
      return false;
  return true;
}

/// Columns at which pieces of rows begin.
static llvm::SmallVector<int64_t> cutsOf(llvm::ArrayRef<Value> roots,
                                         int64_t columns) {
  llvm::SmallPtrSet<Operation *, 32> seen;
  llvm::SmallVector<Value> open(roots);
  llvm::SmallVector<int64_t> cuts;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    llvm::append_range(open, op->getOperands());
    int64_t rank = typeOf(op->getResult(0)).getRank();
    if (rank == 0 || typeOf(op->getResult(0)).getShape().back() != columns)
      continue;
    if (auto pad = dyn_cast<PadOp>(op)) {
      cuts.push_back(pad.getLow().back());
      cuts.push_back(columns - pad.getHigh().back());
    }
    int64_t begin = 0;
    if (auto concat = dyn_cast<ConcatOp>(op))
      if (concat.getDim() == rank - 1)
        for (Value input : concat.getInputs())
          cuts.push_back(begin += typeOf(input).getShape().back());
  }
  llvm::sort(cuts);
  cuts.erase(llvm::unique(cuts), cuts.end());
  llvm::erase_if(cuts, [&](int64_t cut) { return cut <= 0 || cut >= columns; });
  constexpr size_t limit = 8; // Each piece has code of its own.
  if (cuts.size() > limit)
    cuts.clear();
  return cuts;
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
  llvm::SmallVector<int64_t> cuts = cutsOf(roots, columns);
  for (int64_t lanes : widths(columns)) {
    bool isDone = e.tryEmit([&] {
      bool inner = true;
      e.forVectors(columns, lanes, cuts, {},
                   [&](const Index &column, ValueRange) {
                     inner = inner && body(column);
                     return Emitter::Carried();
                   });
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
  bool isDone = true;
  e.loop(begin, end, {0, part.units() - 1}, [&](const Index &unit) {
    if (!part.isPartial) {
      isDone = emitRow(part, unit, Value(), unit);
      return;
    }
    Value first = e.materialize(unit * part.chunk);
    Value last = smaller(a.add(first, word(part.chunk)), word(part.count));
    e.loop(first, last, {0, part.count - 1}, [&](const Index &row) {
      Value isFirst =
          arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::eq,
                                e.materialize(row), first);
      isDone = emitRow(part, row, isFirst, unit);
    });
  });
  return isDone;
}

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
    auto result = e.reduceLoop(
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
  e.loop(begin, end, {0, part.units() - 1},
         [&](const Index &row) { isDone = emitTopKRow(op, part, row); });
  return isDone;
}

//===----------------------------------------------------------------------===//
// Rows added into a table
//===----------------------------------------------------------------------===//

// A unit owns some rows of the table: it fills them, then looks through all
// indices for its own. Sums are taken in the order of the indices.
bool PartEmitter::emitScatterRows(const ScatterRoot &root, unsigned result,
                                  const Index &unit, const Part &part,
                                  int64_t lanes) {
  ScatterAddOp op = root.scatter;
  auto index = typeOf(op.getIndex());
  int64_t tokens = index.getNumElements();
  int64_t columns = typeOf(op.getResult()).getNumElements() / part.count;
  Value first = e.materialize(unit * part.chunk);
  Value last = smaller(a.add(first, word(part.chunk)), word(part.count));
  bool isDone = true;
  e.loop(first, last, {0, part.count - 1}, [&](const Index &row) {
    e.forVectors(columns, lanes, {}, {}, [&](const Index &column, ValueRange) {
      Index position = row * columns + column;
      Type number = e.typeOfNumbers(typeOf(op.getX()).getElementType());
      std::optional<Element> x = Element{a.number(number, 0), false};
      if (root.other)
        x = e.pullAt(root.other, position);
      if (x)
        e.store(result, position, *x);
      isDone &= x.has_value();
      return Emitter::Carried();
    });
  });
  if (tokens == 0 || !isDone)
    return isDone;
  e.loop(word(0), word(tokens), {0, tokens - 1}, [&](const Index &token) {
    auto id = e.pullAt(op.getIndex(), token);
    if (!id)
      return void(isDone = false);
    Value row = arith::ExtSIOp::create(e.builder, a.loc, a.i64(), id->value);
    Value isMine = arith::AndIOp::create(
        e.builder, a.loc,
        arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::sge, row,
                              first),
        arith::CmpIOp::create(e.builder, a.loc, arith::CmpIPredicate::slt, row,
                              last));
    e.when(isMine, [&] {
      Index to = e.opaque(row, {0, part.count - 1});
      e.forVectors(
          columns, lanes, {}, {}, [&](const Index &column, ValueRange) {
            auto x = e.pullAt(op.getX(), token * columns + column);
            if (!x)
              return isDone = false, Emitter::Carried();
            Index position = to * columns + column;
            Value sum = a.add(e.load(result, position).value, x->value);
            e.store(result, position, {sum, column.lane != 0});
            return Emitter::Carried();
          });
    });
  });
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
      e.loop(begin, end, {0, part.units() - 1}, [&](const Index &unit) {
        inner = emitScatterRows(root, result, unit, part, lanes);
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
  e.loop(begin, end, {0, part.units() - 1}, [&](const Index &unit) {
    Value first = e.materialize(unit * part.chunk);
    Value last = smaller(a.add(first, word(part.chunk)), word(part.count));
    e.loop(first, last, {0, part.count - 1}, [&](const Index &line) {
      auto at = e.space.divide(line, inner);
      e.reduceLoop(word(0), word(length), {0, length - 1},
                   e.neutral(number, false),
                   [&](const Index &j, ValueRange sum) -> Emitter::Carried {
                     Index position =
                         (at->quotient * length + j) * inner + at->remainder;
                     auto x = e.pullAt(op.getX(), position);
                     isDone &= x.has_value();
                     if (!x)
                       return {};
                     e.store(result, position, {sum[0], false});
                     return {a.add(sum[0], x->value)};
                   });
    });
  });
  return isDone;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

bool PartEmitter::emit(const Part &part, int64_t firstUnit, bool isOnly) {
  begin = e.begin;
  end = e.end;
  if (!isOnly) {
    Value low = word(firstUnit), high = word(firstUnit + part.units());
    begin = a.sub(a.max(begin, low), low);
    end = a.sub(smaller(end, high), low);
  }
  switch (part.kind) {
  case Part::Flat:
    return emitFlat(part);
  case Part::Rows:
    return emitRows(part);
  case Part::TopK:
    return emitTopK(part);
  case Part::ScatterAdd:
    return emitScatter(part);
  case Part::Cumsum:
    return emitCumsum(part);
  }
  llvm_unreachable("covered switch");
}

/// Whether every read of an argument that a result overwrites comes before the
/// write of its element: in the same iteration, or earlier in the same row.
static bool overwritesSafely(Emitter &e, const std::vector<Part> &parts,
                             unsigned result, int64_t argument) {
  int64_t part = -1;
  for (auto [i, candidate] : llvm::enumerate(parts))
    if (llvm::is_contained(candidate.results, result))
      part = i;
  auto isSafe = [&](const Emitter::Access &read) {
    bool isSame = llvm::any_of(e.writes, [&](const Emitter::Access &write) {
      return write.number == result && write.position == read.position &&
             write.activeLanes == read.activeLanes;
    });
    if (read.part != part)
      return false;
    if (isSame)
      return true;
    if (read.isFinal || parts[part].kind != Part::Rows)
      return false;
    // An earlier loop over the same row.
    int64_t columns =
        typeOf(e.kernel.getYield().getValues()[result]).getNumElements() /
        parts[part].count;
    auto rowOf = [&](const Emitter::Access &access) {
      e.space.activeLanes = access.activeLanes;
      auto division = e.space.divide(access.position, columns);
      return division ? division->quotient : Index(-1);
    };
    Index row = rowOf(read);
    return llvm::any_of(e.writes, [&](const Emitter::Access &write) {
      return write.number == result && rowOf(write) == row;
    });
  };
  return llvm::all_of(e.reads, [&](const Emitter::Access &read) {
    return read.number != argument || isSafe(read);
  });
}

std::optional<std::string>
kerf::codegen::emitKernel(exec::KernelOp kernel, ModuleOp module,
                          llvm::StringRef symbol, const CodeOptions &options) {
  Emitter e(kernel, module, symbol, options);
  PartEmitter emitter(e, kernel);
  std::vector<Part> parts = partsOf(kernel);
  int64_t unit = 0;
  for (auto [i, part] : llvm::enumerate(parts)) {
    e.part = i;
    if (!emitter.emit(part, unit, parts.size() == 1)) {
      std::string message = "cannot be computed by one launch: split it first";
      if (e.obstacle)
        message += "; the result of '" +
                   e.obstacle->getName().getStringRef().str() +
                   "' is needed by another op";
      return message;
    }
    unit += part.units();
  }
  LLVM::ReturnOp::create(e.builder, e.arith.loc, ValueRange());
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i) {
    int64_t argument = kernel.getInplaceArgument(i);
    if (argument >= 0 && !overwritesSafely(e, parts, i, argument))
      return "result " + std::to_string(i) + " cannot overwrite argument " +
             std::to_string(argument) +
             ": other elements of it are read after the write";
  }
  return std::nullopt;
}
