#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Support/UnitRows.h"

#include "Shard.h"

#include <numeric>

using namespace mlir;
using namespace kerf;

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfTensorOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

void ConstantOp::build(OpBuilder &builder, OperationState &state, Type type,
                       double value) {
  auto tensor = cast<RankedTensorType>(type);
  Attribute element;
  if (auto floating = dyn_cast<FloatType>(tensor.getElementType()))
    element = builder.getFloatAttr(floating, value);
  else
    element = builder.getIntegerAttr(tensor.getElementType(),
                                     static_cast<int64_t>(value));
  build(builder, state, DenseElementsAttr::get(tensor, element));
}

LogicalResult ConstantOp::verify() { // constant_c2
  if (isa<DenseElementsAttr>(getValue()))
    return success();
  return emitOpError() << "expected a dense<...> value, found " << getValue();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

/// Only a constant whose elements are equal is the same on every part.
Factors ConstantOp::getFactors() {
  Factors facts = pointwiseFactors(*this, Positions::Ignored);
  if (!getValue().isSplat())
    for (Factor &factor : facts.factors)
      factor.kind = FactorKind::Whole;
  return facts;
}

LogicalResult kerf::verifyZigzag(Operation *op, ZigzagAttr zigzag,
                                 llvm::ArrayRef<int64_t> whole) {
  if (!zigzag)
    return success();
  bool fits = llvm::all_of(zigzag.getDims(), [&](int64_t dim) {
    return dim < static_cast<int64_t>(whole.size()) &&
           whole[dim] == zigzag.getRows();
  });
  if (fits)
    return success();
  return op->emitOpError() << "expected a zigzag along dimensions of all its "
                           << zigzag.getRows() << " rows, found " << zigzag
                           << " of [" << whole << "]";
}

LogicalResult kerf::verifyZigzagAlong(Operation *op, ZigzagAttr zigzag,
                                      int64_t dim, int64_t size) {
  if (!zigzag ||
      (zigzag.getDims() == llvm::ArrayRef(dim) && size <= zigzag.getRows()))
    return success();
  return op->emitOpError() << "expected a zigzag along [" << dim
                           << "] of at least " << size << " rows, found "
                           << zigzag;
}

LogicalResult IotaOp::verify() {
  auto type = typeOf(getResult());
  if (getDim() < 0 || getDim() >= type.getRank()) // iota_c1
    return emitOpError() << "expected dim in [0, " << type.getRank()
                         << "), found " << getDim();
  return verifyZigzagAlong(*this, getZigzagAttr(), getDim(),
                           type.getDimSize(getDim()));
}

/// Factors of a result that no tensor operand has, and whose elements tell
/// where they stand; scalars have no dimensions.
static Factors sourceFactors(Operation *op) {
  Factors facts(Positions::Read);
  facts.operands.resize(op->getNumOperands());
  TensorFactors dims;
  llvm::ArrayRef<int64_t> shape = typeOf(op->getResult(0)).getShape();
  std::string labels = leadingLabels(shape.size());
  for (auto [d, size] : llvm::enumerate(shape))
    dims.push_back({facts.add(labels.substr(d, 1), size)});
  facts.results.push_back(dims);
  return facts;
}

Factors IotaOp::getFactors() {
  Factors facts = sourceFactors(*this);
  facts.placed = {facts.results[0][getDim()][0]};
  return facts;
}

bool IotaOp::followsOrder(unsigned) { return true; }

void IotaOp::tellOrder(RowOrders &orders) {
  if (orders.has(getResult(), getDim()))
    setZigzagAttr(cast<ZigzagAttr>(orders.along({getDim()})));
}

Factors RandomUniformOp::getFactors() { return sourceFactors(*this); }

bool RandomUniformOp::followsOrder(unsigned) { return true; }

void RandomUniformOp::tellOrder(RowOrders &orders) {
  setZigzagAttr(cast_or_null<ZigzagAttr>(orders.of(getResult())));
}

/// Checks `global` and `offsets` of an op on a shard of shape `shape`.
LogicalResult kerf::verifyShard(Operation *op, llvm::ArrayRef<int64_t> shape,
                                std::optional<llvm::ArrayRef<int64_t>> global,
                                size_t numOffsets) {
  bool fits = !global || global->size() == shape.size();
  for (auto [d, size] : llvm::enumerate(shape))
    fits = fits && (!global || (*global)[d] >= size);
  if (!fits)
    return op->emitOpError() << "expected a global shape not below [" << shape
                             << "], found [" << *global << "]";
  if (numOffsets != 0 && numOffsets != shape.size())
    return op->emitOpError() << "expected no offsets or " << shape.size()
                             << ", found " << numOffsets;
  return success();
}

LogicalResult RandomUniformOp::verify() {
  // random_uniform_c1, random_uniform_c2
  llvm::ArrayRef<int64_t> shape = typeOf(getResult()).getShape();
  if (failed(verifyShard(*this, shape, getGlobal(), getOffsets().size())))
    return failure();
  return verifyZigzag(*this, getZigzagAttr(), // random_uniform_c3
                      getGlobal() ? *getGlobal() : shape);
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  auto from = typeOf(getX()), to = typeOf(getResult());
  llvm::ArrayRef<int64_t> dims = getDims();
  bool valid = static_cast<int64_t>(dims.size()) == from.getRank();
  for (size_t i = 0; valid && i < dims.size(); ++i)
    valid = dims[i] >= 0 && dims[i] < to.getRank() &&
            (i == 0 || dims[i] > dims[i - 1]);
  if (!valid) // broadcast_c1
    return emitOpError() << "expected one ascending dimension of the result "
                            "per operand dimension, found ["
                         << dims << "]";
  for (auto [i, dim] : llvm::enumerate(dims))
    if (from.getDimSize(i) != to.getDimSize(dim)) // broadcast_c2
      return emitOpError() << "expected size " << from.getDimSize(i)
                           << " in result dimension " << dim << ", found "
                           << to.getDimSize(dim);
  if (from.getElementType() != to.getElementType())
    return emitOpError() << "expected element type " << from.getElementType()
                         << ", found " << to.getElementType();
  return success();
}

View BroadcastOp::getView() {
  return {ViewKind::Repeat, {}, llvm::to_vector<4>(getDims())};
}

Factors BroadcastOp::getFactors() {
  std::string to = leadingLabels(typeOf(getResult()).getRank()), from;
  for (int64_t dim : getDims())
    from += to[dim];
  return labelledFactors(*this, Positions::Ignored, {from}, {to}, {0});
}

View ReshapeOp::getView() { return {ViewKind::Rename}; }

LogicalResult ReshapeOp::verify() {
  auto from = typeOf(getX()), to = typeOf(getResult());
  if (from.getNumElements() != to.getNumElements() || // reshape_c1
      from.getElementType() != to.getElementType())
    return emitOpError() << "expected equally many elements of one type, found "
                         << from << " and " << to;
  return success();
}

/// Factors of what a reshape could not match: the rest of dimension `at` and
/// all later dimensions, none of which may be split.
static void addUnmatched(Factors &facts, llvm::ArrayRef<int64_t> shape,
                         size_t at, int64_t rest, llvm::StringRef prefix,
                         TensorFactors &dims) {
  for (size_t d = at; d < shape.size(); ++d)
    dims[d].push_back(facts.add((prefix + std::to_string(d)).str(),
                                d == at ? rest : shape[d], FactorKind::Whole));
}

/// Splits both shapes into common factors: `[8,4]` and `[2,16]` need `2*4` and
/// `4*4`. Dimensions are matched from the left while one divides the other;
/// what follows stays whole.
Factors ReshapeOp::getFactors() {
  Factors facts(Positions::Ignored);
  llvm::ArrayRef<int64_t> from = typeOf(getX()).getShape();
  llvm::ArrayRef<int64_t> to = typeOf(getResult()).getShape();
  TensorFactors fromDims(from.size()), toDims(to.size());
  size_t i = 0, j = 0;
  int64_t restFrom = from.empty() ? 1 : from[0];
  int64_t restTo = to.empty() ? 1 : to[0];
  auto next = [](llvm::ArrayRef<int64_t> shape, size_t &at, int64_t &rest) {
    while (rest == 1 && at < shape.size())
      rest = ++at < shape.size() ? shape[at] : 1;
  };
  while (true) {
    next(from, i, restFrom);
    next(to, j, restTo);
    if (i >= from.size() || j >= to.size())
      break;
    int64_t common = std::gcd(restFrom, restTo);
    if (common == 0 || common != std::min(restFrom, restTo)) {
      addUnmatched(facts, from, i, restFrom, "x", fromDims);
      addUnmatched(facts, to, j, restTo, "y", toDims);
      break;
    }
    unsigned f = facts.add("r" + std::to_string(facts.factors.size()), common);
    fromDims[i].push_back(f);
    toDims[j].push_back(f);
    restFrom /= common;
    restTo /= common;
  }
  facts.operands.push_back(fromDims);
  facts.results.push_back(toDims);
  facts.linearOperands = {0};
  return facts;
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  return {};
}

/// One error for the ops whose attributes have one entry per dimension.
static LogicalResult shapeError(std::optional<Location> loc, llvm::StringRef op,
                                const llvm::Twine &expected, Type type,
                                llvm::StringRef name,
                                llvm::ArrayRef<int64_t> found) {
  return emitOptionalError(loc, "'kerf.", op, "' expected ", expected, " of ",
                           type, ", found ", name, " [", found, "]");
}

LogicalResult
TransposeOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                              Adaptor adaptor,
                              llvm::SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(adaptor.getX().getType());
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<bool> used(type.getRank(), false);
  for (int64_t dim : adaptor.getPerm()) {
    if (dim < 0 || dim >= type.getRank() || used[dim])
      break;
    used[dim] = true;
    shape.push_back(type.getDimSize(dim));
  }
  if (static_cast<int64_t>(adaptor.getPerm().size()) != type.getRank() ||
      static_cast<int64_t>(shape.size()) != type.getRank()) // transpose_c1
    return shapeError(loc, "transpose", "a permutation of the dimensions", type,
                      "perm", adaptor.getPerm());
  types.push_back(withShape(type, shape));
  return success();
}

