//===- KerfLossSemantics.cpp - the loss as plain ops ----------------------===//
//
// Rows of logits may be split by the vocabulary (`split_vocabulary`): the
// maximum, the sum of exponentials and the target's logit are then combined
// over the group, two messages of a number or two per row. Source: Megatron-LM,
// `vocab_parallel_cross_entropy`.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

using Values = llvm::SmallVector<Value>;

static Value isValid(PlainBuilder &p, Value targets, int64_t ignore) {
  return p.compare(CompareKind::NE, targets, static_cast<double>(ignore));
}

Values CountValidOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value valid =
      p.indicator(isValid(p, getTargets(), getIgnore()), builder.getF32Type());
  return {p.sumAll(valid)};
}

namespace {
/// The ranks that have the parts of a row; one rank without `collectives`.
struct RowGroup {
  CollectiveBuilder *collectives = nullptr;
  unsigned factor = 0;

  Value max(Value x) const {
    return collectives ? collectives->max(x, factor) : x;
  }
  /// Sums values of one shape, in one message.
  void sum(PlainBuilder &p, llvm::MutableArrayRef<Value> values) const;
};

/// What loss and gradient of a cross entropy share.
struct RowLoss {
  Value logits; ///< widened [..., V], unless the target is asked for
  Value hit;    ///< i1 [..., V]: the target's entry
  Value valid;  ///< i1 [...]
  Value lse;    ///< [...]
  Value target; ///< [...]: the target's logit, if it is asked for
};
} // namespace

void RowGroup::sum(PlainBuilder &p, llvm::MutableArrayRef<Value> values) const {
  if (!collectives)
    return;
  if (values.size() == 1) {
    values[0] = collectives->sum(values[0], factor);
    return;
  }
  llvm::SmallVector<int64_t> shape(typeOf(values[0]).getShape());
  llvm::SmallVector<int64_t> one = {1}, offsets(shape.size() + 1, 0);
  llvm::append_range(one, shape);
  Values parts;
  for (Value value : values)
    parts.push_back(p.reshape(value, one));
  Value all = collectives->sum(p.concat(0, parts), factor);
  for (Value &value : values) {
    value = p.reshape(p.slice(all, offsets, one), shape);
    ++offsets[0];
  }
}

template <typename Op>
static RowLoss buildRowLoss(PlainBuilder &p, Op op, const RowGroup &group,
                            bool needsTarget) {
  RowLoss row;
  Value widened = p.widen(op.getLogits());
  // Between ranks there are several kernels. Each widens the logits anew: what
  // they shared would be kept in memory, twice as large as the logits.
  auto logits = [&] {
    return group.collectives ? p.widen(op.getLogits()) : widened;
  };
  llvm::ArrayRef<int64_t> shape = typeOf(widened).getShape();
  Value max = group.max(p.rowMax(widened));
  Value exps = p.exp(p.sub(logits(), p.rows(max, shape)));
  Value entry = p.iota(shape, shape.size() - 1, op.getOffset());
  row.hit = p.compare(CompareKind::EQ, entry, p.rows(op.getTargets(), shape));
  row.valid = isValid(p, op.getTargets(), op.getIgnore());
  Values sums = {p.rowSum(exps)};
  if (needsTarget)
    sums.push_back(p.rowSum(p.select(row.hit, logits(), 0.0)));
  group.sum(p, sums);
  row.lse = p.add(max, p.log(sums[0]));
  if (needsTarget)
    row.target = sums[1];
  else
    row.logits = logits();
  return row;
}

/// The normalizer, 1 where it is 0: a batch without valid targets has loss 0.
static Value divisor(PlainBuilder &p, Value normalizer) {
  Value isZero = p.compare(CompareKind::EQ, normalizer, 0.0);
  return p.select(isZero, p.constant(normalizer.getType(), 1.0), normalizer);
}

static Values buildLoss(PlainBuilder &p, CrossEntropyOp op,
                        const RowGroup &group) {
  RowLoss row = buildRowLoss(p, op, group, /*needsTarget=*/true);
  Value loss = p.sub(row.lse, row.target);
  double zLoss = op.getZLoss().convertToDouble();
  if (zLoss != 0)
    loss = p.add(loss, p.mul(p.mul(row.lse, row.lse), zLoss));
  Value total = p.sumAll(p.select(row.valid, loss, 0.0));
  total = p.cast(total, p.builder.getF32Type());
  return {p.div(total, divisor(p, op.getNormalizer()))};
}

static Values buildLossGradient(PlainBuilder &p, CrossEntropyBackwardOp op,
                                const RowGroup &group) {
  RowLoss row = buildRowLoss(p, op, group, /*needsTarget=*/false);
  llvm::ArrayRef<int64_t> shape = typeOf(row.logits).getShape();
  Type element = typeOf(row.logits).getElementType();
  Value dlogits = p.exp(p.sub(row.logits, p.rows(row.lse, shape)));
  double zLoss = op.getZLoss().convertToDouble();
  if (zLoss != 0)
    dlogits =
        p.mul(dlogits, p.rows(p.add(p.mul(row.lse, 2 * zLoss), 1.0), shape));
  dlogits = p.sub(dlogits, p.indicator(row.hit, element));
  Value scale =
      p.cast(p.div(op.getDy(), divisor(p, op.getNormalizer())), element);
  Value perRow =
      p.select(row.valid, p.broadcast(scale, {}, shape.drop_back()), 0.0);
  dlogits = p.mul(dlogits, p.rows(perRow, shape));
  return {p.cast(dlogits, typeOf(op.getResult()).getElementType())};
}

Values CrossEntropyOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  return buildLoss(p, *this, {});
}

Values CrossEntropyBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  return buildLossGradient(p, *this, {});
}

Values CrossEntropyOp::buildVariant(CollectiveBuilder &collectives,
                                    llvm::ArrayRef<FactorShard> shards,
                                    llvm::ArrayRef<unsigned> variants, bool) {
  PlainBuilder p{collectives.builder(), getLoc()};
  localize(p.builder, shards);
  unsigned vocabulary = getFactors().variants[variants[0]].factors[0];
  return buildLoss(p, *this, {&collectives, vocabulary});
}

Values CrossEntropyBackwardOp::buildVariant(CollectiveBuilder &collectives,
                                            llvm::ArrayRef<FactorShard> shards,
                                            llvm::ArrayRef<unsigned> variants,
                                            bool) {
  PlainBuilder p{collectives.builder(), getLoc()};
  localize(p.builder, shards);
  unsigned vocabulary = getFactors().variants[variants[0]].factors[0];
  return buildLossGradient(p, *this, {&collectives, vocabulary});
}
