//===- KerfAttentionVariants.cpp - attention over a sharded sequence ------===//
//
// Problem: queries and keys of one sequence lie on several ranks, sharded
// over the same axes. Every query needs all keys (that it sees).
//
// Two ways, exact both:
//
// - Gather: every rank gets all keys and values and attends with its queries;
//   the gradients of keys and values are summed and scattered (Dubey et al.
//   2024, arXiv 2407.21783, section 3.3.2).
// - Ring: n steps, in each of which a rank attends to the keys it holds and
// then
//   takes those of the next rank. Results of two blocks of keys, with
//   logarithms of the sums of exponentials l and l', merge to
//
//       y = (e^(l - m) y + e^(l' - m) y') / (e^(l - m) + e^(l' - m)),  m =
//       max(l, l')
//
//   In the backward pass the gradients of keys and values travel with them and
//   are home after n steps (Liu et al. 2023, arXiv 2310.01889).
//
// Both send the same bytes. The ring holds two blocks of keys instead of all,
// for more and smaller messages; so keys are gathered where all of them, with
// their values, take no more than the rank's own queries and results: n G <= H,
// as with few key heads.
//
// With n = 2 and 8 keys: rank 1 attends to keys 4..7, then to 0..3.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

using Values = llvm::SmallVector<Value>;
using Shards = llvm::ArrayRef<FactorShard>;

namespace {
/// The operands of one attention that belong to keys, and what it must know of
/// their place.
struct Keys {
  Value k, v, segments; ///< `segments` may be null
  FactorShard shard;
};

/// An attention whose keys are sharded over the ranks of a group.
template <typename Op> struct ShardedAttention {
  CollectiveBuilder &collectives;
  Op op;
  Shards shards;
  unsigned factor; ///< of the keys

  PlainBuilder plain() { return {collectives.builder(), op.getLoc()}; }
  int64_t ranks() { return collectives.ranksOf(factor); }
  bool isGathered();
  Keys own();
  Keys gathered();
  Keys ofStep(const Keys &travelling, int64_t step);
  void rotate(Keys &keys);
  Op attend(const Keys &keys);
};
} // namespace

template <typename Op> bool ShardedAttention<Op>::isGathered() {
  int64_t heads = typeOf(op.getQ()).getDimSize(2);
  int64_t keyHeads = typeOf(op.getK()).getDimSize(2);
  return ranks() * keyHeads <= heads;
}

template <typename Op> Keys ShardedAttention<Op>::own() {
  Value segments =
      op.getSegments().empty() ? Value() : Value(op.getSegments()[1]);
  return {op.getK(), op.getV(), segments, shards[factor]};
}

template <typename Op> Keys ShardedAttention<Op>::gathered() {
  Keys keys = own();
  for (Value *value : {&keys.k, &keys.v, &keys.segments})
    if (*value)
      *value = collectives.gather(*value, 1, factor);
  keys.shard.localSize = keys.shard.globalSize;
  keys.shard.offset = {};
  return keys;
}

/// In step i the rank at place r has the keys of place r + i, modulo n.
template <typename Op>
Keys ShardedAttention<Op>::ofStep(const Keys &travelling, int64_t step) {
  Keys keys = travelling;
  if (step == 0)
    return keys;
  PlainBuilder p = plain();
  Value place = p.add(collectives.placeOf(factor), static_cast<double>(step));
  double n = ranks();
  place =
      p.select(p.compare(CompareKind::GE, place, n), p.add(place, -n), place);
  keys.shard.offset = p.mul(place, static_cast<double>(keys.shard.localSize));
  return keys;
}

template <typename Op> void ShardedAttention<Op>::rotate(Keys &keys) {
  for (Value *value : {&keys.k, &keys.v, &keys.segments})
    if (*value)
      *value = collectives.rotate(*value, factor);
}

