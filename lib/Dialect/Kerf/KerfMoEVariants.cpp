//===- KerfMoEVariants.cpp - tables of rows whose experts are sharded -----===//
//
// Problem: every rank of a group has some of the experts. It needs the rows of
// tokens that chose these, and tokens need the rows of all their experts.
//
// Idea: the tokens of the group's sequences are there on all of its ranks (a
// gather, planned as any conversion). Each rank numbers the rows of its own
// experts from 0 and takes other choices for dropped ones; then `dispatch` and
// `combine` are what they are on one rank. What a rank brings back is a part
// of a sum over the group (a reduce-scatter).
//
// With a capacity a rank has as many rows as the others, a range of the table.
// Without one it has as many as tokens happened to choose its experts: its
// table has room for all, and the sizes say which range of the whole table is
// its own.
//
// The other way, by the variant `all_to_all`: tokens stay where they are, and
// their rows travel (RowExchange.cpp). Messages have fixed sizes: with room for
// all rows that is k times the bytes of a gather of tokens, with x times the
// even share x k / n times (`moe_buffer`). With a capacity, rows that are
// sharded by groups become sharded by experts in an all-to-all, where the plan
// says so.
//
// Example, slots 0..5 of one group, sizes [1, 2, 2, 1], two ranks: rank 1 has
// experts 2 and 3, which own rows 3..5; slots [4, 0, 5] are [1, -1, 2] there.
//
//===----------------------------------------------------------------------===//

#include "RowExchange.h"

using namespace mlir;
using namespace kerf;

using Shards = llvm::ArrayRef<FactorShard>;
using Variants = llvm::ArrayRef<unsigned>;
using Values = llvm::SmallVector<Value>;
using Shape = llvm::ArrayRef<int64_t>;

namespace {
/// Of each group, the rows that this rank has: `[G]`.
struct OwnRange {
  Value start, count;
};
} // namespace

/// Ranks own equal ranges of `rows` rows.
static OwnRange equalRange(PlainBuilder &p, CollectiveBuilder &collectives,
                           unsigned factor, int64_t rows, int64_t groups) {
  Value place = collectives.placeOf(factor);
  Value start = p.mul(place, static_cast<double>(rows));
  start = p.broadcast(start, {}, {groups});
  return {start, p.constant(start.getType(), rows)};
}

/// Ranks own the rows of as many experts each, `sizes` `[G,E]` rows.
static OwnRange rangeOfExperts(PlainBuilder &p, CollectiveBuilder &collectives,
                               unsigned factor, Value sizes) {
  Shape shape = typeOf(sizes).getShape();
  int64_t own = shape[1] / collectives.ranksOf(factor);
  assert(own * collectives.ranksOf(factor) == shape[1] && "experts divide");
  Value first = p.mul(collectives.placeOf(factor), static_cast<double>(own));
  Value before = p.compare(CompareKind::LT, p.iota(shape, 1),
                           p.broadcast(first, {}, shape));
  return {p.rowSum(p.select(before, sizes, 0.0)),
          p.rowSum(collectives.take(sizes, 1, factor))};
}

/// Slots in the rank's own table; -1 for rows of others.
static Value ownSlots(PlainBuilder &p, Value slots, const OwnRange &range) {
  Shape shape = typeOf(slots).getShape();
  int64_t groups = typeOf(range.start).getDimSize(0);
  int64_t full[] = {groups, shape[0] / groups, shape[1], shape[2]};
  auto perChoice = [&](Value x) {
    return p.reshape(p.broadcast(x, {0}, full), shape);
  };
  Value own = p.sub(slots, perChoice(range.start));
  Value isOwn =
      p.logicalAnd(p.compare(CompareKind::GE, own, 0.0),
                   p.compare(CompareKind::LT, own, perChoice(range.count)));
  return p.select(isOwn, own, -1.0);
}

/// The op on the rows of this rank's experts. `table` is its local table.
template <typename Op>
static Values buildOnOwnRows(Op op, Value table,
                             CollectiveBuilder &collectives) {
  PlainBuilder p{collectives.builder(), op.getLoc()};
  Factors facts = op.getFactors();
  const FactorMap &map = facts.maps[0];
  unsigned rows = isa<DispatchOp>(op) ? map.to[0] : map.from[0];
  Shape shape = typeOf(table).getShape();
  OwnRange range = op.getSizes()
                       ? rangeOfExperts(p, collectives, rows, op.getSizes())
                       : equalRange(p, collectives, rows, shape[1], shape[0]);
  Value slots = ownSlots(p, op.getSlots(), range);
  auto copy = cast<Op>(p.builder.clone(*op.getOperation()));
  copy.getSlotsMutable().assign(slots);
  copy.getSizesMutable().clear();
  return Values(copy->getResults());
}

