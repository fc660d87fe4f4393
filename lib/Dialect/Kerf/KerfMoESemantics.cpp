//===- KerfMoESemantics.cpp - mixtures of experts as plain ops ------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <limits>

using namespace mlir;
using namespace kerf;

using Values = llvm::SmallVector<Value>;
using Shape = llvm::ArrayRef<int64_t>;

/// Rows of `x` as probabilities.
static Value probabilities(PlainBuilder &p, Value logits,
                           bool isSigmoid = false) {
  if (isSigmoid)
    return p.logistic(p.widen(logits));
  return SoftmaxOp::create(p.builder, p.loc, p.widen(logits));
}

/// `[..., j] -> [..., j, e]`: is choice j expert (or row) e.
static Value oneHot(PlainBuilder &p, Value index, int64_t count) {
  llvm::SmallVector<int64_t> shape(typeOf(index).getShape());
  shape.push_back(count);
  return p.compare(CompareKind::EQ, p.rows(index, shape),
                   p.iota(shape, shape.size() - 1));
}

//===----------------------------------------------------------------------===//
// Routing
//===----------------------------------------------------------------------===//

/// `x[..., index[..., j]]` of each row.
static Value pick(PlainBuilder &p, Value x, Value index) {
  Value hot = oneHot(p, index, typeOf(x).getDimSize(2));
  Value spread = p.broadcast(x, {0, 1, 3}, typeOf(hot).getShape());
  return p.rowSum(p.select(hot, spread, 0.0));
}

/// What chosen probabilities `[B,S,k]` are divided by.
static Value totalOf(PlainBuilder &p, Value chosen, bool isSigmoid) {
  Value total = p.rowSum(chosen);
  // All logistic functions of a token may be 0.
  if (isSigmoid)
    total = p.add(total, 1e-20);
  return p.rows(total, typeOf(chosen).getShape());
}

/// `score`, with -infinity for the experts of all groups but the best.
static Value inBestGroups(PlainBuilder &p, Value score, int64_t groups,
                          int64_t best, bool byLargest) {
  llvm::SmallVector<int64_t> shape(typeOf(score).getShape());
  Value byGroup =
      p.reshape(score, {shape[0], shape[1], groups, shape[2] / groups});
  Value top =
      TopKOp::create(p.builder, p.loc, byGroup, byLargest ? 1 : 2).getValues();
  auto chosen = TopKOp::create(p.builder, p.loc, p.rowSum(top), best);
  Value hot = oneHot(p, chosen.getIndices(), groups); // [B,S,best,groups]
  Value isBest = p.sum(p.indicator(hot, typeOf(score).getElementType()), {2});
  Value isOpen = p.compare(
      CompareKind::GT,
      p.reshape(p.rows(isBest, typeOf(byGroup).getShape()), shape), 0.0);
  return p.select(isOpen, score, -std::numeric_limits<double>::infinity());
}

Values RouteOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value probability = probabilities(p, getLogits(), getSigmoid());
  Value score = probability;
  if (Value bias = getBias())
    score = p.add(score, p.columns(p.cast(bias, typeOf(score).getElementType()),
                                   typeOf(score).getShape()));
  if (std::optional<int64_t> groups = getGroups())
    score = inBestGroups(p, score, *groups, *getBest(), getByLargest());
  auto best = TopKOp::create(builder, getLoc(), score, getK());
  Value weights = best.getValues();
  if (getBias())
    weights = pick(p, probability, best.getIndices());
  if (getRenormalize())
    weights = p.div(weights, totalOf(p, weights, getSigmoid()));
  if (FloatAttr scale = getScaleAttr())
    weights = p.mul(weights, scale.getValueAsDouble());
  return {weights, best.getIndices()};
}

/// `dlogits = P (dP - sum(dP P))`.
static Value throughSoftmax(PlainBuilder &p, Value probability, Value d) {
  return SoftmaxBackwardOp::create(p.builder, p.loc, probability, d);
}

/// `dlogits = P (1 - P) dP`.
static Value throughSigmoid(PlainBuilder &p, Value probability, Value d) {
  return p.mul(p.mul(probability, p.sub(1.0, probability)), d);
}

