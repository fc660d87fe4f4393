#include "FoldingBuilder.h"

#include "kerf/Dialect/Kerf/Constants.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

static bool isTruth(Value value) { return elementOf(value).isInteger(1); }
static bool isWhole(Value value) { return elementOf(value).isInteger(32); }

//===----------------------------------------------------------------------===//
// What is known
//===----------------------------------------------------------------------===//

static ConstantOp constantOf(Value value) {
  if (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getX();
  return value.getDefiningOp<ConstantOp>();
}

std::optional<double> FoldingBuilder::splatOf(Value value) {
  ConstantOp constant = constantOf(value);
  auto elements =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<llvm::APFloat>().convertToDouble();
  llvm::APInt number = elements.getSplatValue<llvm::APInt>();
  return elements.getElementType().isInteger(1)
             ? static_cast<double>(number.getZExtValue())
             : static_cast<double>(number.getSExtValue());
}

IntRange FoldingBuilder::rangeOf(Value value) const {
  if (!isWhole(value))
    return {};
  if (auto number = splatOf(value)) {
    auto whole = static_cast<int64_t>(*number);
    return {whole, whole};
  }
  auto it = ranges.find(value);
  return it == ranges.end() ? IntRange() : it->second;
}

bool FoldingBuilder::isExact(Value value, int64_t count) const {
  constexpr int64_t most = 1 << 24;
  if (!typeOf(value).getElementType().isInteger(32))
    return true;
  IntRange range = rangeOf(value);
  return std::max(-range.low, range.high) <= most / count;
}

bool FoldingBuilder::isNonNegative(Value value, int depth) {
  if (auto number = splatOf(value))
    return *number >= 0;
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (isa<ExpOp, SqrtOp, LogisticOp, SoftmaxOp>(op))
    return true;
  auto all = [&] {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return isNonNegative(operand, depth - 1);
    });
  };
  if (isa<MulOp>(op) && op->getOperand(0) == op->getOperand(1))
    return true;
  if (auto max = dyn_cast<MaxOp>(op))
    return isNonNegative(max.getLhs(), depth - 1) ||
           isNonNegative(max.getRhs(), depth - 1);
  return isa<AddOp, MulOp, DivOp, ReduceOp, BroadcastOp, ReshapeOp, TransposeOp,
             SliceOp, RsqrtOp>(op) &&
         all();
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

double FoldingBuilder::inRange(double value) {
  constexpr double most = std::numeric_limits<float>::max();
  return std::isfinite(value) ? std::clamp(value, -most, most) : value;
}