View TransposeOp::getView() {
  return {ViewKind::Turn, {}, llvm::to_vector<4>(getPerm())};
}

Factors TransposeOp::getFactors() {
  std::string from = leadingLabels(getPerm().size()), to;
  for (int64_t dim : getPerm())
    to += from[dim];
  return labelledFactors(*this, Positions::Ignored, {from}, {to}, {0});
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *context,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        llvm::SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(adaptor.getX().getType());
  llvm::ArrayRef<int64_t> offsets = adaptor.getOffsets();
  llvm::ArrayRef<int64_t> sizes = adaptor.getSizes();
  bool valid = static_cast<int64_t>(offsets.size()) == type.getRank() &&
               offsets.size() == sizes.size();
  for (size_t d = 0; valid && d < offsets.size(); ++d)
    valid = offsets[d] >= 0 && sizes[d] >= 0 &&
            sizes[d] <= type.getDimSize(d) &&
            offsets[d] <= type.getDimSize(d) - sizes[d];
  if (!valid) // slice_c1
    return emitOptionalError(loc, "'kerf.slice' expected a box inside ", type,
                             ", found offsets [", offsets, "] and sizes [",
                             sizes, "]");
  types.push_back(withShape(type, sizes));
  return success();
}

/// The window of `small` elements from `offset` is one of equal blocks.
static bool isBlock(int64_t large, int64_t small, int64_t offset) {
  return small > 0 && large % small == 0 && offset % small == 0;
}

