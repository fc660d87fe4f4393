#include "Views.h"

#include "kerf/Dialect/Kerf/Constants.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

Seen Seen::operand(unsigned index) const {
  return {value.getDefiningOp()->getOperand(index), dims};
}

std::optional<llvm::SmallVector<int64_t>>
kerf::dimsOfUnitReshape(ReshapeOp op) {
  llvm::ArrayRef<int64_t> from = typeOf(op.getX()).getShape();
  llvm::ArrayRef<int64_t> to = typeOf(op.getResult()).getShape();
  llvm::SmallVector<int64_t> operandOf(to.size(), -1);
  size_t f = 0;
  for (size_t t = 0; t < to.size(); ++t) {
    if (to[t] == 1)
      continue;
    while (f < from.size() && from[f] == 1)
      ++f;
    if (f == from.size() || from[f] != to[t])
      return std::nullopt;
    operandOf[t] = f++;
  }
  for (; f < from.size(); ++f)
    if (from[f] != 1)
      return std::nullopt;
  return operandOf;
}

/// One op further, or false.
static bool stepThrough(Seen &seen) {
  if (auto broadcast = seen.op<BroadcastOp>()) {
    llvm::SmallVector<int64_t> dims;
    for (int64_t d : broadcast.getDims())
      dims.push_back(seen.dims[d]);
    seen = {broadcast.getX(), dims};
    return true;
  }
  if (auto transpose = seen.op<TransposeOp>()) {
    llvm::SmallVector<int64_t> dims(seen.dims.size());
    for (auto [to, from] : llvm::enumerate(transpose.getPerm()))
      dims[from] = seen.dims[to];
    seen = {transpose.getX(), dims};
    return true;
  }
  auto reshape = seen.op<ReshapeOp>();
  auto operandOf = reshape ? dimsOfUnitReshape(reshape) : std::nullopt;
  if (!operandOf)
    return false;
  llvm::SmallVector<int64_t> dims(typeOf(reshape.getX()).getRank(), -1);
  for (auto [to, from] : llvm::enumerate(*operandOf))
    if (from >= 0)
      dims[from] = seen.dims[to];
  seen = {reshape.getX(), dims};
  return true;
}

Seen kerf::lookThrough(Seen seen) {
  while (stepThrough(seen))
    ;
  return seen;
}

Seen kerf::lookThrough(Value value) {
  return lookThrough({value, dimRange(0, typeOf(value).getRank())});
}

std::optional<double> kerf::splatOf(Value value) {
  Seen seen = lookThrough(value);
  if (auto cast = seen.op<CastOp>())
    return splatOf(cast.getX());
  auto constant = seen.op<ConstantOp>();
  auto elements =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<llvm::APFloat>().convertToDouble();
  llvm::APInt number = elements.getSplatValue<llvm::APInt>();
  // Truth is 1.
  return elements.getElementType().isInteger(1)
             ? static_cast<double>(number.getZExtValue())
             : static_cast<double>(number.getSExtValue());
}

std::optional<Scaled> kerf::scaledOf(Value value) {
  if (auto mul = value.getDefiningOp<MulOp>())
    for (auto [x, number] : bothOrders(mul))
      if (auto factor = splatOf(number))
        return Scaled{x, *factor};
  if (auto div = value.getDefiningOp<DivOp>())
    if (auto divisor = splatOf(div.getRhs()))
      return Scaled{div.getLhs(), 1 / *divisor};
  return std::nullopt;
}

Value kerf::rowSumOf(Value value) { return rowSumOf(lookThrough(value)); }

Value kerf::rowSumOf(Seen seen) {
  seen = lookThrough(std::move(seen));
  auto reduce = seen.op<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::Sum)
    return {};
  RankedTensorType type = typeOf(reduce.getX());
  int64_t last = type.getRank() - 1;
  if (reduce.getDims() != llvm::ArrayRef<int64_t>{last})
    return {};
  for (int64_t d = 0; d < last; ++d)
    if (type.getDimSize(d) != 1 && seen.dims[d] != d)
      return {};
  return reduce.getX();
}

bool kerf::isRowValue(Value value) {
  Seen seen = lookThrough(value);
  int64_t last = typeOf(value).getRank() - 1;
  for (auto [d, follows] : llvm::enumerate(seen.dims))
    if (follows == last && typeOf(seen.value).getDimSize(d) != 1)
      return false;
  return true;
}

Value kerf::withoutRowValue(Value value) {
  auto sub = value.getDefiningOp<SubOp>();
  return sub && isRowValue(sub.getRhs()) ? sub.getLhs() : value;
}

Value kerf::vectorAlong(OpBuilder &builder, Location loc, Value value,
                        int64_t dim) {
  int64_t size = typeOf(value).getDimSize(dim);
  Seen seen = lookThrough(value);
  RankedTensorType type = typeOf(seen.value);
  for (auto [d, follows] : llvm::enumerate(seen.dims))
    if (type.getDimSize(d) != 1 && follows != dim)
      return {};
  if (type.getNumElements() != size)
    return {};
  return PlainBuilder{builder, loc}.reshape(seen.value, {size});
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

int64_t kerf::linearOf(llvm::ArrayRef<int64_t> index,
                       llvm::ArrayRef<int64_t> shape) {
  int64_t linear = 0;
  for (auto [i, size] : llvm::zip_equal(index, shape))
    linear = linear * size + i;
  return linear;
}

llvm::SmallVector<int64_t> kerf::indexOf(int64_t linear,
                                         llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; linear /= shape[d])
    index[d] = linear % shape[d];
  return index;
}