/// `[B,S,k]` of each row's experts as `[B,S,experts]`, 0 for others.
static Value spread(PlainBuilder &p, Value x, Value experts, int64_t count) {
  Value hot = oneHot(p, experts, count);
  return p.sum(p.select(hot, p.rows(x, typeOf(hot).getShape()), 0.0), {2});
}

Values RouteBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  int64_t count = typeOf(getLogits()).getDimSize(2);
  if (getRenormalize() && !getSigmoid()) {
    // A softmax of the chosen logits alone: for others exactly 0, which a
    // difference of sums would only be near, and Adam divides by its size.
    Value logits = p.widen(getLogits());
    Value weights =
        SoftmaxOp::create(builder, getLoc(), pick(p, logits, getExperts()));
    Value dw = p.cast(getDweights(), typeOf(logits).getElementType());
    if (FloatAttr scale = getScaleAttr())
      dw = p.mul(dw, scale.getValueAsDouble());
    Value d = throughSoftmax(p, weights, dw);
    return {p.cast(spread(p, d, getExperts(), count),
                   typeOf(getResult()).getElementType())};
  }
  Value probability = probabilities(p, getLogits(), getSigmoid());
  Type element = typeOf(probability).getElementType();
  Value dw = p.cast(getDweights(), element);
  if (FloatAttr scale = getScaleAttr())
    dw = p.mul(dw, scale.getValueAsDouble());
  if (getRenormalize()) {
    // w = q / sum q with q the chosen probabilities.
    Value q = pick(p, probability, getExperts());
    Value total = totalOf(p, q, getSigmoid());
    Value along =
        p.rows(p.rowSum(p.mul(dw, p.div(q, total))), typeOf(q).getShape());
    dw = p.div(p.sub(dw, along), total);
  }
  Value d = spread(p, dw, getExperts(), count);
  Value dlogits = getSigmoid() ? throughSigmoid(p, probability, d)
                               : throughSoftmax(p, probability, d);
  return {p.cast(dlogits, typeOf(getResult()).getElementType())};
}

Values ExpertLoadOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value hot = oneHot(p, getExperts(), typeOf(getResult()).getDimSize(0));
  return {
      p.sum(p.indicator(hot, typeOf(getResult()).getElementType()), {0, 1, 2})};
}

/// `[B,S,...] -> [G,T,...]`.
static Value byGroup(PlainBuilder &p, Value x, int64_t group) {
  Shape shape = typeOf(x).getShape();
  llvm::SmallVector<int64_t> grouped = {shape[0] / group, group * shape[1]};
  llvm::append_range(grouped, shape.drop_front(2));
  return p.reshape(x, grouped);
}

namespace {
/// The tokens of a group, of which this rank may have a part.
struct GroupTokens {
  int64_t sequences; ///< here
  double tokens;     ///< everywhere
  CollectiveBuilder *collectives = nullptr;
  llvm::SmallVector<unsigned, 2> split; ///< factors of tokens that are split

  /// The sum of parts `[G,E]` of a group.
  Value sum(Value x) const {
    for (unsigned factor : split)
      x = collectives->sum(x, factor);
    return x;
  }
};
} // namespace

/// All tokens are here.
template <typename Op> static GroupTokens tokensOf(Op op) {
  int64_t group = op.getGroup();
  double tokens = group * typeOf(op.getLogits()).getDimSize(1);
  return {group, tokens, nullptr, {}};
}

/// Sequences and positions of a group, the factors of the variant, may be
/// split.
template <typename Op>
static GroupTokens tokensOf(Op op, CollectiveBuilder &collectives,
                            llvm::ArrayRef<FactorShard> shards,
                            unsigned variant) {
  llvm::SmallVector<unsigned, 2> split =
      op.getFactors().variants[variant].factors;
  double tokens = 1;
  for (unsigned factor : split)
    tokens *= shards[factor].globalSize;
  int64_t sequences = shards[split[0]].localSize;
  llvm::erase_if(
      split, [&](unsigned factor) { return collectives.ranksOf(factor) == 1; });
  return {sequences, tokens, &collectives, split};
}