/// Dimensions of which `from` and `to` have the same size are pointwise. A
/// window that is one of equal blocks leaves the index within a block free;
/// other windows must not be split.
static Factors windowFactors(Operation *op, llvm::ArrayRef<int64_t> offsets) {
  Factors facts(Positions::Ignored);
  llvm::ArrayRef<int64_t> from = typeOf(op->getOperand(0)).getShape();
  llvm::ArrayRef<int64_t> to = typeOf(op->getResult(0)).getShape();
  std::string labels = leadingLabels(from.size());
  TensorFactors fromDims, toDims;
  for (size_t d = 0; d < from.size(); ++d) {
    std::string name = labels.substr(d, 1);
    if (from[d] == to[d]) {
      unsigned f = facts.add(name, from[d]);
      fromDims.push_back({f});
      toDims.push_back({f});
      continue;
    }
    int64_t large = std::max(from[d], to[d]), small = std::min(from[d], to[d]);
    if (isBlock(large, small, offsets[d])) {
      unsigned blocks = facts.add(name + "x", large / small, FactorKind::Whole);
      unsigned within = facts.add(name, small);
      fromDims.push_back({within});
      toDims.push_back({within});
      DimFactors &whole = from[d] == large ? fromDims.back() : toDims.back();
      whole.insert(whole.begin(), blocks);
      continue;
    }
    fromDims.push_back({facts.add(name + "x", from[d], FactorKind::Whole)});
    toDims.push_back({facts.add(name + "y", to[d], FactorKind::Whole)});
  }
  facts.operands.push_back(fromDims);
  facts.results.push_back(toDims);
  facts.linearOperands = {0};
  return facts;
}

