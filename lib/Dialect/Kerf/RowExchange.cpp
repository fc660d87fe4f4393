//===- RowExchange.cpp - rows that ranks send to the owners of experts ----===//
//
// Problem: n ranks have the experts, E / n each, and tokens of their own. A
// token's rows are computed where their experts are. Messages have fixed sizes,
// though data decides how many rows go where.
//
// Idea: every pair of ranks exchanges the same number R of rows: the even share
// of the sender's choices times the plan's `moe_buffer`. A sender puts its rows
// in n rooms of R, one per rank, in the order of the experts; the receiver,
// which gets the sender's count per expert, knows from that what each row is.
// No number of an expert travels with a row.
//
// Choices are numbered group by group, by expert within a group. So a row's new
// place is its number plus a shift that only its group and expert decide: both
// sides compute places in one way (`placesOf`), from blocks of numbers that are
// sorted by expert (groups when sending, senders when receiving).
//
// Rows without room are dropped on both sides alike: nothing is read or written
// out of bounds, and the step ends before the update (`tellNeed`).
//
// Cost: n R rows out and back; E comparisons per choice, E / n per row.
//
// Example, two ranks, four experts, one group with sizes [3, 1, 0, 2] and
// moe_buffer = 1, so that R = 3: rows 0..2 leave in places 0..2 for rank 0, row
// 3 has no place, rows 4 and 5 leave in places 3 and 4 for rank 1. Four of six
// choices go to rank 0, whose even share is three: the step needs 4 / 3.
//
//===----------------------------------------------------------------------===//

#include "RowExchange.h"

using namespace mlir;
using namespace kerf;

using Shape = llvm::ArrayRef<int64_t>;

namespace {
/// Numbers of a block that belong to each owner, `[begin, end)`, and what takes
/// them to their places: `[A,E]` each, of A blocks.
struct Ranges {
  Value begin, end, shift;
};
} // namespace

/// Places of `index` `[A,...]`; -1 where no range has it.
static Value placesOf(PlainBuilder &p, Value index, const Ranges &ranges) {
  llvm::SmallVector<int64_t> full(typeOf(index).getShape());
  int64_t last = full.size();
  full.push_back(typeOf(ranges.begin).getDimSize(1));
  auto spread = [&](Value x) { return p.broadcast(x, {0, last}, full); };
  Value wide = p.rows(index, full);
  Value isIn =
      p.logicalAnd(p.compare(CompareKind::GE, wide, spread(ranges.begin)),
                   p.compare(CompareKind::LT, wide, spread(ranges.end)));
  // One range has the number, so the sum is its place; 0 is for none.
  Value place = p.add(p.add(wide, spread(ranges.shift)), 1.0);
  return p.add(p.rowSum(p.select(isIn, place, 0.0)), -1.0);
}

/// The part of `counts` rows that fits a room of `room` from row `at` on.
static Value fitting(PlainBuilder &p, Value counts, Value at, int64_t room) {
  return p.min(counts, p.max(p.sub(static_cast<double>(room), at), 0.0));
}

static Value before(PlainBuilder &p, Value x, int64_t dim) {
  return CumsumOp::create(p.builder, p.loc, x, dim);
}

/// Of this rank's choices, whose rooms lie one after the other.
static Ranges leaving(PlainBuilder &p, Value sizes, Value totals, int64_t ranks,
                      int64_t room) {
  Shape shape = typeOf(sizes).getShape(); // [G,E]
  int64_t byRank[] = {ranks, shape[1] / ranks};
  int64_t full[] = {shape[0], ranks, byRank[1]};
  Value inRoom = before(p, p.reshape(totals, byRank), 1);
  inRoom = p.broadcast(p.reshape(inRoom, {shape[1]}), {1}, shape);
  Value at = p.add(inRoom, before(p, sizes, 0));
  Value first = p.mul(p.iota(full, 1), static_cast<double>(room));
  Value begin = before(p, sizes, 1);
  Value end = p.add(begin, fitting(p, sizes, at, room));
  Value shift = p.sub(p.add(p.reshape(first, shape), at), begin);
  return {begin, end, shift};
}

