//===- EmitReduces.cpp - elements of sums, maxima and contractions --------===//

#include "Emitter.h"
#include "Parts.h"

#include <utility>

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

using Result = std::optional<Element>;

/// `at` of a reduction's result with `inner` in the dimensions it lacks.
static Indices operandIndices(ReduceOp op, llvm::ArrayRef<Index> at,
                              llvm::ArrayRef<Index> inner) {
  Indices from;
  for (int64_t d = 0, rank = typeOf(op.getX()).getRank(); d < rank; ++d) {
    bool isReduced = llvm::is_contained(op.getDims(), d);
    from.push_back(isReduced ? inner.front() : at.front());
    if (isReduced)
      inner = inner.drop_front();
    else
      at = at.drop_front();
  }
  return from;
}

static llvm::SmallVector<int64_t> reducedShape(ReduceOp op) {
  llvm::SmallVector<int64_t> shape;
  for (int64_t d : op.getDims())
    shape.push_back(typeOf(op.getX()).getDimSize(d));
  return shape;
}

static int64_t product(llvm::ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

void Emitter::setTotal(const RowReduce &reduce, Value total) {
  ReduceOp op = reduce.op;
  std::vector<int64_t> key = {
      reinterpret_cast<int64_t>(op.getResult().getAsOpaquePointer()), 0};
  for (const Index &index : reduce.at)
    index.appendKey(key);
  scopes.back().known[key] = {total, false};
}

bool Emitter::tryReduceRows(llvm::ArrayRef<RowReduce> reduces, int64_t width) {
  int64_t count = product(reducedShape(reduces[0].op));
  llvm::SmallVector<Value> initial, roots;
  for (RowReduce reduce : reduces) {
    Type type = typeOfNumbers(elementOf(reduce.op.getX()));
    if (width > 1)
      type = arith.vector(type, width);
    initial.push_back(neutral(type, reduce.op.getKind() == ReduceKind::Max));
    roots.push_back(reduce.op.getX());
  }
  auto body = [&](const Index &column, ValueRange sums) {
    Carried next;
    for (auto [each, sum] : llvm::zip(reduces, sums)) {
      RowReduce reduce = each;
      bool isMax = reduce.op.getKind() == ReduceKind::Max;
      auto inner = space.delinearize(column, reducedShape(reduce.op));
      if (!inner)
        return Carried();
      Result element =
          pull(reduce.op.getX(), operandIndices(reduce.op, reduce.at, *inner));
      if (!element)
        return Carried();
      setInsertionPoint(depth());
      Value x = vectorOf(*element);
      if (space.activeLanes < lanes)
        x = arith.select(mask(), x, neutral(x.getType(), isMax));
      next.push_back(isMax ? arith.max(sum, x) : arith.add(sum, x));
    }
    return next;
  };
  auto sums =
      forVectors(count, width, splitsOf(roots, count, width), initial, body);
  if (!sums)
    return false;
  setInsertionPoint(depth());
  Carried totals;
  llvm::SmallVector<bool> isMax;
  for (auto [each, sum] : llvm::zip(reduces, *sums)) {
    isMax.push_back(RowReduce(each).op.getKind() == ReduceKind::Max);
    totals.push_back(width > 1 ? arith.reduceLanes(sum, isMax.back()) : sum);
  }
  totals = combine(totals, isMax);
  for (auto [reduce, total] : llvm::zip(reduces, totals))
    setTotal(reduce, total);
  return true;
}

bool Emitter::pickRows(llvm::ArrayRef<RowReduce> reduces) {
  for (const RowReduce &reduce : reduces) {
    Value total = emitPick(reduce);
    if (!total)
      return false;
    setTotal(reduce, total);
  }
  return true;
}

bool Emitter::atRows(llvm::ArrayRef<RowReduce> all,
                     llvm::function_ref<bool()> body) {
  unsigned place = 0;
  bool eachOwn = false; // Each thread has a row of its own.
  for (const RowReduce &reduce : all) {
    place = std::max(place, depthOf(reduce.at));
    eachOwn |= differs(reduce.at);
  }
  bool isDone = true;
  hoisted(place, [&] {
    Team together = team();
    if (eachOwn)
      team() = Team();
    isDone = body();
    team() = together;
  });
  return isDone;
}

bool Emitter::inWidths(int64_t count, llvm::function_ref<bool(int64_t)> body) {
  int64_t width = 1;
  while (width < maxLanes && width < count)
    width *= 2;
  for (; width >= 1; width /= 2)
    if (tryEmit([&] { return body(width); }))
      return true;
  return false;
}

bool Emitter::reduceRows(llvm::ArrayRef<RowReduce> all) {
  std::vector<RowReduce> reduces, picked;
  for (const RowReduce &reduce : all)
    (picks(reduce.op) ? picked : reduces).push_back(reduce);
  return atRows(all, [&] {
    // All threads read what is picked: before the sums' barrier, after which
    // one of them may write it.
    bool isDone = tryEmit([&] { return pickRows(picked); });
    if (isDone && reduces.empty())
      synchronize();
    else if (isDone)
      isDone = inWidths(product(reducedShape(reduces[0].op)),
                        [&](int64_t x) { return tryReduceRows(reduces, x); });
    return isDone;
  });
}

//===----------------------------------------------------------------------===//
// Sums of exponentials
//===----------------------------------------------------------------------===//

bool kerf::codegen::sumsExpBelow(ReduceOp sum, ReduceOp max) {
  auto exp = sum.getX().getDefiningOp<ExpOp>();
  auto sub = exp ? exp.getX().getDefiningOp<SubOp>() : SubOp();
  int64_t rank = typeOf(sum.getX()).getRank();
  if (!sub || !isView(sub.getRhs(), ViewKind::Repeat))
    return false;
  Operation *top = sub.getRhs().getDefiningOp();
  return sum.getKind() == ReduceKind::Sum && max.getKind() == ReduceKind::Max &&
         top->getOperand(0) == max.getResult() && sub.getLhs() == max.getX() &&
         elementOf(max.getX()).isF32() && sum.getDims() == max.getDims() &&
         sum.getDims().size() == 1 && sum.getDims()[0] == rank - 1 &&
         typeOf(max.getResult()).getRank() == rank - 1;
}

// Each thread has the maximum m of what it saw and the sum s of exp(x - m): a
// vector with a larger maximum turns s into s exp(m - larger). The team's
// threads then bring theirs to one maximum. Source: Milakov and Gimelshein
// 2018, "Online normalizer calculation for softmax".
bool Emitter::tryReduceExps(const RowReduce &max, const RowReduce &sum,
                            int64_t width) {
  ReduceOp op = max.op;
  int64_t count = product(reducedShape(op));
  Type type = typeOfNumbers(elementOf(op.getX()));
  // A finite one: with -inf the difference of two maxima would be undefined.
  Value lowest = arith.number(type, -std::numeric_limits<float>::max());
  auto joined = [&](Value value, bool isMax) {
    return width > 1 ? arith.reduceLanes(value, isMax) : value;
  };
  auto body = [&](const Index &column, ValueRange before) {
    auto inner = space.delinearize(column, reducedShape(op));
    Result element = inner ? pull(op.getX(), operandIndices(op, max.at, *inner))
                           : std::nullopt;
    if (!element || space.activeLanes < lanes)
      return Carried();
    setInsertionPoint(depth());
    Value x = vectorOf(*element);
    Value top = arith.max(before[0], joined(x, true));
    Value tops = width > 1 ? arith.splat(top, width) : top;
    Value more = joined(arith.exp(arith.sub(x, tops)), false);
    Value scale = arith.exp(arith.sub(before[0], top));
    return Carried{top, arith.add(arith.mul(before[1], scale), more)};
  };
  auto own = forVectors(count, width, splitsOf({op.getX()}, count, width),
                        {lowest, arith.number(type, 0)}, body);
  if (!own)
    return false;
  setInsertionPoint(depth());
  Value top = combine({(*own)[0]}, {true})[0];
  Value scale = arith.exp(arith.sub((*own)[0], top));
  Value total = combine({arith.mul((*own)[1], scale)}, {false})[0];
  setTotal(max, top);
  setTotal(sum, total);
  return true;
}

bool Emitter::reduceExps(const RowReduce &max, const RowReduce &sum,
                         llvm::ArrayRef<RowReduce> picked) {
  std::vector<RowReduce> all(picked);
  all.push_back(max);
  return atRows(all, [&] {
    return tryEmit([&] { return pickRows(picked); }) &&
           inWidths(product(reducedShape(max.op)), [&](int64_t width) {
             return tryReduceExps(max, sum, width);
           });
  });
}

//===----------------------------------------------------------------------===//
// One at a time
//===----------------------------------------------------------------------===//

Result Emitter::emitReduce(ReduceOp op, llvm::ArrayRef<Index> at) {
  bool isMax = op.getKind() == ReduceKind::Max;
  Type type = typeOfNumbers(elementOf(op.getX()));
  llvm::SmallVector<int64_t> shape = reducedShape(op);
  if (product(shape) == 0)
    return Element{neutral(type, isMax), false};
  if (!hasLanes(at) && reducesRows(op)) {
    if (!reduceRows(RowReduce{op, Indices(at)}))
      return std::nullopt;
    return pull(op.getResult(), at);
  }
  // Lanes run along dimensions that stay: one loop over the others.
  bool isVector = hasLanes(at);
  if (isVector)
    type = arith.vector(type, lanes);
  // Sums within this one are each warp's own.
  Team all = std::exchange(addends, Team());
  bool isShared = all.size > 1 && !isVector && !reducesRows(op);
  Value first = isShared ? materialize(all.rank) : arith.bits(arith.i64(), 0);
  auto sums = stepLoop(
      first, arith.bits(arith.i64(), product(shape)), isShared ? all.size : 1,
      {0, product(shape) - 1}, isShared ? Team() : team(), neutral(type, isMax),
      [&](const Index &position, ValueRange sum) -> Carried {
        auto inner = space.delinearize(position, shape);
        Result element = inner ? pull(op.getX(), operandIndices(op, at, *inner))
                               : std::nullopt;
        if (!element)
          return {};
        setInsertionPoint(depth());
        Value x = isVector ? vectorOf(*element) : element->value;
        return {isMax ? arith.max(sum[0], x) : arith.add(sum[0], x)};
      });
  addends = all;
  if (!sums)
    return std::nullopt;
  if (isShared)
    return Element{combineOverWarps(sums->front(), isMax), false};
  return Element{sums->front(), isVector};
}

Result Emitter::emitEinsum(EinsumOp op, llvm::ArrayRef<Index> at) {
  if (isFloat8(op.getLhs().getType()) || isFloat8(op.getRhs().getType()))
    return std::nullopt; // such are library calls, or widened before
  auto [terms, out] = op.getEquation().split("->");
  auto [lhs, rhs] = terms.split(',');
  std::string summed;
  llvm::SmallVector<int64_t> shape;
  for (auto [letter, size] : llvm::zip(lhs, typeOf(op.getLhs()).getShape()))
    if (!out.contains(letter)) {
      summed += letter;
      shape.push_back(size);
    }
  Type type = typeOfNumbers(elementOf(op.getResult()));
  bool isVector = hasLanes(at);
  if (isVector)
    type = arith.vector(type, lanes);
  if (product(shape) == 0)
    return Element{arith.number(type, 0), isVector};
  auto sums = reduceLoop(
      arith.bits(arith.i64(), 0), arith.bits(arith.i64(), product(shape)),
      {0, product(shape) - 1}, neutral(type, false),
      [&](const Index &position, ValueRange sum) -> Carried {
        auto inner = space.delinearize(position, shape);
        if (!inner)
          return {};
        auto indicesOf = [&](llvm::StringRef term) {
          Indices from;
          for (char letter : term) {
            size_t kept = out.find(letter);
            from.push_back(kept != llvm::StringRef::npos
                               ? at[kept]
                               : (*inner)[summed.find(letter)]);
          }
          return from;
        };
        Result a = pull(op.getLhs(), indicesOf(lhs));
        Result b = pull(op.getRhs(), indicesOf(rhs));
        if (!a || !b)
          return {};
        setInsertionPoint(depth());
        Type number = getElementTypeOrSelf(type);
        Value product = arith.mul(arith.cast(a->value, number),
                                  arith.cast(b->value, number));
        return {arith.add(sum[0], product)};
      });
  if (!sums)
    return std::nullopt;
  return Element{sums->front(), isVector};
}