View SliceOp::getView() {
  return {ViewKind::Part, llvm::to_vector<4>(getOffsets())};
}

Factors SliceOp::getFactors() { return windowFactors(*this, getOffsets()); }

/// A slice of a concatenation that is exactly one of its operands is that
/// operand; the whole of a tensor is the tensor.
OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  auto concat = getX().getDefiningOp<ConcatOp>();
  if (!concat)
    return {};
  int64_t begin = 0;
  for (Value input : concat.getInputs()) {
    llvm::ArrayRef<int64_t> offsets = getOffsets();
    bool starts = true;
    for (auto [d, offset] : llvm::enumerate(offsets))
      starts &=
          offset == (static_cast<int64_t>(d) == concat.getDim() ? begin : 0);
    if (starts && input.getType() == getResult().getType())
      return input;
    begin += typeOf(input).getDimSize(concat.getDim());
  }
  return {};
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *context,
                                      std::optional<Location> loc,
                                      Adaptor adaptor,
                                      llvm::SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(adaptor.getX().getType());
  llvm::ArrayRef<int64_t> low = adaptor.getLow(), high = adaptor.getHigh();
  constexpr int64_t limit = int64_t(1) << 40;
  auto sane = [](int64_t n) { return n >= 0 && n < limit; };
  if (static_cast<int64_t>(low.size()) != type.getRank() ||
      low.size() != high.size() || !llvm::all_of(low, sane) ||
      !llvm::all_of(high, sane)) // pad_c1
    return emitOptionalError(
        loc, "'kerf.pad' expected one low and high >= 0 per dimension of ",
        type, ", found low [", low, "] and high [", high, "]");
  llvm::SmallVector<int64_t> shape(type.getShape());
  for (size_t d = 0; d < shape.size(); ++d)
    shape[d] += low[d] + high[d];
  types.push_back(withShape(type, shape));
  return success();
}

View PadOp::getView() { return {ViewKind::Pad, llvm::to_vector<4>(getLow())}; }

