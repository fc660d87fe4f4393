//===- Loss.cpp - the loss over rows --------------------------------------===//
//
// A cross entropy that is spelled out: for each row, log(sum(exp(x))) - x[t],
// or the element t of a log-softmax, or their sum over a one-hot row; and a sum
// or mean of it over all rows, or over those for which a condition holds.
//
//===----------------------------------------------------------------------===//

#include "Views.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

namespace {

/// Rows and targets that were flattened keep their dimensions: batch and
/// sequence are what is sharded.
struct UnflattenLoss : OpRewritePattern<CrossEntropyOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CrossEntropyOp op,
                                PatternRewriter &rewriter) const override {
    auto logits = op.getLogits().getDefiningOp<ReshapeOp>();
    if (!logits)
      return failure();
    RankedTensorType rows = typeOf(logits.getX());
    llvm::ArrayRef<int64_t> lead = rows.getShape().drop_back();
    if (rows.getShape().back() != typeOf(op.getLogits()).getShape().back() ||
        lead == typeOf(op.getTargets()).getShape())
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    Value targets = p.reshape(op.getTargets(), lead);
    rewriter.modifyOpInPlace(op, [&] {
      op.getLogitsMutable().assign(logits.getX());
      op.getTargetsMutable().assign(targets);
    });
    return success();
  }
};