/// The exchange of an op with `sizes`. `table` is its local one, whose rows are
/// the last factor of its variant.
template <typename Op>
static RowExchange exchangeOf(Op op, Value table,
                              CollectiveBuilder &collectives) {
  PlainBuilder p{collectives.builder(), op.getLoc()};
  unsigned rows = op.getFactors().variants[0].factors.back();
  return {p,
          collectives,
          rows,
          op.getSlots(),
          op.getSizes(),
          typeOf(table).getDimSize(1)};
}

Values DispatchOp::buildVariant(CollectiveBuilder &collectives, Shards shards,
                                Variants variants, bool) {
  if (variants.empty())
    return buildOnOwnRows(*this, getResult(), collectives);
  RowExchange exchange = exchangeOf(*this, getResult(), collectives);
  PhaseAttr phase = getPhase(*this);
  if (!phase || phase.getKind() == PhaseKind::Forward)
    exchange.tellNeed(
        shards[getFactors().variants[0].factors.back()].globalSize);
  return {exchange.send(getX(), getWeights())};
}

Values CombineOp::buildVariant(CollectiveBuilder &collectives, Shards,
                               Variants variants, bool) {
  if (variants.empty())
    return buildOnOwnRows(*this, getRows(), collectives);
  RowExchange exchange = exchangeOf(*this, getRows(), collectives);
  return {CombineOp::create(collectives.builder(), getLoc(),
                            exchange.fetch(getRows()), exchange.homeSlots(),
                            getWeights(), Value())};
}

Values CombineWeightGradientOp::buildVariant(CollectiveBuilder &collectives,
                                             Shards, Variants variants, bool) {
  if (variants.empty())
    return buildOnOwnRows(*this, getRows(), collectives);
  RowExchange exchange = exchangeOf(*this, getRows(), collectives);
  return {CombineWeightGradientOp::create(
      collectives.builder(), getLoc(), exchange.fetch(getRows()),
      exchange.homeSlots(), getDy(), Value())};
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

// Where rows lie with their experts in room for all, they come first in each
// group, in the experts' order, and the rank's part of the sizes counts them:
// the op is what it is on one rank. Rows that were exchanged are one group.

/// `[G,R,D]` as one group.
static Value asOneGroup(PlainBuilder &p, Value table) {
  Shape shape = typeOf(table).getShape();
  return p.reshape(table, {1, shape[0] * shape[1], shape[2]});
}

/// The sizes of that group.
template <typename Op>
static Value sizesOfOne(PlainBuilder &p, Op op,
                        CollectiveBuilder &collectives) {
  unsigned rows = op.getFactors().variants[0].factors.front();
  return exchangedSizes(p, op.getSizes(), collectives.ranksOf(rows),
                        typeOf(op.getX()).getDimSize(1));
}

Values GroupedMatmulOp::buildVariant(CollectiveBuilder &collectives, Shards,
                                     Variants variants, bool) {
  PlainBuilder p{collectives.builder(), getLoc()};
  if (variants.empty())
    return Values(p.builder.clone(*getOperation())->getResults());
  Value rows = GroupedMatmulOp::create(
      p.builder, getLoc(), asOneGroup(p, getX()), getWeight(),
      sizesOfOne(p, *this, collectives), IntegerAttr(), getTransposed());
  return {p.reshape(rows, typeOf(getResult()).getShape())};
}

Values GroupedWeightGradientOp::buildVariant(CollectiveBuilder &collectives,
                                             Shards, Variants variants, bool) {
  PlainBuilder p{collectives.builder(), getLoc()};
  if (variants.empty())
    return Values(p.builder.clone(*getOperation())->getResults());
  return {GroupedWeightGradientOp::create(
      p.builder, getLoc(), getResult().getType(), asOneGroup(p, getDy()),
      asOneGroup(p, getX()), sizesOfOne(p, *this, collectives), IntegerAttr())};
}