Factors PadOp::getFactors() { return windowFactors(*this, getLow()); }

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *context,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         llvm::SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty()) // concat_c1
    return emitOptionalError(loc, "'kerf.concat' expected an operand");
  auto first = cast<RankedTensorType>(adaptor.getInputs()[0].getType());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first.getRank())
    return shapeError(loc, "concat", "a dimension", first, "dim", {dim});
  llvm::SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Type type : adaptor.getInputs().getTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    llvm::SmallVector<int64_t> other(tensor.getShape());
    bool matches = tensor.getRank() == first.getRank() &&
                   tensor.getElementType() == first.getElementType();
    int64_t size = matches ? other[dim] : 0;
    if (matches)
      other[dim] = first.getDimSize(dim);
    if (!matches ||
        llvm::ArrayRef<int64_t>(other) != first.getShape()) // concat_c2
      return emitOptionalError(loc,
                               "'kerf.concat' expected operands that "
                               "agree but in dimension ",
                               dim, ", found ", first, " and ", type);
    shape[dim] += size;
  }
  types.push_back(withShape(first, shape));
  return success();
}

View ConcatOp::getView() { return {ViewKind::Join, {}, {getDim()}}; }

Factors ConcatOp::getFactors() {
  Factors facts(Positions::Ignored);
  int64_t joined = getDim();
  auto result = typeOf(getResult());
  std::string labels = leadingLabels(result.getRank());
  TensorFactors dims;
  for (int64_t d = 0; d < result.getRank(); ++d)
    dims.push_back(
        {facts.add(labels.substr(d, 1), result.getDimSize(d),
                   d == joined ? FactorKind::Whole : FactorKind::Parallel)});
  facts.results.push_back(dims);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    TensorFactors own = dims;
    own[joined] = {facts.add(labels.substr(joined, 1) + std::to_string(i),
                             typeOf(input).getDimSize(joined),
                             FactorKind::Whole)};
    facts.operands.push_back(own);
    facts.linearOperands.push_back(i);
  }
  facts.jointly = true;
  return facts;
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs().front();
  return {};
}

//===----------------------------------------------------------------------===//
// Combination
//===----------------------------------------------------------------------===//

/// `lhs,rhs->out`, or terms that are no letters when the text has another form.
static std::array<llvm::StringRef, 3> splitEquation(llvm::StringRef equation) {
  auto [terms, out] = equation.split("->");
  auto [lhs, rhs] = terms.split(',');
  if (lhs.size() + rhs.size() + out.size() + 3 != equation.size())
    return {"?", "?", "?"}; // no letters: refused by the verifier
  return {lhs, rhs, out};
}

LogicalResult EinsumOp::verify() {
  auto [lhs, rhs, out] = splitEquation(getEquation());
  const llvm::StringRef terms[] = {lhs, rhs, out};
  Value values[] = {getLhs(), getRhs(), getResult()};
  std::array<int64_t, 26> sizes;
  sizes.fill(-1);
  for (auto [term, value] : llvm::zip(terms, values)) {
    bool valid = static_cast<int64_t>(term.size()) == typeOf(value).getRank();
    for (size_t i = 0; valid && i < term.size(); ++i)
      valid = term[i] >= 'a' && term[i] <= 'z' &&
              term.find(term[i], i + 1) == llvm::StringRef::npos;
    if (!valid) // einsum_c1
      return emitOpError() << "equation \"" << getEquation()
                           << "\" expected \"lhs,rhs->out\" with one letter "
                              "per dimension, none twice in a term";
    for (auto [letter, size] : llvm::zip(term, typeOf(value).getShape())) {
      int64_t &known = sizes[letter - 'a'];
      if (known != -1 && known != size) // einsum_c2
        return emitOpError() << "letter '" << llvm::StringRef(&letter, 1)
                             << "' has sizes " << known << " and " << size;
      known = size;
    }
  }
  auto isIn = [](llvm::StringRef a, llvm::StringRef b) {
    return [=](char c) { return a.contains(c) || b.contains(c); };
  };
  if (!llvm::all_of(out, isIn(lhs, rhs)) ||
      !llvm::all_of(lhs, isIn(rhs, out)) ||
      !llvm::all_of(rhs, isIn(lhs, out))) // einsum_c3
    return emitOpError() << "equation \"" << getEquation()
                         << "\" has a letter in one term only";
  if (isFloat8(getLhs().getType()) != isFloat8(getRhs().getType())) // einsum_c4
    return emitOpError() << "expected two operands of 8-bit floats or none, "
                            "found "
                         << getLhs().getType() << " and " << getRhs().getType();
  return success();
}

