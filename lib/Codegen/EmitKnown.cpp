//===- EmitKnown.cpp - what an index tells without a loop -----------------===//
//
// Rows of logits are compared with their own columns: with the number of
// columns that are not padding, and with the target. The first has one answer
// for almost all columns; the second picks one element.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "Parts.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::codegen;

/// The value of a splat of integers.
static std::optional<int64_t> splatOf(Value tensor) {
  SplatElementsAttr value;
  if (!matchPattern(tensor, m_Constant(&value)) ||
      !value.getElementType().isInteger(32))
    return std::nullopt;
  return value.getSplatValue<APInt>().getSExtValue();
}

/// The dimension along which a tensor has the numbers 0, 1, ...
static std::optional<int64_t> countedDim(Value tensor) {
  auto iota = tensor.getDefiningOp<IotaOp>();
  if (!iota || iota.getZigzag() || iota.getOffset())
    return std::nullopt;
  return iota.getDim();
}

//===----------------------------------------------------------------------===//
// Comparisons with a constant
//===----------------------------------------------------------------------===//

static bool isOrder(CompareKind kind) {
  return kind != CompareKind::EQ && kind != CompareKind::NE;
}

std::optional<Element> Emitter::emitKnownCompare(CompareOp op,
                                                 llvm::ArrayRef<Index> at) {
  auto dim = countedDim(op.getLhs());
  auto bound = splatOf(op.getRhs());
  if (!dim || !bound || !isOrder(op.getKind()))
    return std::nullopt;
  // An order holds for all of a range if it does at both ends.
  Range range = space.rangeOf(at[*dim]);
  auto holdsAt = [&](int64_t number) {
    return arith::applyCmpPredicate(
        predicatesOf(relationOf(op.getKind())).second, APInt(64, number, true),
        APInt(64, *bound, true));
  };
  bool atLow = holdsAt(range.low);
  if (atLow != holdsAt(range.high))
    return std::nullopt;
  return Element{arith.bits(builder.getI1Type(), atLow), false};
}

llvm::SmallVector<int64_t>
kerf::codegen::comparedColumns(llvm::ArrayRef<Value> roots, int64_t columns,
                               int64_t multiple) {
  llvm::SmallVector<int64_t> splits;
  forCone(roots, [&](Operation *op) {
    auto compare = dyn_cast<CompareOp>(op);
    if (!compare || !isOrder(compare.getKind()))
      return;
    auto dim = countedDim(compare.getLhs());
    auto bound = splatOf(compare.getRhs());
    if (!dim || !bound)
      return;
    auto type = typeOf(compare.getLhs());
    int64_t split = *bound / multiple * multiple;
    if (*dim == type.getRank() - 1 && type.getShape().back() == columns &&
        split > 0 && split < columns && !llvm::is_contained(splits, split))
      splits.push_back(split);
  });
  llvm::sort(splits);
  constexpr size_t limit = 2; // Each piece has code of its own.
  if (splits.size() > limit)
    splits.clear();
  return splits;
}

//===----------------------------------------------------------------------===//
// The element of a row that a number names
//===----------------------------------------------------------------------===//

namespace {
/// `reduce sum select(iota == number, from, 0)` over the last dimension.
struct Pick {
  Value number, from;
};
} // namespace

static bool isZero(Value tensor) {
  return matchPattern(tensor, m_PosZeroFloat());
}

static std::optional<Pick> pickOf(ReduceOp op) {
  int64_t last = typeOf(op.getX()).getRank() - 1;
  auto select = op.getX().getDefiningOp<SelectOp>();
  auto compare =
      select ? select.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  if (op.getKind() != ReduceKind::Sum || op.getDims().size() != 1 || !compare ||
      compare.getKind() != CompareKind::EQ || !isZero(select.getOnFalse()))
    return std::nullopt;
  for (auto [counted, number] :
       {std::pair{compare.getLhs(), compare.getRhs()},
        std::pair{compare.getRhs(), compare.getLhs()}}) {
    if (countedDim(counted) == last && isView(number, ViewKind::Repeat) &&
        !llvm::is_contained(viewOf(number.getDefiningOp())->dims, last) &&
        typeOf(number).getElementType().isInteger(32))
      return Pick{number, select.getOnTrue()};
  }
  return std::nullopt;
}

bool kerf::codegen::picks(ReduceOp op) { return pickOf(op).has_value(); }

Value Emitter::emitPick(const RowReduce &reduce) {
  ReduceOp op = reduce.op;
  Pick pick = *pickOf(op);
  int64_t count = typeOf(op.getX()).getShape().back();
  Indices at = reduce.at;
  at.push_back(Index());
  auto number = pull(pick.number, at);
  if (!number)
    return Value();
  Value wide =
      arith::ExtSIOp::create(builder, arith.loc, arith.i64(), number->value);
  Value inside =
      arith::CmpIOp::create(builder, arith.loc, arith::CmpIPredicate::ult, wide,
                            arith.bits(arith.i64(), count));
  Value safe = arith.select(inside, wide, arith.bits(arith.i64(), 0));
  at.back() = opaque(safe, {0, count - 1}, differs(reduce.at));
  auto element = pull(pick.from, at);
  if (!element)
    return Value();
  setInsertionPoint(depth());
  return arith.select(inside, element->value,
                      arith.number(element->value.getType(), 0));
}