/// How targets are laid out changes no number of them.
struct CountUnflattened : OpRewritePattern<CountValidOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CountValidOp op,
                                PatternRewriter &rewriter) const override {
    auto targets = op.getTargets().getDefiningOp<ReshapeOp>();
    if (!targets)
      return failure();
    rewriter.modifyOpInPlace(
        op, [&] { op.getTargetsMutable().assign(targets.getX()); });
    return success();
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Losses that are spelled out
//===----------------------------------------------------------------------===//

/// True where dimensions follow those of the viewer in their order.
static bool isInOrder(const Seen &seen) {
  int64_t before = -1;
  for (auto [d, follows] : llvm::enumerate(seen.dims)) {
    if (typeOf(seen.value).getDimSize(d) == 1)
      continue;
    if (follows <= before)
      return false;
    before = follows;
  }
  return true;
}

/// True where `seen` has a value for each row of `viewer`, in their order; a
/// row is the last dimension where `isWide`, else an element.
static bool hasRowsOf(const Seen &seen, Value viewer, bool isWide) {
  llvm::ArrayRef<int64_t> shape = typeOf(viewer).getShape();
  int64_t rows = typeOf(viewer).getNumElements();
  if (isWide)
    rows /= shape.back();
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  bool variesInRow =
      isWide && llvm::any_of(llvm::enumerate(seen.dims), [&](auto pair) {
        return pair.value() == last &&
               typeOf(seen.value).getDimSize(pair.index()) != 1;
      });
  return isInOrder(seen) && !variesInRow &&
         typeOf(seen.value).getNumElements() == rows;
}

/// x of log(sum(exp(x))), as `seen` by its viewer; null else.
static Value unshiftedOf(Seen seen, Value viewer, bool isWide) {
  seen = lookThrough(seen);
  auto log = seen.op<LogOp>();
  Value sum = log && hasRowsOf(seen, viewer, isWide)
                  ? rowSumOf(log.getOperand())
                  : Value();
  auto exp = sum ? sum.getDefiningOp<ExpOp>() : nullptr;
  return exp ? exp->getOperand(0) : Value();
}

/// x of log(sum(exp(x))) along its last dimension, for each row of `value`, in
/// their order, also with some m of a row as m + log(sum(exp(x - m))); null
/// else. `isWide`: rows are repeated along the last dimension of `value`.
static Value logSumExpOf(Value value, bool isWide) {
  Seen seen = lookThrough(value);
  if (auto add = seen.op<AddOp>())
    for (auto [logarithm, shift] : bothOrders(add)) {
      Value inner = unshiftedOf({logarithm, seen.dims}, value, isWide);
      auto sub = inner ? inner.getDefiningOp<SubOp>() : nullptr;
      if (!sub || !isRowValue(sub.getRhs()))
        continue;
      Seen taken = lookThrough(sub.getRhs());
      Seen given = lookThrough({shift, seen.dims});
      if (taken.value == given.value &&
          hasRowsOf(taken, sub.getResult(), /*isWide=*/true) &&
          hasRowsOf(given, value, isWide))
        return sub.getLhs();
    }
  return unshiftedOf(seen, value, isWide);
}

/// x of a log-softmax of x: x - log(sum(exp(x))), with some m of a row taken
/// off both; null else.
static Value logSoftmaxOf(Value value) {
  auto sub = value.getDefiningOp<SubOp>();
  if (!sub || !isRowValue(sub.getRhs()) ||
      logSumExpOf(sub.getRhs(), /*isWide=*/true) != sub.getLhs())
    return {};
  return withoutRowValue(sub.getLhs());
}

namespace {

/// One element of each row.
struct Picked {
  Value x;       ///< [..., V]
  Value targets; ///< [...]: which
};

/// A loss per row, and the sign with which it stands there.
struct RowLoss {
  Picked picked;
  double sign = 1;
};

} // namespace

/// What a value is a view of.
static Value viewedBy(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The index of which `condition` [..., V] says for each column whether it is
/// that, as a value of the leading dimensions; null else.
static Value indexOf(Value condition) {
  auto compare = condition.getDefiningOp<CompareOp>();
  int64_t last = typeOf(condition).getRank() - 1;
  if (!compare || compare.getKind() != CompareKind::EQ)
    return {};
  for (auto [index, column] : bothOrders(compare)) {
    Seen count = lookThrough(column);
    auto iota = count.op<IotaOp>();
    if (!iota || iota.getOffset() || iota.getZigzag() ||
        count.dims[iota.getDim()] != last || !isRowValue(index))
      continue;
    // Rows stand in the order of the index's own dimensions.
    Seen seen = lookThrough(index);
    if (!isInOrder(seen))
      return {};
    // Of numbers that are no input's a one-hot row may be empty.
    if (!isa<BlockArgument>(viewedBy(seen.value)))
      return {};
    bool isWhole = typeOf(seen.value).getNumElements() *
                       typeOf(condition).getDimSize(last) ==
                   typeOf(condition).getNumElements();
    return isWhole ? seen.value : Value();
  }
  return {};
}

/// `x` [..., V] without dimensions of size 1 that its viewer has more; null
/// where rows are permuted.
static Value sameRows(Value x) {
  Seen seen = lookThrough(x);
  if (!isInOrder(seen))
    return {};
  bool isWhole =
      typeOf(seen.value).getNumElements() == typeOf(x).getNumElements() &&
      typeOf(seen.value).getShape().back() == typeOf(x).getShape().back();
  return isWhole ? seen.value : Value();
}

/// What a sum over rows picks: `t == column ? x : 0`, or a product with 0
/// and 1.
static std::optional<Picked> pickedOf(Value value) {
  Seen seen = lookThrough(value);
  bool isWhole = seen.op<ReduceOp>() &&
                 typeOf(seen.value).getNumElements() ==
                     typeOf(value).getNumElements(); // rows are not repeated
  Value masked = isWhole ? rowSumOf(seen.value) : Value();
  if (!masked)
    return std::nullopt;
  auto take = [](Value condition, Value x) -> std::optional<Picked> {
    Value targets = indexOf(condition);
    Value rows = targets ? sameRows(x) : Value();
    return rows ? std::optional(Picked{rows, targets}) : std::nullopt;
  };
  if (auto select = masked.getDefiningOp<SelectOp>())
    return splatOf(select.getOnFalse()) == 0.0
               ? take(select.getCondition(), select.getOnTrue())
               : std::nullopt;
  auto mul = masked.getDefiningOp<MulOp>();
  if (!mul)
    return std::nullopt;
  for (auto [indicator, x] : bothOrders(mul))
    if (auto cast = indicator.getDefiningOp<CastOp>())
      if (auto picked = take(cast.getX(), x))
        return picked;
  return std::nullopt;
}

/// The loss of which `value` has one for each row, in any shape.
static std::optional<RowLoss> rowLossOf(Value value) {
  if (auto sub = value.getDefiningOp<SubOp>())
    for (double sign : {1.0, -1.0}) {
      Value sum = sign > 0 ? sub.getLhs() : sub.getRhs();
      auto picked = pickedOf(sign > 0 ? sub.getRhs() : sub.getLhs());
      if (picked && logSumExpOf(sum, /*isWide=*/false) == picked->x)
        return RowLoss{*picked, sign};
    }
  auto picked = pickedOf(value);
  Value x = picked ? logSoftmaxOf(picked->x) : Value();
  if (!x)
    return std::nullopt;
  picked->x = x;
  return RowLoss{*picked, -1};
}

namespace {

/// `x weight` with a weight of 1 where a condition holds and 0 elsewhere.
struct Weighted {
  Value x, weight, condition;
};

/// A scalar that is made of a sum of row losses.
struct Total {
  Value value;
  double factor = 1;
  bool isWeightedMean = false; ///< divided by the sum of the weights
};

} // namespace

static std::optional<Weighted> weightedOf(Value value) {
  auto mul = value.getDefiningOp<MulOp>();
  if (!mul)
    return std::nullopt;
  for (auto [weight, x] : bothOrders(mul)) {
    Value condition;
    if (auto cast = weight.getDefiningOp<CastOp>())
      condition = cast.getX();
    else if (auto select = weight.getDefiningOp<SelectOp>();
             select && splatOf(select.getOnTrue()) == 1.0 &&
             splatOf(select.getOnFalse()) == 0.0)
      condition = select.getCondition();
    if (condition && typeOf(condition).getElementType().isInteger(1))
      return Weighted{x, weight, condition};
  }
  return std::nullopt;
}

/// Whether `value` is the sum of all of `weight`, or 1 if that is less.
static bool isSumOf(Value value, Value weight) {
  if (auto max = value.getDefiningOp<MaxOp>())
    for (auto [sum, least] : bothOrders(max))
      if (splatOf(least) == 1.0)
        return isSumOf(sum, weight);
  while (value != weight) {
    auto reduce = value.getDefiningOp<ReduceOp>();
    auto reshape = value.getDefiningOp<ReshapeOp>();
    if (!reshape && !(reduce && reduce.getKind() == ReduceKind::Sum))
      return false;
    value = reduce ? reduce.getX() : reshape.getX();
  }
  return true;
}

namespace {

/// A sum of row losses with numbers as factors, down to a scalar.
struct RaiseLoss : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  /// The values that nobody else reads, from `value` on, up to a scalar that
  /// is no part of another such chain. `weight` may be null.
  static std::optional<Total> totalOf(Value value, Value weight) {
    Total total;
    while (value.hasOneUse()) {
      Operation *user = *value.getUsers().begin();
      auto reduce = dyn_cast<ReduceOp>(user);
      auto div = dyn_cast<DivOp>(user);
      auto scaled =
          isa<MulOp, DivOp>(user) ? scaledOf(user->getResult(0)) : std::nullopt;
      if (scaled && scaled->x == value)
        total.factor *= scaled->factor;
      else if (weight && div && div.getLhs() == value &&
               typeOf(value).getRank() == 0 && isSumOf(div.getRhs(), weight))
        total.isWeightedMean = true;
      else if (isa<NegOp>(user))
        total.factor = -total.factor;
      else if (!isa<ReshapeOp>(user) &&
               !(reduce && reduce.getKind() == ReduceKind::Sum))
        break;
      value = user->getResult(0);
    }
    if (typeOf(value).getRank() != 0)
      return std::nullopt;
    total.value = value;
    return total;
  }

  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getKind() != ReduceKind::Sum)
      return failure();
    double factor = 1;
    Value rows = op.getX();
    std::optional<Weighted> weighted;
    while (true) { // factors before the sum
      if (auto scaled = scaledOf(rows)) {
        factor *= scaled->factor;
        rows = scaled->x;
      } else if (auto neg = rows.getDefiningOp<NegOp>()) {
        factor = -factor;
        rows = neg->getOperand(0);
      } else if (auto reshape = rows.getDefiningOp<ReshapeOp>()) {
        rows = reshape.getX();
      } else if (auto found = weightedOf(rows); found && !weighted) {
        weighted = found;
        rows = found->x;
      } else {
        break;
      }
    }
    auto loss = rowLossOf(rows);
    auto total =
        loss ? totalOf(op.getResult(), weighted ? weighted->weight : Value())
             : std::nullopt;
    if (!total)
      return failure();
    total->factor *= factor * loss->sign;
    rewrite(rewriter, op.getLoc(), *loss, *total,
            weighted ? weighted->condition : Value());
    return success();
  }

  /// Replaces the total of the losses. A mean is one of the targets that count:
  /// those of all rows, or of those for which `condition` holds.
  static void rewrite(PatternRewriter &rewriter, Location loc,
                      const RowLoss &loss, Total total, Value condition) {
    rewriter.setInsertionPointAfterValue(total.value);
    PlainBuilder p{rewriter, loc};
    Value x = loss.picked.x;
    llvm::ArrayRef<int64_t> lead = typeOf(x).getShape().drop_back();
    Value targets = p.reshape(loss.picked.targets, lead);
    auto rows = static_cast<double>(typeOf(targets).getNumElements());
    bool isMean = total.isWeightedMean;
    if (condition) {
      targets = p.select(p.reshape(condition, lead), targets, -100.0);
    } else if (std::abs(total.factor * rows - 1) < 1e-6) {
      isMean = true;
      total.factor = 1;
    }
    auto scalar = RankedTensorType::get({}, typeOf(x).getElementType());
    IntegerAttr ignore = IntegerAttr::get(
        IntegerType::get(rewriter.getContext(), 64, IntegerType::Signed), -100);
    Value count =
        isMean
            ? CountValidOp::create(rewriter, loc, targets, ignore).getResult()
            : p.constant(scalar, 1.0);
    Value sum = CrossEntropyOp::create(rewriter, loc, x, targets, count,
                                       /*offset=*/Value(), ignore,
                                       rewriter.getF64FloatAttr(0.0))
                    .getResult();
    if (total.factor != 1)
      sum = p.mul(sum, p.constant(scalar, total.factor));
    rewriter.replaceAllUsesExcept(total.value, sum, sum.getDefiningOp());
  }
};

} // namespace

void kerf::addLossPatterns(RewritePatternSet &patterns) {
  patterns.add<UnflattenLoss, CountUnflattened, RaiseLoss>(
      patterns.getContext());
}
