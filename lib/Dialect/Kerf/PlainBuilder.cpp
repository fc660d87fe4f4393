#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <algorithm>

using namespace mlir;
using namespace kerf;

llvm::SmallVector<int64_t> kerf::dimRange(int64_t first, int64_t last) {
  llvm::SmallVector<int64_t> dims;
  for (int64_t d = first; d < last; ++d)
    dims.push_back(d);
  return dims;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

#define KERF_BINARY(name, Op)                                                  \
  Value PlainBuilder::name(Value a, Value b) {                                 \
    return Op::create(builder, loc, a, b);                                     \
  }
KERF_BINARY(add, AddOp)
KERF_BINARY(sub, SubOp)
KERF_BINARY(mul, MulOp)
KERF_BINARY(div, DivOp)
KERF_BINARY(max, MaxOp)
KERF_BINARY(min, MinOp)
KERF_BINARY(pow, PowOp)
#undef KERF_BINARY

#define KERF_UNARY(name, Op)                                                   \
  Value PlainBuilder::name(Value x) { return Op::create(builder, loc, x); }
KERF_UNARY(neg, NegOp)
KERF_UNARY(exp, ExpOp)
KERF_UNARY(log, LogOp)
KERF_UNARY(sqrt, SqrtOp)
KERF_UNARY(rsqrt, RsqrtOp)
KERF_UNARY(tanh, TanhOp)
KERF_UNARY(erf, ErfOp)
KERF_UNARY(sin, SinOp)
KERF_UNARY(cos, CosOp)
KERF_UNARY(logistic, LogisticOp)
#undef KERF_UNARY

Value PlainBuilder::add(Value a, double b) {
  return add(a, constant(a.getType(), b));
}
Value PlainBuilder::sub(double a, Value b) {
  return sub(constant(b.getType(), a), b);
}
Value PlainBuilder::mul(Value a, double b) {
  return mul(a, constant(a.getType(), b));
}
Value PlainBuilder::div(double a, Value b) {
  return div(constant(b.getType(), a), b);
}
Value PlainBuilder::max(Value a, double b) {
  return max(a, constant(a.getType(), b));
}
Value PlainBuilder::min(Value a, double b) {
  return min(a, constant(a.getType(), b));
}

Value PlainBuilder::compare(CompareKind kind, Value a, Value b) {
  return CompareOp::create(builder, loc, kind, a, b);
}
Value PlainBuilder::compare(CompareKind kind, Value a, double b) {
  return compare(kind, a, constant(a.getType(), b));
}
Value PlainBuilder::select(Value condition, Value a, Value b) {
  return SelectOp::create(builder, loc, condition, a, b);
}
Value PlainBuilder::select(Value condition, Value a, double b) {
  return select(condition, a, constant(a.getType(), b));
}
Value PlainBuilder::indicator(Value condition, Type element) {
  return cast(condition, element);
}
Value PlainBuilder::logicalAnd(Value a, Value b) { return select(a, b, 0.0); }

//===----------------------------------------------------------------------===//
// Sources and types
//===----------------------------------------------------------------------===//

/// A number that the type does not hold exactly is a rounded f64 constant, so
/// that a computation in f64 has the number itself.
Value PlainBuilder::constant(Type type, double value) {
  Type element = mlir::cast<RankedTensorType>(type).getElementType();
  if (!isa<FloatType>(element) || roundToType(value, element, false) == value)
    return ConstantOp::create(builder, loc, type, value);
  Type wide = withElement(type, builder.getF64Type());
  return cast(ConstantOp::create(builder, loc, wide, value), element);
}

Value PlainBuilder::iota(llvm::ArrayRef<int64_t> shape, int64_t dim,
                         Value offset, ZigzagAttr zigzag) {
  auto type = RankedTensorType::get(shape, builder.getI32Type());
  return IotaOp::create(builder, loc, type, dim, offset,
                        zigzag ? zigzag.along({dim}) : ZigzagAttr());
}

Value PlainBuilder::chunks(llvm::ArrayRef<int64_t> shape, int64_t tokens,
                           Value documents) {
  Value at = iota(shape, 1);
  Value numbers = div(at, constant(at.getType(), double(tokens)));
  if (!documents)
    return numbers;
  double count = llvm::divideCeil(shape[1], tokens);
  return add(mul(documents, count), numbers);
}

Value PlainBuilder::cast(Value x, Type element) {
  if (typeOf(x).getElementType() == element)
    return x;
  return CastOp::create(builder, loc, withElement(x.getType(), element), x);
}

Value PlainBuilder::widen(Value x) {
  return cast(x, computeType(x.getType()).getElementType());
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

Value PlainBuilder::broadcast(Value x, llvm::ArrayRef<int64_t> dims,
                              llvm::ArrayRef<int64_t> shape) {
  if (typeOf(x).getShape() == shape)
    return x;
  return BroadcastOp::create(builder, loc, withShape(x.getType(), shape), x,
                             dims);
}

Value PlainBuilder::rows(Value x, llvm::ArrayRef<int64_t> shape) {
  return broadcast(x, dimRange(0, typeOf(x).getRank()), shape);
}

Value PlainBuilder::columns(Value x, llvm::ArrayRef<int64_t> shape) {
  int64_t rank = shape.size();
  return broadcast(x, dimRange(rank - typeOf(x).getRank(), rank), shape);
}

Value PlainBuilder::reshape(Value x, llvm::ArrayRef<int64_t> shape) {
  if (typeOf(x).getShape() == shape)
    return x;
  return ReshapeOp::create(builder, loc, withShape(x.getType(), shape), x);
}

Value PlainBuilder::transpose(Value x, llvm::ArrayRef<int64_t> perm) {
  return TransposeOp::create(builder, loc, x, perm);
}

Value PlainBuilder::slice(Value x, llvm::ArrayRef<int64_t> offsets,
                          llvm::ArrayRef<int64_t> sizes) {
  return SliceOp::create(builder, loc, x, offsets, sizes);
}

Value PlainBuilder::concat(int64_t dim, ValueRange inputs) {
  return ConcatOp::create(builder, loc, dim, inputs);
}

//===----------------------------------------------------------------------===//
// Combination
//===----------------------------------------------------------------------===//

Value PlainBuilder::reduce(ReduceKind kind, Value x,
                           llvm::ArrayRef<int64_t> dims) {
  if (dims.empty())
    return x;
  return ReduceOp::create(builder, loc, kind, x, dims);
}

Value PlainBuilder::sum(Value x, llvm::ArrayRef<int64_t> dims) {
  return reduce(ReduceKind::Sum, x, dims);
}

Value PlainBuilder::rowSum(Value x) { return sum(x, typeOf(x).getRank() - 1); }

Value PlainBuilder::rowMean(Value x) {
  return mul(rowSum(x), 1.0 / typeOf(x).getShape().back());
}

Value PlainBuilder::rowMax(Value x) {
  return reduce(ReduceKind::Max, x, typeOf(x).getRank() - 1);
}

Value PlainBuilder::sumAll(Value x) {
  return sum(x, dimRange(0, typeOf(x).getRank()));
}

Value PlainBuilder::einsum(llvm::StringRef equation, Value a, Value b,
                           Type element) {
  auto [terms, out] = equation.split("->");
  auto [lhs, rhs] = terms.split(',');
  llvm::SmallVector<int64_t> shape;
  for (char letter : out) {
    size_t at = lhs.find(letter);
    shape.push_back(at != llvm::StringRef::npos
                        ? typeOf(a).getDimSize(at)
                        : typeOf(b).getDimSize(rhs.find(letter)));
  }
  if (!element)
    element = typeOf(a).getElementType();
  return EinsumOp::create(builder, loc, RankedTensorType::get(shape, element),
                          equation, a, b);
}

Value PlainBuilder::gather(Value table, Value index) {
  return GatherOp::create(builder, loc, table, index);
}

Value PlainBuilder::scatterAdd(Value x, Value index, int64_t rows,
                               bool distinct) {
  llvm::SmallVector<int64_t> shape = {rows};
  llvm::append_range(shape,
                     typeOf(x).getShape().drop_front(typeOf(index).getRank()));
  return ScatterAddOp::create(builder, loc, withShape(x.getType(), shape), x,
                              index, distinct);
}