Value FoldingBuilder::splat(Shape shape, Type element, double value) {
  return plain.constant(type(shape, element),
                        element.isF32() ? inRange(value) : value);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value FoldingBuilder::foldNumbers(
    Value a, Value b, llvm::function_ref<double(double, double)> fold) {
  auto left = splatOf(a), right = splatOf(b);
  if (!left || !right)
    return {};
  double result = fold(*left, *right);
  if (isWhole(a) && !(std::abs(result) <= INT32_MAX))
    return {};
  return splat(shapeOf(a), elementOf(a),
               isWhole(a) ? std::trunc(result) : result);
}

/// A range without what i32 cannot hold.
static IntRange clampRange(int64_t low, int64_t high) {
  if (low < INT32_MIN || high > INT32_MAX)
    return {};
  return {low, high};
}

Value FoldingBuilder::add(Value a, Value b) {
  if (Value known = foldNumbers(a, b, std::plus<double>()))
    return known;
  if (splatOf(a) == 0.0)
    return b;
  if (splatOf(b) == 0.0)
    return a;
  Value sum = plain.add(a, b);
  IntRange x = rangeOf(a), y = rangeOf(b);
  return isWhole(a) ? withRange(sum, clampRange(x.low + y.low, x.high + y.high))
                    : sum;
}

Value FoldingBuilder::sub(Value a, Value b) {
  if (Value known = foldNumbers(a, b, std::minus<double>()))
    return known;
  if (splatOf(b) == 0.0)
    return a;
  Value difference = plain.sub(a, b);
  IntRange x = rangeOf(a), y = rangeOf(b);
  return isWhole(a)
             ? withRange(difference, clampRange(x.low - y.high, x.high - y.low))
             : difference;
}

Value FoldingBuilder::mul(Value a, Value b) {
  if (Value known = foldNumbers(a, b, std::multiplies<double>()))
    return known;
  if (splatOf(a) == 1.0)
    return b;
  if (splatOf(b) == 1.0)
    return a;
  Value product = plain.mul(a, b);
  IntRange x = rangeOf(a), y = rangeOf(b);
  bool isPositive = isWhole(a) && x.low >= 0 && y.low >= 0;
  return isPositive
             ? withRange(product, clampRange(x.low * y.low, x.high * y.high))
             : product;
}

Value FoldingBuilder::div(Value a, Value b) {
  if (splatOf(b) != 0.0)
    if (Value known = foldNumbers(a, b, std::divides<double>()))
      return known;
  if (splatOf(b) == 1.0)
    return a;
  return plain.div(a, b);
}

Value FoldingBuilder::max(Value a, Value b) {
  if (Value known =
          foldNumbers(a, b, [](double x, double y) { return std::max(x, y); }))
    return known;
  for (auto [x, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (splatOf(other) == -INFINITY)
      return x;
    if (isWhole(x) && rangeOf(x).low >= rangeOf(other).high)
      return x;
    if (!isWhole(x) && splatOf(other) == 0.0 && isNonNegative(x))
      return x;
  }
  IntRange x = rangeOf(a), y = rangeOf(b);
  Value larger = plain.max(a, b);
  return isWhole(a) ? withRange(larger, {std::max(x.low, y.low),
                                         std::max(x.high, y.high)})
                    : larger;
}

Value FoldingBuilder::min(Value a, Value b) {
  if (Value known =
          foldNumbers(a, b, [](double x, double y) { return std::min(x, y); }))
    return known;
  for (auto [x, other] : {std::pair(a, b), std::pair(b, a)})
    if (splatOf(other) == INFINITY ||
        (isWhole(x) && rangeOf(x).high <= rangeOf(other).low))
      return x;
  IntRange x = rangeOf(a), y = rangeOf(b);
  Value smaller = plain.min(a, b);
  return isWhole(a) ? withRange(smaller, {std::min(x.low, y.low),
                                          std::min(x.high, y.high)})
                    : smaller;
}

Value FoldingBuilder::neg(Value x) {
  if (auto number = splatOf(x))
    return splat(shapeOf(x), elementOf(x), -*number);
  if (isWhole(x))
    return sub(splat(shapeOf(x), i32(), 0), x);
  if (auto inner = x.getDefiningOp<NegOp>())
    return inner.getOperand();
  if (auto product = x.getDefiningOp<MulOp>())
    if (auto inner = product.getLhs().getDefiningOp<NegOp>())
      return mul(inner.getOperand(), product.getRhs());
  return plain.neg(x);
}

Value FoldingBuilder::logOnePlus(Value x) {
  // What the rounding of 1 + x takes from x is (x - (1 + x - 1)) / (1 + x).
  Value ones = splat(shapeOf(x), f32(), 1), y = plain.add(x, ones);
  Value lost = plain.sub(x, plain.sub(y, ones));
  return plain.add(plain.log(y), plain.div(lost, y));
}

Value FoldingBuilder::expMinusOne(Value x) {
  // 2 t / (1 - t) with t = tanh(x / 2), for a small x.
  Value bound = splat(shapeOf(x), f32(), 0.5);
  Value least = splat(shapeOf(x), f32(), -0.5);
  Value small = plain.min(bound, plain.max(least, x));
  Value t = plain.tanh(plain.mul(small, 0.5));
  Value ones = splat(shapeOf(x), f32(), 1);
  Value precise = plain.div(plain.mul(t, 2.0), plain.sub(ones, t));
  return plain.select(plain.compare(CompareKind::EQ, x, small), precise,
                      plain.sub(plain.exp(x), ones));
}

Value FoldingBuilder::abs(Value x) {
  if (isNonNegative(x) || (isWhole(x) && rangeOf(x).low >= 0))
    return x;
  return max(x, neg(x));
}

/// What the ranges of two integers say of a comparison.
static std::optional<bool> comparedRanges(CompareKind kind, IntRange a,
                                          IntRange b) {
  bool isBelow = a.high<b.low, isAbove = a.low> b.high;
  bool isSame = a.low == a.high && b.low == b.high && a.low == b.low;
  auto known = [](bool yes, bool no) {
    return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt;
  };
  switch (kind) {
  case CompareKind::EQ:
    return known(isSame, isBelow || isAbove);
  case CompareKind::NE:
    return known(isBelow || isAbove, isSame);
  case CompareKind::LT:
    return known(isBelow, a.low >= b.high);
  case CompareKind::LE:
    return known(a.high <= b.low, isAbove);
  case CompareKind::GT:
    return known(isAbove, a.high <= b.low);
  case CompareKind::GE:
    return known(a.low >= b.high, isBelow);
  }
  llvm_unreachable("a kind of comparison without a case");
}

/// The truth values of which `value` is 1 and 0; null else.
static Value truthBehind(Value value) {
  auto cast = value.getDefiningOp<CastOp>();
  return cast && isTruth(cast.getX()) ? cast.getX() : Value();
}

Value FoldingBuilder::compare(CompareKind kind, Value a, Value b) {
  if (isTruth(a)) { // eq and ne alone mean something
    Value isEither = select(a, negation(b), b);
    return kind == CompareKind::EQ ? negation(isEither) : isEither;
  }
  if (auto x = splatOf(a), y = splatOf(b); x && y && !isWhole(a))
    return truth(shapeOf(a), holds(kind, *x, *y));
  if (isWhole(a))
    if (auto known = comparedRanges(kind, rangeOf(a), rangeOf(b)))
      return truth(shapeOf(a), *known);
  if (Value behind = truthBehind(a); behind && splatOf(b) == 0.0) {
    if (kind == CompareKind::NE || kind == CompareKind::GT)
      return behind;
    if (kind == CompareKind::EQ)
      return negation(behind);
  }
  return plain.compare(kind, a, b);
}

/// Whether a condition says that the sign of x, which is not negative, is not
/// 1: true of 0 alone.
static bool isSignCheck(Value condition, Value x) {
  auto compare = condition.getDefiningOp<CompareOp>();
  auto sign = compare ? compare.getLhs().getDefiningOp<SelectOp>() : nullptr;
  auto above = sign ? sign.getCondition().getDefiningOp<CompareOp>() : nullptr;
  auto splat = FoldingBuilder::splatOf;
  return above && compare.getKind() == CompareKind::NE &&
         splat(compare.getRhs()) == 1.0 && splat(sign.getOnTrue()) == 1.0 &&
         splat(sign.getOnFalse()) == 0.0 && above.getLhs() == x &&
         above.getKind() == CompareKind::GT && splat(above.getRhs()) == 0.0;
}

/// Whether `condition ? quotient - 1 : quotient` is the quotient of x, as
/// jnp.floor_divide rounds it: signs differ and a rest is left. Of an x that is
/// not negative and a divisor above 0 none has both.
static bool isFloorOf(Value condition, Value lower, Value quotient,
                      llvm::function_ref<IntRange(Value)> rangeOf) {
  auto div = quotient.getDefiningOp<DivOp>();
  auto sub = lower.getDefiningOp<SubOp>();
  auto both = condition.getDefiningOp<SelectOp>();
  auto rest = both ? both.getOnTrue().getDefiningOp<CompareOp>() : nullptr;
  auto left = rest ? rest.getLhs().getDefiningOp<SubOp>() : nullptr;
  auto product = left ? left.getRhs().getDefiningOp<MulOp>() : nullptr;
  auto again = product ? product.getLhs().getDefiningOp<DivOp>() : nullptr;
  if (!div || !sub || !again || rangeOf(div.getLhs()).low < 0)
    return false;
  auto splat = FoldingBuilder::splatOf;
  auto divisor = splat(div.getRhs());
  return divisor && *divisor > 0 && again.getLhs() == div.getLhs() &&
         splat(again.getRhs()) == divisor &&
         splat(product.getRhs()) == divisor && left.getLhs() == div.getLhs() &&
         sub.getLhs() == quotient && splat(sub.getRhs()) == 1.0 &&
         splat(both.getOnFalse()) == 0.0 && rest.getKind() == CompareKind::NE &&
         splat(rest.getRhs()) == 0.0 &&
         isSignCheck(both.getCondition(), div.getLhs());
}

Value FoldingBuilder::select(Value condition, Value a, Value b) {
  if (auto known = splatOf(condition))
    return *known != 0 ? a : b;
  if (isWhole(b) &&
      isFloorOf(condition, a, b, [&](Value x) { return rangeOf(x); }))
    return b;
  if (a == b)
    return a;
  if (isTruth(a) && splatOf(a) == 1.0 && splatOf(b) == 0.0)
    return condition;
  Value chosen = plain.select(condition, a, b);
  IntRange x = rangeOf(a), y = rangeOf(b);
  return isWhole(a) ? withRange(chosen, {std::min(x.low, y.low),
                                         std::max(x.high, y.high)})
                    : chosen;
}

Value FoldingBuilder::both(Value a, Value b) {
  for (auto [x, other] : {std::pair(a, b), std::pair(b, a)})
    if (auto known = splatOf(other))
      return *known != 0 ? x : other;
  return select(a, b, truth(shapeOf(a), false));
}

Value FoldingBuilder::either(Value a, Value b) {
  for (auto [x, other] : {std::pair(a, b), std::pair(b, a)})
    if (auto known = splatOf(other))
      return *known != 0 ? other : x;
  return select(a, truth(shapeOf(a), true), b);
}

Value FoldingBuilder::negation(Value a) {
  if (auto known = splatOf(a))
    return truth(shapeOf(a), *known == 0);
  return select(a, truth(shapeOf(a), false), truth(shapeOf(a), true));
}

Value FoldingBuilder::cast(Value x, Type element) {
  if (elementOf(x) == element)
    return x;
  auto number = splatOf(x);
  // Not of floats that were worked out wider than they are.
  bool isHeld =
      number &&
      (element != i32() || isTruth(x) ||
       (std::abs(*number) <= INT32_MAX && *number == std::round(*number)));
  if (isHeld) {
    double value = element == i1()    ? *number != 0
                   : element == i32() ? std::trunc(*number)
                                      : *number;
    return splat(shapeOf(x), element, value);
  }
  Value made = plain.cast(x, element);
  if (element == i32() && isTruth(x))
    return withRange(made, {0, 1});
  return made;
}

/// True where a parameter that is trained makes the value.
static bool isTrained(Value value) {
  llvm::SmallVector<Value> left = {value};
  llvm::DenseSet<Value> seen;
  while (!left.empty()) {
    Operation *op = left.pop_back_val().getDefiningOp();
    if (auto param = dyn_cast_or_null<ParamOp>(op); param && !param.getFrozen())
      return true;
    for (Value operand : op ? op->getOperands() : ValueRange())
      if (seen.insert(operand).second)
        left.push_back(operand);
  }
  return false;
}

Value FoldingBuilder::stopGradient(Value x) {
  if (!isa<FloatType>(elementOf(x)) || !isTrained(x))
    return x;
  return StopGradientOp::create(plain.builder, plain.loc, x);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

Value FoldingBuilder::iota(Shape shape, int64_t dim) {
  if (shape[dim] == 1)
    return splat(shape, i32(), 0);
  return withRange(plain.iota(shape, dim), {0, shape[dim] - 1});
}

Value FoldingBuilder::reshape(Value x, Shape shape) {
  if (shapeOf(x) == shape)
    return x;
  if (auto number = splatOf(x))
    return splat(shape, elementOf(x), *number);
  return view(x, plain.reshape(x, shape));
}

Value FoldingBuilder::transpose(Value x, llvm::ArrayRef<int64_t> perm) {
  if (llvm::equal(perm, dimRange(0, perm.size())))
    return x;
  llvm::SmallVector<int64_t> shape;
  for (int64_t d : perm)
    shape.push_back(shapeOf(x)[d]);
  if (auto number = splatOf(x))
    return splat(shape, elementOf(x), *number);
  return view(x, plain.transpose(x, perm));
}

Value FoldingBuilder::broadcast(Value x, llvm::ArrayRef<int64_t> dims,
                                Shape shape) {
  if (auto number = splatOf(x))
    return splat(shape, elementOf(x), *number);
  // Dimensions that stay, in the order of the result.
  llvm::SmallVector<std::pair<int64_t, int64_t>> kept;
  for (auto [d, to] : llvm::enumerate(dims))
    if (shapeOf(x)[d] != 1)
      kept.push_back({to, d});
  llvm::SmallVector<int64_t> narrow, order;
  for (auto [to, d] : kept)
    narrow.push_back(shapeOf(x)[d]);
  Value y = reshape(x, narrow);
  for (size_t i = 0; i < kept.size(); ++i)
    order.push_back(i);
  llvm::sort(order, [&](int64_t a, int64_t b) {
    return kept[a].first < kept[b].first;
  });
  y = transpose(y, order);
  llvm::sort(kept);
  // Without the dimensions of size 1, which are put in at last.
  llvm::SmallVector<int64_t> core, places;
  size_t next = 0;
  for (auto [d, size] : llvm::enumerate(shape)) {
    if (next < kept.size() && kept[next].first == static_cast<int64_t>(d)) {
      places.push_back(core.size());
      ++next;
    }
    if (size != 1)
      core.push_back(size);
  }
  if (shapeOf(y) != llvm::ArrayRef(core))
    y = view(y, plain.broadcast(y, places, core));
  return reshape(y, shape);
}

Value FoldingBuilder::slice(Value x, Shape offsets, Shape sizes) {
  if (shapeOf(x) == sizes)
    return x;
  if (auto number = splatOf(x))
    return splat(sizes, elementOf(x), *number);
  return view(x, plain.slice(x, offsets, sizes));
}

Value FoldingBuilder::concat(int64_t dim, llvm::ArrayRef<Value> parts) {
  llvm::SmallVector<Value> filled;
  for (Value part : parts)
    if (shapeOf(part)[dim] != 0)
      filled.push_back(part);
  if (filled.empty())
    return parts.front();
  if (filled.size() == 1)
    return filled.front();
  IntRange all = rangeOf(filled.front());
  for (Value part : filled) {
    IntRange range = rangeOf(part);
    all = {std::min(all.low, range.low), std::max(all.high, range.high)};
  }
  Value whole = plain.concat(dim, filled);
  return isWhole(whole) ? withRange(whole, all) : whole;
}

Value FoldingBuilder::pad(Value x, llvm::ArrayRef<int64_t> low,
                          llvm::ArrayRef<int64_t> high) {
  auto isZero = [](int64_t n) { return n == 0; };
  if (llvm::all_of(low, isZero) && llvm::all_of(high, isZero))
    return x;
  if (isTruth(x)) {
    Value padded = pad(cast(x, f32()), low, high);
    return compare(CompareKind::NE, padded, splat(shapeOf(padded), f32(), 0));
  }
  return PadOp::create(plain.builder, plain.loc, x, low, high).getResult();
}

Value FoldingBuilder::sum(Value x, llvm::ArrayRef<int64_t> dims) {
  return dims.empty() ? x : plain.reduce(ReduceKind::Sum, x, dims);
}

Value FoldingBuilder::largest(Value x, llvm::ArrayRef<int64_t> dims) {
  return dims.empty() ? x : plain.reduce(ReduceKind::Max, x, dims);
}

Value FoldingBuilder::chosen(Value index, int64_t size) {
  llvm::SmallVector<int64_t> shape(shapeOf(index));
  llvm::SmallVector<int64_t> dims = dimRange(0, shape.size());
  shape.push_back(size);
  return compare(CompareKind::EQ, broadcast(index, dims, shape),
                 iota(shape, shape.size() - 1));
}