/// `E / T f_e`: what multiplies the sum of the probabilities of expert e,
/// as `[G,E]`.
static Value balanceFactor(PlainBuilder &p, Value experts,
                           const GroupTokens &group, int64_t count,
                           Type element) {
  Value choices = byGroup(p, experts, group.sequences);
  Value hot = p.indicator(oneHot(p, choices, count), element);
  Value counts = group.sum(p.sum(hot, {1, 2}));
  return p.mul(p.mul(counts, 1.0 / group.tokens), count / group.tokens);
}

static Values buildBalance(PlainBuilder &p, LoadBalanceLossOp op,
                           const GroupTokens &group) {
  Value probability =
      byGroup(p, probabilities(p, op.getLogits()), group.sequences);
  Value factor = balanceFactor(p, op.getExperts(), group,
                               typeOf(probability).getDimSize(2),
                               typeOf(probability).getElementType());
  Value total = group.sum(p.sum(probability, {1}));
  return {p.cast(p.sumAll(p.mul(factor, total)), p.builder.getF32Type())};
}

static Values buildBalanceGradient(PlainBuilder &p,
                                   LoadBalanceLossBackwardOp op,
                                   const GroupTokens &group) {
  Value probability = probabilities(p, op.getLogits());
  Type element = typeOf(probability).getElementType();
  Value grouped = byGroup(p, probability, group.sequences);
  Shape shape = typeOf(grouped).getShape();
  Value factor = balanceFactor(p, op.getExperts(), group, shape[2], element);
  Value dy = p.broadcast(p.cast(op.getDy(), element), {}, {shape[0], shape[2]});
  Value d = p.broadcast(p.mul(factor, dy), {0, 2}, shape);
  d = p.reshape(d, typeOf(probability).getShape());
  return {p.cast(throughSoftmax(p, probability, d),
                 typeOf(op.getResult()).getElementType())};
}

Values LoadBalanceLossOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  return buildBalance(p, *this, tokensOf(*this));
}

Values LoadBalanceLossBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  return buildBalanceGradient(p, *this, tokensOf(*this));
}

Values LoadBalanceLossOp::buildVariant(CollectiveBuilder &collectives,
                                       llvm::ArrayRef<FactorShard> shards,
                                       llvm::ArrayRef<unsigned> variants,
                                       bool) {
  PlainBuilder p{collectives.builder(), getLoc()};
  return buildBalance(p, *this,
                      tokensOf(*this, collectives, shards, variants[0]));
}

Values LoadBalanceLossBackwardOp::buildVariant(
    CollectiveBuilder &collectives, llvm::ArrayRef<FactorShard> shards,
    llvm::ArrayRef<unsigned> variants, bool) {
  PlainBuilder p{collectives.builder(), getLoc()};
  return buildBalanceGradient(
      p, *this, tokensOf(*this, collectives, shards, variants[0]));
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

Values AssignSlotsOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Type i32 = builder.getI32Type();
  Shape shape = typeOf(getExperts()).getShape();
  int64_t groups = shape[0] / getGroup(), tokens = getGroup() * shape[1];
  int64_t choices = tokens * shape[2], experts = getCount();
  // [G,T,k] -> [G,k,T] -> [G,kT]: first choices of all tokens come first.
  Value order = p.transpose(p.reshape(getExperts(), {groups, tokens, shape[2]}),
                            {0, 2, 1});
  Value chosen = p.reshape(order, {groups, choices});
  Value hot = p.indicator(oneHot(p, chosen, experts), i32);
  Value before = CumsumOp::create(builder, getLoc(), hot, 1);
  Value rank = p.rowSum(p.mul(hot, before));
  Value sizes = p.sum(hot, {1});
  Value slots;
  if (std::optional<int64_t> capacity = getCapacity()) {
    double c = *capacity;
    Value fits = p.compare(CompareKind::LT, rank, c);
    slots = p.select(fits, p.add(p.mul(chosen, c), rank), -1.0);
    sizes = p.min(sizes, c);
  } else {
    Value start = CumsumOp::create(builder, getLoc(), sizes, 1);
    Value own = p.broadcast(start, {0, 2}, {groups, choices, experts});
    slots = p.add(p.rowSum(p.mul(hot, own)), rank);
  }
  slots = p.transpose(p.reshape(slots, {groups, shape[2], tokens}), {0, 2, 1});
  return {p.reshape(slots, shape), sizes};
}

