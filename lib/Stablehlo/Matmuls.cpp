//===- Matmuls.cpp - matmuls, sums and maxima -----------------------------===//

#include "Converter.h"
#include "Parts.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

namespace {
struct Dot {
  Sizes leftBatch, rightBatch, left, right;
};
} // namespace

static Dot dotOf(Operation *op) {
  auto list = [&](llvm::StringRef field) {
    return listIn(op, "dot_dimension_numbers", field);
  };
  return {list("lhs_batching_dimensions"), list("rhs_batching_dimensions"),
          list("lhs_contracting_dimensions"),
          list("rhs_contracting_dimensions")};
}

/// x [..., K] times a matrix, of which dimension `inner` has K.
static Value linear(FoldingBuilder &b, Value x, Value matrix, int64_t inner) {
  return LinearOp::create(b.plain.builder, b.plain.loc, x, matrix,
                          /*bias=*/Value(), /*transposed=*/inner == 0);
}

/// A parameter, or a view of one.
static bool isWeight(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<ReshapeOp, TransposeOp, SliceOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<ParamOp>(op);
}

/// Matmuls of rows with a matrix; null for others.
static Value linearOf(FoldingBuilder &b, Value x, Value y, const Dot &dot) {
  if (!dot.leftBatch.empty() || dot.left.size() != 1)
    return {};
  int64_t left = typeOf(x).getRank(), right = typeOf(y).getRank();
  if (right == 2 && left > 1 && dot.left[0] == left - 1 && isWeight(y))
    return linear(b, x, y, dot.right[0]);
  if (left != 2 || right < 2 || dot.right[0] != right - 1 || !isWeight(x))
    return {};
  // W y: the rows' numbers come first.
  Value rows = linear(b, y, x, dot.left[0]);
  Sizes perm = dimRange(0, right - 1);
  perm.insert(perm.begin(), right - 1);
  return b.transpose(rows, perm);
}

/// A dot_general that sums nothing, as a product of elements.
static Value outer(const Source &s, Value x, Value y, const Dot &dot) {
  int64_t next = dot.leftBatch.size();
  auto spread = [&](Value value, llvm::ArrayRef<int64_t> batch) {
    Sizes dims(typeOf(value).getRank(), -1);
    for (auto [to, from] : llvm::enumerate(batch))
      dims[from] = to;
    for (int64_t &dim : dims)
      if (dim < 0)
        dim = next++;
    return s.b.broadcast(value, dims, s.shape());
  };
  Value left = spread(x, dot.leftBatch);
  return s.b.mul(left, spread(y, dot.rightBatch));
}

static Converted dotGeneral(const Source &s) {
  Dot dot = dotOf(s.op);
  Value x = s.operand(0), y = s.operand(1);
  if (!typeOf(x).getElementType().isF32() ||
      !typeOf(y).getElementType().isF32())
    return s.refuse("a matmul of whole numbers");
  if (dot.left.size() != dot.right.size() ||
      dot.leftBatch.size() != dot.rightBatch.size() || !areDims(x, dot.left) ||
      !areDims(x, dot.leftBatch) || !areDims(y, dot.right) ||
      !areDims(y, dot.rightBatch))
    return s.refuse("a matmul without its dimensions");
  if (dot.left.empty())
    return one(outer(s, x, y, dot));
  if (Value rows = linearOf(s.b, x, y, dot))
    return one(rows);
  std::string left(typeOf(x).getRank(), '?'), right(typeOf(y).getRank(), '?');
  std::string batch, leftOut, rightOut;
  char next = 'a';
  for (auto [a, c] : llvm::zip_equal(dot.leftBatch, dot.rightBatch)) {
    batch += next;
    left[a] = right[c] = next++;
  }
  for (auto [a, c] : llvm::zip_equal(dot.left, dot.right))
    left[a] = right[c] = next++;
  for (auto *term : {&left, &right})
    for (char &letter : *term)
      if (letter == '?') {
        (term == &left ? leftOut : rightOut) += next;
        letter = next++;
      }
  if (next > 'z' + 1)
    return s.refuse("a matmul of more than 26 dimensions");
  return one(s.b.plain.einsum(
      left + "," + right + "->" + batch + leftOut + rightOut, x, y));
}

//===----------------------------------------------------------------------===//
// Sums and maxima
//===----------------------------------------------------------------------===//

/// Whether any element is true (`isAll`: all are).
static Value reduceTruth(FoldingBuilder &b, Value x,
                         llvm::ArrayRef<int64_t> dims, bool isAll) {
  if (isAll)
    return b.negation(reduceTruth(b, b.negation(x), dims, false));
  Value largest = b.largest(b.cast(x, b.f32()), dims);
  return b.compare(CompareKind::GT, largest,
                   b.splat(shapeOf(largest), b.f32(), 0));
}