LibraryCall EinsumOp::getLibraryCall() { return LibraryCall::Matmul; }

Factors EinsumOp::getFactors() {
  auto [lhs, rhs, out] = splitEquation(getEquation());
  return labelledFactors(*this, Positions::Ignored, {lhs.str(), rhs.str()},
                         {out.str()}, {0, 1});
}

OpCost EinsumOp::getCost() {
  double flops = 2;
  for (const Factor &factor : getFactors().factors)
    flops *= factor.size;
  return costWithFlops(*this, flops, 0);
}

LogicalResult EinsumOp::buildGradient(GradientBuilder &gradients) {
  auto [lhs, rhs, out] = splitEquation(getEquation());
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  auto term = [](llvm::StringRef a, llvm::StringRef b, llvm::StringRef c) {
    return (a + "," + b + "->" + c).str();
  };
  if (gradients.needs(getLhs()))
    gradients.add(getLhs(), p.einsum(term(out, rhs, lhs), dy, getRhs(),
                                     typeOf(getLhs()).getElementType()));
  if (gradients.needs(getRhs()))
    gradients.add(getRhs(), p.einsum(term(out, lhs, rhs), dy, getLhs(),
                                     typeOf(getRhs()).getElementType()));
  return success();
}

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *context,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         llvm::SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(adaptor.getX().getType());
  llvm::SmallVector<int64_t> shape;
  llvm::ArrayRef<int64_t> dims = adaptor.getDims();
  size_t next = 0;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    if (next < dims.size() && dims[next] == d)
      ++next;
    else
      shape.push_back(type.getDimSize(d));
  }
  if (next != dims.size()) // reduce_c1
    return shapeError(loc, "reduce", "ascending dimensions", type, "dims",
                      dims);
  types.push_back(withShape(type, shape));
  return success();
}

Factors ReduceOp::getFactors() {
  std::string from = leadingLabels(typeOf(getX()).getRank()), to;
  for (size_t d = 0; d < from.size(); ++d)
    if (!llvm::is_contained(getDims(), static_cast<int64_t>(d)))
      to += from[d];
  bool isSum = getKind() == ReduceKind::Sum;
  Factors facts = labelledFactors(*this, Positions::Ignored, {from}, {to},
                                  isSum ? llvm::ArrayRef<unsigned>{0}
                                        : llvm::ArrayRef<unsigned>{});
  for (Factor &factor : facts.factors)
    if (factor.kind == FactorKind::Sum && !isSum)
      factor.kind = FactorKind::Max;
  return facts;
}

OpCost ReduceOp::getCost() {
  return costWithFlops(*this, 0, typeOf(getX()).getNumElements());
}

LogicalResult UnitOp::verify() {
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(getOf())) // unit_c1
    return emitOpError() << "expected the unit of f8E4M3FN or f8E5M2, found "
                         << getOf();
  return success();
}

/// The unit of a whole is the largest of its parts, for it grows with them.
Factors UnitOp::getFactors() {
  Factors facts =
      labelledFactors(*this, Positions::Ignored,
                      {leadingLabels(typeOf(getX()).getRank())}, {""});
  for (Factor &factor : facts.factors)
    factor.kind = FactorKind::Max;
  facts.maxOfMicroBatch = true;
  return facts;
}

OpCost UnitOp::getCost() {
  return costWithFlops(*this, 0, typeOf(getX()).getNumElements());
}