/// Slots of all groups' tables laid end to end; negative ones stay so.
static Value globalSlots(PlainBuilder &p, Value slots, int64_t groups,
                         int64_t rows) {
  if (groups == 1)
    return slots;
  Shape shape = typeOf(slots).getShape();
  Value group = p.iota({groups, shape[0] / groups, shape[1], shape[2]}, 0);
  Value base = p.reshape(p.mul(group, static_cast<double>(rows)), shape);
  Value dropped = p.compare(CompareKind::LT, slots, 0.0);
  return p.select(dropped, slots, p.add(slots, base));
}

//===----------------------------------------------------------------------===//
// Dispatch and combine
//===----------------------------------------------------------------------===//

Values DispatchOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  auto table = typeOf(getResult());
  Shape shape = table.getShape(), choices = typeOf(getSlots()).getShape();
  int64_t full[] = {choices[0], choices[1], choices[2], shape[2]};
  Value x = p.broadcast(p.widen(getX()), {0, 1, 3}, full);
  if (getWeights()) {
    Value weights = p.cast(getWeights(), typeOf(x).getElementType());
    x = p.mul(x, p.rows(weights, full));
  }
  // Slots of `assign_slots` are all different: a row is one choice's. It is
  // added to zero in the result's own type, so that no wider table is made.
  x = p.cast(x, table.getElementType());
  Value slots = globalSlots(p, getSlots(), shape[0], shape[1]);
  return {p.reshape(p.scatterAdd(x, slots, shape[0] * shape[1],
                                 /*distinct=*/true),
                    shape)};
}

/// Rows of the choices: `[B,S,k,D]`.
static Value chosenRows(PlainBuilder &p, Value rows, Value slots) {
  Shape table = typeOf(rows).getShape();
  Value flat = p.reshape(p.widen(rows), {table[0] * table[1], table[2]});
  return p.gather(flat, globalSlots(p, slots, table[0], table[1]));
}

Values CombineOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value rows = chosenRows(p, getRows(), getSlots());
  if (getWeights()) {
    Value weights = p.cast(getWeights(), typeOf(rows).getElementType());
    rows = p.mul(rows, p.rows(weights, typeOf(rows).getShape()));
  }
  return {p.cast(p.sum(rows, {2}), typeOf(getResult()).getElementType())};
}

Values CombineWeightGradientOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value rows = chosenRows(p, getRows(), getSlots());
  Value dy = p.cast(getDy(), typeOf(rows).getElementType());
  dy = p.broadcast(dy, {0, 1, 3}, typeOf(rows).getShape());
  return {
      p.cast(p.rowSum(p.mul(rows, dy)), typeOf(getResult()).getElementType())};
}

//===----------------------------------------------------------------------===//
// Grouped matmul
//===----------------------------------------------------------------------===//

/// `[G,R,E]`: 1 where expert e owns row r.
static Value owners(PlainBuilder &p, Value sizes, int64_t rows,
                    std::optional<int64_t> capacity, Type element) {
  Shape shape = typeOf(sizes).getShape();
  Value start = capacity
                    ? p.mul(p.iota(shape, 1), static_cast<double>(*capacity))
                    : Value(CumsumOp::create(p.builder, p.loc, sizes, 1));
  int64_t full[] = {shape[0], rows, shape[1]};
  Value row = p.iota(full, 1);
  auto spread = [&](Value x) { return p.broadcast(x, {0, 2}, full); };
  Value in = p.logicalAnd(
      p.compare(CompareKind::GE, row, spread(start)),
      p.compare(CompareKind::LT, row, spread(p.add(start, sizes))));
  return p.indicator(in, element);
}