/// A reduction of elements that are all one number.
static Value reduceKnown(const Source &s, double number, double count,
                         llvm::StringRef kind) {
  double result =
      kind == "add" && !s.element().isInteger(1) ? number * count : number;
  return s.b.splat(s.shape(), s.element(), result);
}

/// Whether a reduction of numbers and their places keeps the largest (true) or
/// the least and, of equal ones, the first: as jnp.argmax and argmin are
/// lowered. None for others.
static std::optional<bool> keepsLargest(Operation *op) {
  Block &body = op->getRegion(0).front();
  static const llvm::StringLiteral words[] = {
      "compare NE", "or",     "compare EQ", "compare LT", "and",
      "or",         "select", "select",     "return"};
  if (body.getNumArguments() != 4 ||
      body.getOperations().size() != std::size(words) + 1)
    return std::nullopt;
  auto wordAt = [](Operation &inner) {
    std::string word = inner.getName().stripDialect().str();
    if (word == "compare")
      word += " " + wordOf(&inner, "comparison_direction").str();
    return word;
  };
  std::string first = wordAt(body.front());
  bool isKnown = llvm::all_of(
      llvm::zip_equal(llvm::drop_begin(body), words), [&](auto pair) {
        return wordAt(std::get<0>(pair)) == std::get<1>(pair);
      });
  if (!isKnown || (first != "compare GT" && first != "compare LT"))
    return std::nullopt;
  return first == "compare GT";
}

/// The dimension that the numbers 0, 1, .. of a value follow.
static std::optional<int64_t> countedDim(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  auto iota = (broadcast ? broadcast.getX() : value).getDefiningOp<IotaOp>();
  if (!iota || iota.getOffset())
    return std::nullopt;
  return broadcast ? broadcast.getDims()[iota.getDim()] : iota.getDim();
}

/// The largest or least number along a dimension, and its place.
static Converted extremeAndPlace(const Source &s) {
  constexpr llvm::StringLiteral others =
      "a reduction of several tensors at once but that of argmax and argmin";
  Sizes dims = sizesOf(s.op, "dimensions");
  Value x = s.operand(0);
  auto isLargest = keepsLargest(s.op);
  if (s.operands.size() != 4 || dims.size() != 1 || !areDims(x, dims) ||
      !isLargest || countedDim(s.operand(1)) != dims.front())
    return s.refuse(others);
  FoldingBuilder &b = s.b;
  if (!b.isExact(x))
    return s.refuse("argmax of whole numbers that may be above 2^24");
  auto turned = [&](Value value) { return *isLargest ? value : b.neg(value); };
  Sizes perm;
  for (int64_t d = 0; d < typeOf(x).getRank(); ++d)
    if (d != dims.front())
      perm.push_back(d);
  perm.push_back(dims.front());
  Value last = turned(b.cast(b.transpose(x, perm), b.f32()));
  auto op = TopKOp::create(b.plain.builder, b.plain.loc, last, 1);
  b.setRange(op.getIndices(), {0, shapeOf(last).back() - 1});
  Value found = b.cast(turned(op.getValues()), s.element());
  return std::vector<Value>{b.reshape(found, s.shape()),
                            b.reshape(op.getIndices(), s.shape(1))};
}

static Converted reduce(const Source &s) {
  if (s.operands.size() != 2)
    return extremeAndPlace(s);
  FoldingBuilder &b = s.b;
  Value x = s.operand(0);
  Sizes dims = sizesOf(s.op, "dimensions");
  llvm::sort(dims);
  if (!areDims(x, dims))
    return s.refuse("a reduction without its dimensions");
  llvm::StringRef kind = combiner(s.op);
  auto initial = FoldingBuilder::splatOf(s.operand(1));
  static const llvm::StringLiteral kinds[] = {"add", "maximum", "minimum",
                                              "and", "or"};
  if (!llvm::is_contained(kinds, kind))
    return s.refuse("a reduction by other than sum, maximum, minimum, all and "
                    "any");
  if (!initial || !isNeutral(kind, s.element(), *initial))
    return s.refuse("a reduction that begins with another number than the "
                    "neutral one");
  double count = 1;
  for (int64_t dim : dims)
    count *= shapeOf(x)[dim];
  if (auto number = FoldingBuilder::splatOf(x))
    return one(reduceKnown(s, *number, count, kind));
  if (s.element().isInteger(1))
    return one(reduceTruth(b, x, dims, kind == "and" || kind == "minimum"));
  if (kind == "add")
    return one(b.sum(x, dims));
  if (kind == "maximum")
    return one(b.largest(x, dims));
  return one(b.neg(b.largest(b.neg(x), dims)));
}

void kerf::addMatmuls(Conversions &table) {
  table["stablehlo.dot_general"] = dotGeneral;
  table["stablehlo.reduce"] = reduce;
}