llvm::SmallVector<Value> UnitOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value x = p.cast(getX(), builder.getF32Type());
  // A maximum for each row first: the kernel that makes the rows can do that.
  Value largest = p.max(x, p.neg(x));
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  int64_t rank = shape.size(), kept = rank, columns = 1;
  while (kept > 0 && columns < kLeastUnitRow &&
         (columns == 1 || columns * shape[kept - 1] <= kMostUnitRow))
    columns *= shape[--kept];
  if (columns < kShortUnitRow)
    kept = 0;
  largest = p.reduce(ReduceKind::Max, largest, dimRange(kept, rank));
  if (kept > 0)
    largest = p.reduce(ReduceKind::Max, largest, dimRange(0, kept));
  auto of = cast<FloatType>(getOf());
  double limit =
      llvm::APFloat::getLargest(of.getFloatSemantics()).convertToDouble();
  Value part = p.div(largest, p.constant(largest.getType(), limit));
  return {PowerOfTwoOp::create(builder, getLoc(), part)};
}

LogicalResult CumsumOp::inferReturnTypes(MLIRContext *context,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         llvm::SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(adaptor.getX().getType());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= type.getRank()) // cumsum_c1
    return shapeError(loc, "cumsum", "a dimension", type, "dim", {dim});
  types.push_back(type);
  return success();
}

Factors CumsumOp::getFactors() {
  Factors facts = pointwiseFactors(*this, Positions::Ignored, {0});
  facts.factors[facts.operands[0][getDim()][0]].kind = FactorKind::Whole;
  facts.looksBack = true;
  return facts;
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       llvm::SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(adaptor.getX().getType());
  int64_t k = adaptor.getK();
  if (type.getRank() == 0 || k < 1 || k > type.getShape().back()) // top_k_c1
    return shapeError(loc, "top_k", "1 <= k <= the last dimension", type, "k",
                      {k});
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape.back() = k;
  types.push_back(withShape(type, shape));
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 32)));
  return success();
}

Factors TopKOp::getFactors() {
  std::string rows = leadingLabels(typeOf(getX()).getRank() - 1);
  return labelledFactors(*this, Positions::Ignored, {rows + "e"},
                         {rows + "k", rows + "k"}, {}, "ek");
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *context,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         llvm::SmallVectorImpl<Type> &types) {
  auto table = cast<RankedTensorType>(adaptor.getTable().getType());
  auto index = cast<RankedTensorType>(adaptor.getIndex().getType());
  if (table.getRank() == 0) // gather_c1
    return emitOptionalError(loc,
                             "'kerf.gather' expected a table of rank >= "
                             "1, found ",
                             table);
  llvm::SmallVector<int64_t> shape(index.getShape());
  llvm::append_range(shape, table.getShape().drop_front());
  types.push_back(withShape(table, shape));
  return success();
}

/// Labels of a table row beyond its index.
static std::string rowLabels(int64_t count) {
  return std::string("defghijklmnopqrac").substr(0, count);
}

Factors GatherOp::getFactors() {
  std::string index = leadingLabels(typeOf(getIndex()).getRank());
  std::string row = rowLabels(typeOf(getTable()).getRank() - 1);
  return labelledFactors(*this, Positions::Ignored, {"v" + row, index},
                         {index + row}, {0}, "v");
}

LogicalResult ScatterAddOp::verify() {
  llvm::SmallVector<int64_t> shape(typeOf(getIndex()).getShape());
  auto result = typeOf(getResult());
  if (result.getRank() > 0)
    llvm::append_range(shape, result.getShape().drop_front());
  if (result.getRank() == 0 ||
      typeOf(getX()) != withShape(result, shape)) // scatter_add_c1
    return emitOpError() << "expected rows of " << result << " for index "
                         << getIndex().getType() << ", found "
                         << getX().getType();
  return success();
}

Factors ScatterAddOp::getFactors() {
  std::string index = leadingLabels(typeOf(getIndex()).getRank());
  std::string row = rowLabels(typeOf(getResult()).getRank() - 1);
  return labelledFactors(*this, Positions::Ignored, {index + row, index},
                         {"v" + row}, {0}, "v");
}