/// One view further, or false.
static bool stepInto(Element &e) {
  Operation *op = e.value.getDefiningOp();
  llvm::SmallVector<int64_t> index;
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
    for (int64_t d : broadcast.getDims())
      index.push_back(e.index[d]);
  } else if (auto transpose = dyn_cast_or_null<TransposeOp>(op)) {
    index.resize(e.index.size());
    for (auto [to, from] : llvm::enumerate(transpose.getPerm()))
      index[from] = e.index[to];
  } else if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
    index = indexOf(linearOf(e.index, typeOf(e.value).getShape()),
                    typeOf(reshape.getX()).getShape());
  } else if (auto slice = dyn_cast_or_null<SliceOp>(op)) {
    for (auto [i, offset] : llvm::zip_equal(e.index, slice.getOffsets()))
      index.push_back(i + offset);
  } else if (auto concat = dyn_cast_or_null<ConcatOp>(op)) {
    index = e.index;
    for (Value input : concat.getInputs()) {
      int64_t size = typeOf(input).getDimSize(concat.getDim());
      if (index[concat.getDim()] < size) {
        e = {input, index};
        return true;
      }
      index[concat.getDim()] -= size;
    }
    return false;
  } else {
    return false;
  }
  e = {op->getOperand(0), index};
  return true;
}

Element kerf::sourceOf(Element element) {
  while (stepInto(element))
    ;
  return element;
}

static std::optional<double> constantAt(ConstantOp op,
                                        llvm::ArrayRef<int64_t> index) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements)
    return std::nullopt;
  int64_t linear =
      elements.isSplat() ? 0 : linearOf(index, elements.getType().getShape());
  if (isa<FloatType>(elements.getElementType()))
    return elements.getValues<llvm::APFloat>()[linear].convertToDouble();
  return elements.getValues<llvm::APInt>()[linear].getSExtValue();
}

/// A product of one term: how some libraries write an outer product.
static std::optional<double> outerAt(Element e) {
  auto matmul = e.value.getDefiningOp<MatmulOp>();
  if (!matmul || matmul.getBias() ||
      typeOf(matmul.getLhs()).getShape().back() != 1)
    return std::nullopt;
  llvm::SmallVector<int64_t> left(e.index), right(e.index);
  left.back() = 0;
  right[right.size() - 2] = 0;
  auto a = numberAt({matmul.getLhs(), left});
  auto b = numberAt({matmul.getRhs(), right});
  return a && b ? std::optional(*a * *b) : std::nullopt;
}

/// Likewise by an einsum that sums nothing.
static std::optional<double> outerEinsumAt(EinsumOp op, Element e) {
  auto [terms, out] = op.getEquation().split("->");
  auto [left, right] = terms.split(',');
  double result = 1;
  for (auto [term, value] :
       {std::pair(left, op.getLhs()), std::pair(right, op.getRhs())}) {
    llvm::SmallVector<int64_t> index;
    for (char letter : term) {
      size_t at = out.find(letter);
      if (at == llvm::StringRef::npos)
        return std::nullopt;
      index.push_back(e.index[at]);
    }
    auto number = numberAt({value, index});
    if (!number)
      return std::nullopt;
    result *= *number;
  }
  return result;
}

std::optional<double> kerf::numberAt(Element element) {
  Element e = sourceOf(element);
  Operation *op = e.value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return constantAt(constant, e.index);
  if (auto iota = dyn_cast<IotaOp>(op)) {
    if (iota.getOffset() || iota.getZigzag())
      return std::nullopt;
    return e.index[iota.getDim()];
  }
  if (isa<MatmulOp>(op))
    return outerAt(e);
  if (auto einsum = dyn_cast<EinsumOp>(op))
    return outerEinsumAt(einsum, e);
  if (auto select = dyn_cast<SelectOp>(op)) {
    auto condition = numberAt({select.getCondition(), e.index});
    return condition ? numberAt({select->getOperand(*condition != 0 ? 1 : 2),
                                 e.index})
                     : std::nullopt;
  }
  if (!isa<AddOp, SubOp, MulOp, DivOp, PowOp, NegOp, CastOp, CompareOp>(op))
    return std::nullopt;
  auto a = numberAt({op->getOperand(0), e.index});
  if (!a)
    return std::nullopt;
  bool isWhole = isa<IntegerType>(typeOf(e.value).getElementType());
  if (isa<NegOp>(op))
    return -*a;
  if (isa<CastOp>(op))
    return isWhole ? std::trunc(*a) : *a;
  auto b = numberAt({op->getOperand(1), e.index});
  if (!b)
    return std::nullopt;
  if (auto compare = dyn_cast<CompareOp>(op))
    return holds(compare.getKind(), *a, *b);
  if (isa<AddOp>(op))
    return *a + *b;
  if (isa<SubOp>(op))
    return *a - *b;
  if (isa<MulOp>(op))
    return *a * *b;
  if (isa<PowOp>(op))
    return std::pow(*a, *b);
  return isWhole ? std::trunc(*a / *b) : *a / *b;
}

void kerf::replaceReshaped(PatternRewriter &rewriter, Operation *op,
                           llvm::ArrayRef<Value> operands) {
  Operation *copy =
      rewriter.create(op->getLoc(), op->getName().getIdentifier(), operands,
                      operands.front().getType(), op->getAttrs());
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op->getResult(0).getType(),
                                         copy->getResult(0));
}
