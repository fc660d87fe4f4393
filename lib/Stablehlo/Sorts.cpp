//===- Sorts.cpp - rows in order ------------------------------------------===//

#include "Converter.h"
#include "Parts.h"

using namespace kerf;
using namespace mlir;

/// Elements of a row that is sorted, at most: time grows with their square.
static constexpr int64_t kMostSorted = 8192;

/// The arguments of `body` that a value is made of; -1 for what is made
/// outside.
static void addRoots(Value value, Block &body,
                     llvm::SmallVector<int64_t> &roots) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (value.getParentBlock() != &body || argument) {
    bool isOwn = argument && argument.getOwner() == &body;
    int64_t root = isOwn ? int64_t(argument.getArgNumber()) : -1;
    if (!llvm::is_contained(roots, root))
      roots.push_back(root);
    return;
  }
  for (Value operand : value.getDefiningOp()->getOperands())
    addRoots(operand, body, roots);
}

/// Whether the smallest comes first (true) or the largest (false), by the first
/// tensor; none for other orders.
static std::optional<bool> isAscending(Operation *op) {
  if (op->getNumRegions() != 1 || !op->getRegion(0).hasOneBlock())
    return std::nullopt;
  Block &body = op->getRegion(0).front();
  static const llvm::StringLiteral known[] = {"constant", "compare", "select",
                                              "convert", "return"};
  for (Operation &inner : body)
    if (!llvm::is_contained(known, inner.getName().stripDialect()))
      return std::nullopt;
  Operation *compare = body.back().getNumOperands() == 1
                           ? body.back().getOperand(0).getDefiningOp()
                           : nullptr;
  if (!compare || compare->getName().stripDialect() != "compare" ||
      compare->getNumOperands() != 2)
    return std::nullopt;
  llvm::SmallVector<int64_t> left, right;
  addRoots(compare->getOperand(0), body, left);
  addRoots(compare->getOperand(1), body, right);
  llvm::StringRef word = wordOf(compare, "comparison_direction");
  bool isForward =
      left == llvm::ArrayRef<int64_t>{0} && right == llvm::ArrayRef<int64_t>{1};
  bool isBackward =
      left == llvm::ArrayRef<int64_t>{1} && right == llvm::ArrayRef<int64_t>{0};
  if (!(isForward || isBackward) || (word != "LT" && word != "GT"))
    return std::nullopt;
  return (word == "LT") == isForward;
}

/// Elements of each row by numbers of their own: both [..., N].
static Value inOrder(FoldingBuilder &b, Value rows, Value order) {
  Sizes shape(shapeOf(rows));
  int64_t size = shape.back(), count = typeOf(rows).getNumElements() / size;
  Value row = b.iota({count, size}, 0);
  Value first = b.mul(row, b.splat({count, size}, b.i32(), size));
  Value index = b.add(first, b.reshape(order, {count, size}));
  Value flat = b.reshape(rows, {count * size});
  return b.reshape(b.plain.gather(flat, index), shape);
}

static Converted sort(const Source &s) {
  FoldingBuilder &b = s.b;
  auto dim = integerOf(s.op, "dimension");
  auto ascending = isAscending(s.op);
  Value key = s.operand(0);
  bool isAlike = llvm::all_of(
      s.operands, [&](Value x) { return shapeOf(x) == shapeOf(key); });
  if (!dim || *dim < 0 || *dim >= typeOf(key).getRank() || !ascending ||
      !isAlike || s.operands.size() != s.op->getNumResults())
    return s.refuse("a sort but by the numbers of its first tensor");
  if (shapeOf(key)[*dim] > kMostSorted)
    return s.refuse("sorting more than 8192 elements");
  Sizes last = dimRange(0, typeOf(key).getRank());
  std::swap(last[*dim], last.back()); // its own inverse
  if (!b.isExact(key))
    return s.refuse("sorting whole numbers that may be above 2^24");
  Value rows = b.cast(b.transpose(key, last), b.f32());
  int64_t size = shapeOf(rows).back();
  auto largest = TopKOp::create(b.plain.builder, b.plain.loc,
                                *ascending ? b.neg(rows) : rows, size);
  Value order = largest.getIndices();
  b.setRange(order, {0, size - 1});
  std::vector<Value> results;
  for (auto [n, operand] : llvm::enumerate(s.operands)) {
    Value sorted;
    if (n == 0)
      sorted =
          b.cast(*ascending ? b.neg(largest.getValues()) : largest.getValues(),
                 s.element());
    else if (countsAlong(operand, *dim))
      sorted = order;
    else
      sorted = inOrder(b, b.transpose(operand, last), order);
    results.push_back(b.transpose(sorted, last));
  }
  return results;
}

void kerf::addSorts(Conversions &table) { table["stablehlo.sort"] = sort; }