Values GroupedMatmulOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value x = p.widen(getX());
  Type element = typeOf(x).getElementType();
  Value owner =
      owners(p, getSizes(), typeOf(x).getDimSize(1), getCapacity(), element);
  Value weight = p.cast(getWeight(), element);
  // A row has one owner: x, spread over experts, is zero for all others.
  bool t = getTransposed();
  Value spread = p.einsum(t ? "grn,gre->gren" : "grk,gre->grek", x, owner);
  Value y = p.einsum(t ? "gren,enk->grk" : "grek,enk->grn", spread, weight);
  return {p.cast(y, typeOf(getResult()).getElementType())};
}

Values GroupedWeightGradientOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value x = p.widen(getX());
  Type element = typeOf(x).getElementType();
  Value owner =
      owners(p, getSizes(), typeOf(x).getDimSize(1), getCapacity(), element);
  Value spread = p.einsum("grk,gre->grek", x, owner);
  Value dw = p.einsum("grn,grek->enk", p.cast(getDy(), element), spread);
  return {p.cast(dw, typeOf(getResult()).getElementType())};
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

LogicalResult RouteOp::buildGradient(GradientBuilder &gradients) {
  OpBuilder &builder = gradients.builder();
  if (gradients.needs(getLogits()))
    gradients.add(getLogits(),
                  RouteBackwardOp::create(
                      builder, getLoc(), getLogits(), getExperts(),
                      gradients.of(getWeights()), getRenormalizeAttr(),
                      getSigmoidAttr(), getScaleAttr()));
  if (getBias() && gradients.needs(getBias()))
    gradients.add(getBias(),
                  ExpertLoadOp::create(builder, getLoc(), getBias().getType(),
                                       getExperts()));
  return success();
}

LogicalResult LoadBalanceLossOp::buildGradient(GradientBuilder &gradients) {
  gradients.add(getLogits(),
                LoadBalanceLossBackwardOp::create(
                    gradients.builder(), getLoc(), getLogits(), getExperts(),
                    gradients.of(getResult()), getGroupAttr()));
  return success();
}

LogicalResult DispatchOp::buildGradient(GradientBuilder &gradients) {
  OpBuilder &builder = gradients.builder();
  Value dy = gradients.of(getResult());
  if (gradients.needs(getX()))
    gradients.add(getX(), CombineOp::create(builder, getLoc(), dy, getSlots(),
                                            getWeights(), getSizes()));
  if (getWeights() && gradients.needs(getWeights()))
    gradients.add(getWeights(),
                  CombineWeightGradientOp::create(
                      builder, getLoc(), dy, getSlots(), getX(), getSizes()));
  return success();
}

LogicalResult CombineOp::buildGradient(GradientBuilder &gradients) {
  OpBuilder &builder = gradients.builder();
  Value dy = gradients.of(getResult());
  if (gradients.needs(getRows()))
    gradients.add(getRows(),
                  DispatchOp::create(builder, getLoc(), getRows().getType(), dy,
                                     getSlots(), getWeights(), getSizes()));
  if (getWeights() && gradients.needs(getWeights()))
    gradients.add(getWeights(),
                  CombineWeightGradientOp::create(builder, getLoc(), getRows(),
                                                  getSlots(), dy, getSizes()));
  return success();
}

LogicalResult GroupedMatmulOp::buildGradient(GradientBuilder &gradients) {
  OpBuilder &builder = gradients.builder();
  Value dy = gradients.of(getResult());
  bool t = getTransposed();
  if (gradients.needs(getX()))
    gradients.add(getX(),
                  GroupedMatmulOp::create(builder, getLoc(), dy, getWeight(),
                                          getSizes(), getCapacityAttr(), !t));
  if (gradients.needs(getWeight())) {
    Value rowsN = t ? getX() : dy, rowsK = t ? dy : getX();
    gradients.add(getWeight(),
                  GroupedWeightGradientOp::create(
                      builder, getLoc(), getWeight().getType(), rowsN, rowsK,
                      getSizes(), getCapacityAttr()));
  }
  return success();
}