/// Of what arrives: `counts` `[n,e]` by sender.
static Ranges arriving(PlainBuilder &p, Value counts, int64_t room) {
  Shape shape = typeOf(counts).getShape();
  Value begin = before(p, counts, 1);
  Value fits = fitting(p, counts, begin, room);
  Value first = before(p, p.sum(fits, {0}), 0);
  Value place = p.add(p.broadcast(first, {1}, shape), before(p, fits, 0));
  return {begin, p.add(begin, fits), p.sub(place, begin)};
}

RowExchange::RowExchange(PlainBuilder p, CollectiveBuilder &collectives,
                         unsigned factor, Value slots, Value sizes,
                         int64_t share)
    : p(p), collectives(collectives), factor(factor),
      ranks(collectives.ranksOf(factor)), groups(typeOf(sizes).getDimSize(0)),
      share(share) {
  int64_t room = groups * share, own = typeOf(sizes).getDimSize(1) / ranks;
  Value totals = p.sum(sizes, {0});
  perRank = p.rowSum(p.reshape(totals, {ranks, own}));
  Shape shape = typeOf(slots).getShape();
  Value index =
      p.reshape(slots, {groups, shape[0] / groups, shape[1], shape[2]});
  sent = p.reshape(placesOf(p, index, leaving(p, sizes, totals, ranks, room)),
                   shape);
  Value counts =
      collectives.exchange(p.reshape(totals, {ranks, 1, own}), 0, 1, factor);
  Ranges ranges = arriving(p, p.reshape(counts, {ranks, own}), room);
  received = p.reshape(placesOf(p, p.iota({ranks, room}, 1), ranges),
                       {1, ranks * room, 1});
}

Value RowExchange::send(Value tokens, Value weights) {
  int64_t width = typeOf(tokens).getDimSize(2), room = groups * share;
  auto table = withShape(tokens.getType(), {1, ranks * room, width});
  Value rows = DispatchOp::create(p.builder, p.loc, table, tokens, sent,
                                  weights, Value());
  rows =
      collectives.exchange(p.reshape(rows, {ranks, room, width}), 0, 1, factor);
  rows = DispatchOp::create(p.builder, p.loc, table, rows, received, Value(),
                            Value());
  return p.reshape(rows, {ranks * groups, share, width});
}

Value RowExchange::fetch(Value table) {
  int64_t width = typeOf(table).getDimSize(2), room = groups * share;
  Value rows = p.reshape(table, {1, ranks * room, width});
  rows = CombineOp::create(p.builder, p.loc, rows, received, Value(), Value());
  rows = collectives.exchange(rows, 1, 0, factor);
  return p.reshape(rows, {1, ranks * room, width});
}

void RowExchange::tellNeed(int64_t rows) {
  if (collectives.moeBuffer() == 0 || share >= rows)
    return;
  Value most = p.reduce(ReduceKind::Max, perRank, {0});
  Value overflows =
      p.compare(CompareKind::GT, most, static_cast<double>(groups * share));
  double evenShare = static_cast<double>(groups * rows) / double(ranks);
  Value need = p.mul(p.cast(most, p.builder.getF32Type()), 1 / evenShare);
  collectives.needMoeBuffer(p.select(overflows, need, 0.0));
}

Value kerf::exchangedSizes(PlainBuilder p, Value sizes, int64_t ranks,
                           int64_t share) {
  Shape shape = typeOf(sizes).getShape();
  int64_t groups = shape[0] / ranks;
  Value counts = p.sum(p.reshape(sizes, {ranks, groups, shape[1]}), {1});
  Value fits = fitting(p, counts, before(p, counts, 1), groups * share);
  return p.reshape(p.sum(fits, {0}), {1, shape[1]});
}