/// The op on these keys; its results are those of the op's type, but for
/// gradients of keys.
template <typename Op> Op ShardedAttention<Op>::attend(const Keys &keys) {
  OpBuilder &builder = collectives.builder();
  auto copy = cast<Op>(builder.clone(*op.getOperation()));
  copy.getKMutable().assign(keys.k);
  copy.getVMutable().assign(keys.v);
  if (keys.segments)
    copy->setOperand(4, keys.segments); // q, k, v, then two segments
  llvm::SmallVector<FactorShard> local(shards);
  local[factor] = keys.shard;
  OpBuilder before(copy);
  copy.localize(before, local);
  return copy;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// `[B,H,Sq]` to all channels of `[B,Sq,H,E]`.
static Value perChannel(PlainBuilder &p, Value x, Value like) {
  return p.rows(p.transpose(x, {0, 2, 1}), typeOf(like).getShape());
}

namespace {
/// What was attended to so far.
struct Attended {
  Value y;   ///< widened
  Value lse; ///< [B,H,Sq]
};
} // namespace

static Attended merge(PlainBuilder &p, const Attended &a, const Attended &b) {
  Value max = p.max(a.lse, b.lse);
  Value left = p.exp(p.sub(a.lse, max)), right = p.exp(p.sub(b.lse, max));
  Value total = p.add(left, right);
  Value y = p.add(p.mul(a.y, perChannel(p, p.div(left, total), a.y)),
                  p.mul(b.y, perChannel(p, p.div(right, total), b.y)));
  return {y, p.add(max, p.log(total))};
}

/// The same attention, which tells its log-sum-exps too.
static AttentionOp withLogSumExp(OpBuilder &builder, AttentionOp op) {
  if (op.getLse())
    return op;
  auto made = AttentionOp::create(
      builder, op.getLoc(), op.getQ(), op.getK(), op.getV(), op.getSegments(),
      op.getOffsets(), op.getSeed(), op.getStep(), op.getLayer(),
      op.getCausalAttr(), op.getWindowAttr(), op.getScaleAttr(),
      op.getSoftcapAttr(), op.getDropoutAttr(), op.getNameAttr(),
      op.getGlobalAttr(), builder.getUnitAttr(), op.getZigzagAttr());
  op.erase();
  return made;
}

static Values attendInRing(ShardedAttention<AttentionOp> sharded) {
  PlainBuilder p = sharded.plain();
  Keys travelling = sharded.own();
  Attended all;
  for (int64_t step = 0; step < sharded.ranks(); ++step) {
    if (step > 0)
      sharded.rotate(travelling);
    AttentionOp block = withLogSumExp(
        p.builder, sharded.attend(sharded.ofStep(travelling, step)));
    Attended own = {p.widen(block.getResult()), block.getLogSumExp()};
    all = step == 0 ? own : merge(p, all, own);
  }
  Type element = typeOf(sharded.op.getResult()).getElementType();
  Values results = {p.cast(all.y, element)};
  if (sharded.op.getLse())
    results.push_back(all.lse);
  return results;
}

Values AttentionOp::buildVariant(CollectiveBuilder &collectives, Shards shards,
                                 llvm::ArrayRef<unsigned> variants, bool) {
  unsigned keys = getFactors().variants[variants[0]].factors[1];
  ShardedAttention<AttentionOp> sharded = {collectives, *this, shards, keys};
  if (!sharded.isGathered())
    return attendInRing(sharded);
  return Values(sharded.attend(sharded.gathered())->getResults());
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

static Values gradientsByGather(ShardedAttention<AttentionBackwardOp> sharded) {
  Keys keys = sharded.gathered();
  AttentionBackwardOp whole = sharded.attend(keys);
  whole.getDk().setType(typeOf(keys.k));
  whole.getDv().setType(typeOf(keys.v));
  auto home = [&](Value gradient) {
    return sharded.collectives.scatterSum(gradient, 1, sharded.factor);
  };
  return {whole.getDq(), home(whole.getDk()), home(whole.getDv())};
}

/// y and the log-sum-exps are those of all keys, so that each block has its own
/// part of every gradient.
static Values gradientsInRing(ShardedAttention<AttentionBackwardOp> sharded) {
  PlainBuilder p = sharded.plain();
  Keys travelling = sharded.own();
  Value dq, dk, dv;
  auto addTo = [&](Value &sum, Value part) {
    sum = sum ? p.add(sum, part) : part;
  };
  for (int64_t step = 0; step < sharded.ranks(); ++step) {
    if (step > 0)
      sharded.rotate(travelling);
    AttentionBackwardOp block =
        sharded.attend(sharded.ofStep(travelling, step));
    addTo(dq, p.widen(block.getDq()));
    addTo(dk, block.getDk());
    addTo(dv, block.getDv());
    dk = sharded.collectives.rotate(dk, sharded.factor);
    dv = sharded.collectives.rotate(dv, sharded.factor);
  }
  return {p.cast(dq, typeOf(sharded.op.getQ()).getElementType()), dk, dv};
}

Values AttentionBackwardOp::buildVariant(CollectiveBuilder &collectives,
                                         Shards shards,
                                         llvm::ArrayRef<unsigned> variants,
                                         bool) {
  unsigned keys = getFactors().variants[variants[0]].factors[1];
  ShardedAttention<AttentionBackwardOp> sharded = {collectives, *this, shards,
                                                   keys};
  return sharded.isGathered() ? gradientsByGather(sharded)
                              : gradientsInRing(sharded);
}
