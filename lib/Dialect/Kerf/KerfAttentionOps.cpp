//===- KerfAttentionOps.cpp - attention and its gradient ------------------===//
//
// Both ops read the same operands, so what they share is written once for any
// of the two: checks, factors, scores and masks.
//
//===----------------------------------------------------------------------===//

#include "Shard.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

using Types = llvm::SmallVectorImpl<Type>;
using OptionalLoc = std::optional<Location>;

//===----------------------------------------------------------------------===//
// Checks and types
//===----------------------------------------------------------------------===//

/// Shape errors of q, k and v; null when there are none.
static const char *findShapeError(RankedTensorType q, RankedTensorType k,
                                  RankedTensorType v) {
  if (q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4)
    return "q, k and v of rank 4"; // attention_c1
  if (q.getDimSize(0) != k.getDimSize(0) || k.getDimSize(0) != v.getDimSize(0))
    return "q, k and v that agree in their batch";
  if (k.getDimSize(1) != v.getDimSize(1) || k.getDimSize(2) != v.getDimSize(2))
    return "k and v that agree in sequence and heads";
  if (q.getDimSize(3) != k.getDimSize(3))
    return "q and k that agree in their last dimension";
  if (k.getDimSize(2) == 0 || q.getDimSize(2) % k.getDimSize(2) != 0)
    return "key heads that divide the query heads"; // attention_c2
  return nullptr;
}

/// Segments are absent, or `[B,Sq]` and `[B,Sk]`.
static bool segmentsFit(RankedTensorType q, RankedTensorType k,
                        ValueRange segments) {
  return segments.empty() ||
         (segments.size() == 2 &&
          typeOf(segments[0]).getShape() == q.getShape().take_front(2) &&
          typeOf(segments[1]).getShape() == k.getShape().take_front(2));
}

/// Queries and keys are all rows of the order, or parts of them.
template <typename Adaptor>
static bool zigzagFits(Adaptor op, llvm::ArrayRef<int64_t> scores) {
  ZigzagAttr zigzag = op.getZigzagAttr();
  if (!zigzag)
    return true;
  llvm::ArrayRef<int64_t> whole = op.getGlobal() ? *op.getGlobal() : scores;
  return zigzag.getDims() == llvm::ArrayRef<int64_t>{2, 3} &&
         whole[2] == zigzag.getRows() && whole[3] == zigzag.getRows();
}

template <typename Adaptor>
static LogicalResult checkAttention(OptionalLoc loc, llvm::StringRef name,
                                    Adaptor op) {
  auto q = typeOf(op.getQ()), k = typeOf(op.getK()), v = typeOf(op.getV());
  if (const char *expected = findShapeError(q, k, v))
    return emitOptionalError(loc, "'kerf.", name, "' expected ", expected,
                             ", found ", q, ", ", k, " and ", v);
  if (op.getWindow() && (*op.getWindow() < 1 || !op.getCausal()))
    return emitOptionalError(loc, "'kerf.", name, // attention_c3
                             "' expected a window >= 1 with 'causal', found ",
                             *op.getWindow(),
                             op.getCausal() ? " with" : " without", " it");
  if (!segmentsFit(q, k, op.getSegments())) // attention_c4
    return emitOptionalError(
        loc, "'kerf.", name, "' expected segments [B,Sq] and [B,Sk] of ", q,
        " and ", k, ", found ", op.getSegments().getTypes());
  llvm::SmallVector<int64_t> scores = {q.getDimSize(0), q.getDimSize(2),
                                       q.getDimSize(1), k.getDimSize(1)};
  bool shardFits = op.getOffsets().empty() || op.getOffsets().size() == 4;
  if (auto global = op.getGlobal()) {
    shardFits &= global->size() == 4;
    for (size_t d = 0; shardFits && d < 4; ++d)
      shardFits = (*global)[d] >= scores[d];
  }
  if (!shardFits) // attention_c4
    return emitOptionalError(loc, "'kerf.", name,
                             "' expected four offsets and four global sizes "
                             "not below the local ones");
  if (!zigzagFits(op, scores)) // attention_c6
    return emitOptionalError(loc, "'kerf.", name,
                             "' expected a zigzag along "
                             "[2, 3] of all queries and keys, found ",
                             op.getZigzagAttr());
  double cap = op.getSoftcap() ? op.getSoftcap()->convertToDouble() : 1;
  if (!(cap > 0) || !std::isfinite(cap)) // attention_c7
    return emitOptionalError(loc, "'kerf.", name,
                             "' expected a finite softcap > 0, found ", cap);
  if (!op.getDropout()) {
    return success();
  }
  double rate = op.getDropout()->convertToDouble();
  if (!(rate >= 0 && rate < 1) || !op.getName() || !op.getSeed() ||
      !op.getStep()) // attention_c5
    return emitOptionalError(loc, "'kerf.", name,
                             "' expected dropout in [0, 1) with name, seed and "
                             "step, found rate ",
                             rate);
  return success();
}

/// Type of the attention's result: q's rows with v's last dimension.
static RankedTensorType resultType(Value q, Value v) {
  llvm::SmallVector<int64_t> shape(typeOf(q).getShape());
  shape.back() = typeOf(v).getShape().back();
  return withShape(q.getType(), shape);
}

/// `[B,H,Sq]` of f32, or f64 for f64.
static RankedTensorType logSumExpType(Value q) {
  llvm::ArrayRef<int64_t> shape = typeOf(q).getShape();
  return withShape(computeType(q.getType()), {shape[0], shape[2], shape[1]});
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                            Adaptor adaptor, Types &types) {
  if (failed(checkAttention(loc, "attention", adaptor)))
    return failure();
  types.push_back(resultType(adaptor.getQ(), adaptor.getV()));
  if (adaptor.getLse())
    types.push_back(logSumExpType(adaptor.getQ()));
  return success();
}

LogicalResult AttentionBackwardOp::inferReturnTypes(MLIRContext *,
                                                    OptionalLoc loc,
                                                    Adaptor adaptor,
                                                    Types &types) {
  // attention_backward_c1
  if (failed(checkAttention(loc, "attention_backward", adaptor)))
    return failure();
  if (adaptor.getY().getType() != resultType(adaptor.getQ(), adaptor.getV()) ||
      adaptor.getLogSumExp().getType() != logSumExpType(adaptor.getQ()))
    return emitOptionalError( // attention_backward_c2
        loc, "'kerf.attention_backward' expected y of ",
        resultType(adaptor.getQ(), adaptor.getV()), " and lse of ",
        logSumExpType(adaptor.getQ()), ", found ", adaptor.getY().getType(),
        " and ", adaptor.getLogSumExp().getType());
  types.push_back(adaptor.getQ().getType());
  types.push_back(adaptor.getK().getType());
  types.push_back(adaptor.getV().getType());
  return success();
}

//===----------------------------------------------------------------------===//
// Factors and cost
//===----------------------------------------------------------------------===//

namespace {
/// Indices of attention's factors.
struct AttentionFactors {
  Factors facts{Positions::Read};
  unsigned b, g, r, q, k, d, e;
  TensorFactors query() const { return {{b}, {q}, {g, r}, {d}}; }
  TensorFactors key() const { return {{b}, {k}, {g}, {d}}; }
  TensorFactors value() const { return {{b}, {k}, {g}, {e}}; }
  TensorFactors result() const { return {{b}, {q}, {g, r}, {e}}; }
  TensorFactors logSumExp() const { return {{b}, {g, r}, {q}}; }
};
} // namespace

/// Factors of the operands both ops have. Keys must stay whole but for the
/// variant `ring`, which splits queries and keys on one axis.
template <typename Op> static AttentionFactors attentionFactors(Op op) {
  AttentionFactors f;
  llvm::ArrayRef<int64_t> q = typeOf(op.getQ()).getShape();
  llvm::ArrayRef<int64_t> k = typeOf(op.getK()).getShape();
  f.b = f.facts.add("b", q[0]);
  f.g = f.facts.add("g", k[2]);
  f.r = f.facts.add("r", q[2] / k[2]);
  f.q = f.facts.add("q", q[1]);
  f.k = f.facts.add("k", k[1], FactorKind::Whole);
  f.d = f.facts.add("d", q[3], FactorKind::Whole);
  // Dropout draws by global head: some heads of every group are no range.
  if (op.getDropout() && k[2] > 1)
    f.facts.factors[f.r].kind = FactorKind::Whole;
  f.e = f.facts.add("e", typeOf(op.getV()).getShape()[3]);
  f.facts.operands = {f.query(), f.key(), f.value()};
  if (!op.getSegments().empty()) {
    f.facts.operands.push_back({{f.b}, {f.q}});
    f.facts.operands.push_back({{f.b}, {f.k}});
  }
  size_t scalars = op.getOffsets().size() + bool(op.getSeed()) +
                   bool(op.getStep()) + bool(op.getLayer());
  f.facts.operands.resize(f.facts.operands.size() + scalars);
  f.facts.variants.push_back({"ring", {f.q, f.k}, /*together=*/true});
  if (!op.getDropout()) // which draws by row and head, too
    f.facts.placed = {f.q, f.k};
  return f;
}

LibraryCall AttentionOp::getLibraryCall() { return LibraryCall::Attention; }

LibraryCall AttentionBackwardOp::getLibraryCall() {
  return LibraryCall::AttentionGradient;
}

template <typename Op> static AttentionFacts scoreFacts(Op op) {
  return {op.getCausal(), bool(op.getSeed()), op.getSoftcap().has_value(),
          !op.getSegments().empty(), op.getWindow().value_or(0)};
}

AttentionFacts AttentionOp::getAttentionFacts() { return scoreFacts(*this); }

AttentionFacts AttentionBackwardOp::getAttentionFacts() {
  return scoreFacts(*this);
}

template <typename Op> static bool followsRows(Op op, unsigned factor) {
  AttentionFactors f = attentionFactors(op);
  return factor == f.q || factor == f.k;
}

template <typename Op> static void tellRows(Op op, RowOrders &orders) {
  if (orders.has(op.getQ(), 1))
    op.setZigzagAttr(cast<ZigzagAttr>(orders.along({2, 3})));
}

bool AttentionOp::followsOrder(unsigned factor) {
  return followsRows(*this, factor);
}

void AttentionOp::tellOrder(RowOrders &orders) { tellRows(*this, orders); }

bool AttentionBackwardOp::followsOrder(unsigned factor) {
  return followsRows(*this, factor);
}

void AttentionBackwardOp::tellOrder(RowOrders &orders) {
  tellRows(*this, orders);
}

Factors AttentionOp::getFactors() {
  AttentionFactors f = attentionFactors(*this);
  f.facts.looksBack = getCausal();
  f.facts.results.push_back(f.result());
  if (getLse()) // does not depend on v, so it is not linear in it
    f.facts.results.push_back(f.logSumExp());
  else
    f.facts.linearOperands = {2};
  return f.facts;
}

Factors AttentionBackwardOp::getFactors() {
  AttentionFactors f = attentionFactors(*this);
  f.facts.operands.push_back(f.result());
  f.facts.operands.push_back(f.logSumExp());
  f.facts.operands.push_back(f.result());
  f.facts.results = {f.query(), f.key(), f.value()};
  f.facts.linearOperands = {static_cast<unsigned>(getNumOperands() - 1)}; // dy
  // Splitting queries or the heads of a group leaves partial dk and dv;
  // splitting the value channels leaves partial sums in dq and dk.
  for (unsigned summed : {f.q, f.r, f.e})
    if (f.facts.factors[summed].kind != FactorKind::Whole)
      f.facts.factors[summed].kind = FactorKind::Sum;
  return f.facts;
}

/// Visible (query, key) pairs of one head and sequence.
template <typename Op> static double visiblePairs(Op op) {
  double queries = typeOf(op.getQ()).getDimSize(1);
  double keys = typeOf(op.getK()).getDimSize(1);
  if (!op.getCausal())
    return queries * keys;
  // On the square: a triangle, or a band of the window's width.
  double window =
      op.getWindow() ? std::min<double>(*op.getWindow(), keys) : keys;
  return queries * window - window * (window - 1) / 2;
}

/// Cost with `matmuls` matmuls over the visible scores.
template <typename Op>
static OpCost attentionCost(Op op, double overD, double overE) {
  llvm::ArrayRef<int64_t> q = typeOf(op.getQ()).getShape();
  double scores = static_cast<double>(q[0]) * q[2] * visiblePairs(op);
  double flops =
      2 * scores * (overD * q[3] + overE * typeOf(op.getV()).getDimSize(3));
  OpCost cost = costWithFlops(op, 0, 14 * scores);
  cost.attentionFlops = flops;
  return cost;
}

OpCost AttentionOp::getCost() { return attentionCost(*this, 1, 1); }

/// Five matmuls: the scores again, dv, dp, dq, dk.
OpCost AttentionBackwardOp::getCost() { return attentionCost(*this, 3, 2); }

//===----------------------------------------------------------------------===//
// Meaning
//===----------------------------------------------------------------------===//

namespace {
/// Scores and masks as `[B,G,R,Sq,Sk]`, with H = G R.
struct Scores {
  llvm::SmallVector<int64_t> shape;
  Value q, k, v;    ///< widened; q as [B,Sq,G,R,D]
  Value scaled;     ///< scale q k, under the soft cap
  Value visible;    ///< i1, or null when all are
  Value dropFactor; ///< 0 or 1/(1-rate), or null without dropout
};
} // namespace

template <typename Op> static double scaleOf(Op op) {
  if (auto scale = op.getScale())
    return scale->convertToDouble();
  return 1.0 / std::sqrt(static_cast<double>(typeOf(op.getQ()).getDimSize(3)));
}

template <typename Op> static Value offsetOf(Op op, unsigned dim) {
  return op.getOffsets().empty() ? Value() : op.getOffsets()[dim];
}

template <typename Op>
static Value buildVisible(PlainBuilder &p, Op op,
                          llvm::ArrayRef<int64_t> shape) {
  Value visible;
  auto require = [&](Value condition) {
    visible = visible ? p.logicalAnd(visible, condition) : condition;
  };
  if (op.getCausal()) {
    Value i = p.iota(shape, 3, offsetOf(op, 2), op.getZigzagAttr());
    Value j = p.iota(shape, 4, offsetOf(op, 3), op.getZigzagAttr());
    require(p.compare(CompareKind::LE, j, i));
    if (auto window = op.getWindow())
      require(p.compare(CompareKind::GT, p.add(j, static_cast<double>(*window)),
                        i));
  }
  if (!op.getSegments().empty())
    require(p.compare(CompareKind::EQ,
                      p.broadcast(op.getSegments()[0], {0, 3}, shape),
                      p.broadcast(op.getSegments()[1], {0, 4}, shape)));
  return visible;
}

/// Random factors are drawn over [B,H,Sq,Sk].
template <typename Op>
static Value buildDropFactor(PlainBuilder &p, Op op, const Scores &scores) {
  double rate = op.getDropout() ? op.getDropout()->convertToDouble() : 0;
  if (rate == 0)
    return {};
  llvm::ArrayRef<int64_t> s = scores.shape;
  auto type =
      withShape(scores.scaled.getType(), {s[0], s[1] * s[2], s[3], s[4]});
  Value uniform = RandomUniformOp::create(
      p.builder, p.loc, type, op.getNameAttr(), op.getSeed(), op.getStep(),
      op.getLayer(), op.getOffsets(), op.getGlobalAttr(), op.getZigzagAttr());
  Value kept = p.compare(CompareKind::GE, uniform, rate);
  return p.reshape(p.select(kept, p.constant(type, 1.0 / (1.0 - rate)), 0.0),
                   s);
}

/// Scores under a soft cap.
template <typename Op>
static Value buildCapped(PlainBuilder &p, Op op, Value scores) {
  if (!op.getSoftcap())
    return scores;
  double cap = op.getSoftcap()->convertToDouble();
  return p.mul(p.tanh(p.mul(scores, 1.0 / cap)), cap);
}

template <typename Op> static Scores buildScores(PlainBuilder &p, Op op) {
  Scores s;
  llvm::ArrayRef<int64_t> q = typeOf(op.getQ()).getShape();
  llvm::ArrayRef<int64_t> k = typeOf(op.getK()).getShape();
  int64_t groups = k[2], heads = q[2] / k[2];
  s.shape = {q[0], groups, heads, q[1], k[1]};
  s.q = p.reshape(p.widen(op.getQ()), {q[0], q[1], groups, heads, q[3]});
  s.k = p.widen(op.getK());
  s.v = p.widen(op.getV());
  Value matmuls = p.einsum("bqgrd,bkgd->bgrqk", s.q, s.k);
  s.scaled = buildCapped(p, op, p.mul(matmuls, scaleOf(op)));
  s.visible = buildVisible(p, op, s.shape);
  s.dropFactor = buildDropFactor(p, op, s);
  return s;
}

llvm::SmallVector<Value> AttentionOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Scores s = buildScores(p, *this);
  constexpr double hidden = -1e30; // finite: a row without keys stays finite
  Value scores = s.visible ? p.select(s.visible, s.scaled, hidden) : s.scaled;
  Value max = p.rowMax(scores);
  Value exps = p.exp(p.sub(scores, p.rows(max, s.shape)));
  if (s.visible)
    exps = p.select(s.visible, exps, 0.0);
  Value total = p.rowSum(exps);
  // A row without a visible key has total 0 and gives zeros.
  Value some = p.compare(CompareKind::GT, total, 0.0);
  Value divisor = p.select(some, total, 1.0);
  Value probabilities = p.div(exps, p.rows(divisor, s.shape));
  if (s.dropFactor)
    probabilities = p.mul(probabilities, s.dropFactor);
  Value y = p.einsum("bgrqk,bkge->bqgre", probabilities, s.v);
  auto type = typeOf(getResult());
  y = p.cast(p.reshape(y, type.getShape()), type.getElementType());
  if (!getLse())
    return {y};
  Value lse = p.add(max, p.log(divisor));
  return {y, p.reshape(lse, typeOf(getLogSumExp()).getShape())};
}

llvm::SmallVector<Value> AttentionBackwardOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Scores s = buildScores(p, *this);
  llvm::ArrayRef<int64_t> perRow = llvm::ArrayRef(s.shape).drop_back();
  auto split = [&](Value y) { // [B,Sq,H,E] -> [B,Sq,G,R,E]
    llvm::ArrayRef<int64_t> shape = typeOf(y).getShape();
    return p.reshape(p.widen(y),
                     {shape[0], shape[1], s.shape[1], s.shape[2], shape[3]});
  };
  Value y = split(getY()), dy = split(getDy());
  Value lse = p.reshape(getLogSumExp(), perRow);
  Value probabilities = p.exp(p.sub(s.scaled, p.rows(lse, s.shape)));
  if (s.visible)
    probabilities = p.select(s.visible, probabilities, 0.0);
  Value dropped = probabilities;
  Value dp = p.einsum("bqgre,bkge->bgrqk", dy, s.v);
  if (s.dropFactor) {
    dropped = p.mul(probabilities, s.dropFactor);
    dp = p.mul(dp, s.dropFactor);
  }
  Value delta = p.transpose(p.rowSum(p.mul(dy, y)), {0, 2, 3, 1});
  Value ds = p.mul(probabilities, p.sub(dp, p.rows(delta, s.shape)));
  ds = p.mul(ds, scaleOf(*this));
  if (getSoftcap()) {
    Value part = p.mul(s.scaled, 1.0 / getSoftcap()->convertToDouble());
    ds = p.mul(ds, p.sub(1.0, p.mul(part, part)));
  }
  // k and v are shared by the r heads of a group: merge r and q to one letter.
  auto merged = [&](Value x) { // [B,G,R,Sq,Sk] -> [B,G,R*Sq,Sk]
    return p.reshape(
        x, {s.shape[0], s.shape[1], s.shape[2] * s.shape[3], s.shape[4]});
  };
  auto mergedRows = [&](Value x) { // [B,Sq,G,R,E] -> [B,G,R*Sq,E]
    x = p.transpose(x, {0, 2, 3, 1, 4});
    return p.reshape(x, {s.shape[0], s.shape[1], s.shape[2] * s.shape[3],
                         typeOf(x).getDimSize(4)});
  };
  Value dq = p.einsum("bgrqk,bkgd->bqgrd", ds, s.k);
  Value dk = p.einsum("bgqk,bgqd->bkgd", merged(ds), mergedRows(s.q));
  Value dv = p.einsum("bgqk,bgqe->bkge", merged(dropped), mergedRows(dy));
  auto finish = [&](Value x, Value like) {
    return p.cast(p.reshape(x, typeOf(like).getShape()),
                  typeOf(like).getElementType());
  };
  return {finish(dq, getQ()), finish(dk, getK()), finish(dv, getV())};
}

//===----------------------------------------------------------------------===//
// Gradient
//===----------------------------------------------------------------------===//

/// Adds the gradients of an attention's operands, from results y and lse that
/// belong together: its own, or with a sink beside them.
static void addGradient(GradientBuilder &gradients, AttentionOp forward,
                        Value y, Value lse, Value dy) {
  auto backward = AttentionBackwardOp::create(
      gradients.builder(), forward.getLoc(), forward.getQ(), forward.getK(),
      forward.getV(), forward.getSegments(), forward.getOffsets(),
      forward.getSeed(), forward.getStep(), forward.getLayer(),
      forward.getCausalAttr(), forward.getWindowAttr(), forward.getScaleAttr(),
      forward.getSoftcapAttr(), forward.getDropoutAttr(), forward.getNameAttr(),
      forward.getGlobalAttr(), y, lse, dy, forward.getZigzagAttr());
  gradients.add(forward.getQ(), backward.getDq());
  gradients.add(forward.getK(), backward.getDk());
  gradients.add(forward.getV(), backward.getDv());
}

LogicalResult AttentionOp::buildGradient(GradientBuilder &gradients) {
  if (getLse() && gradients.has(getLogSumExp())) {
    auto diagnostic = emitOpError("has no gradient through its log-sum-exp");
    diagnostic.attachNote() << "it can only be returned, as a metric";
    return diagnostic;
  }
  Value dy = gradients.of(getResult());
  AttentionOp forward = *this;
  if (!getLse()) { // The gradient needs the sums of exponentials.
    OpBuilder builder(*this);
    forward = AttentionOp::create(
        builder, getLoc(), getQ(), getK(), getV(), getSegments(), getOffsets(),
        getSeed(), getStep(), getLayer(), getCausalAttr(), getWindowAttr(),
        getScaleAttr(), getSoftcapAttr(), getDropoutAttr(), getNameAttr(),
        getGlobalAttr(), builder.getUnitAttr(), getZigzagAttr());
    gradients.replaceForward(*this, forward);
  }
  addGradient(gradients, forward, forward.getResult(), forward.getLogSumExp(),
              dy);
  return success();
}

//===----------------------------------------------------------------------===//
// Sinks
//===----------------------------------------------------------------------===//

LogicalResult AttentionSinkOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                                Adaptor adaptor, Types &types) {
  auto y = typeOf(adaptor.getY());
  Type lse = adaptor.getLogSumExp().getType();
  bool fits = y.getRank() == 4 && lse == logSumExpType(adaptor.getY()) &&
              typeOf(adaptor.getSink()).getShape() ==
                  llvm::ArrayRef<int64_t>{y.getDimSize(2)};
  if (!fits) // attention_sink_c1
    return emitOptionalError(
        loc,
        "'kerf.attention_sink' expected y [B,Sq,H,Dv], its lse [B,H,Sq] and a "
        "sink [H], found ",
        y, ", ", lse, " and ", adaptor.getSink().getType());
  types.assign({y, lse});
  return success();
}

Factors AttentionSinkOp::getFactors() {
  llvm::ArrayRef<int64_t> y = typeOf(getY()).getShape();
  Factors facts{Positions::Ignored};
  unsigned b = facts.add("b", y[0]), q = facts.add("q", y[1]);
  unsigned h = facts.add("h", y[2]), e = facts.add("e", y[3]);
  TensorFactors result = {{b}, {q}, {h}, {e}}, lse = {{b}, {h}, {q}};
  facts.operands = {result, lse, {{h}}};
  facts.results = {result, lse};
  return facts;
}

OpCost AttentionSinkOp::getCost() {
  return costWithFlops(*this, 0,
                       typeOf(getY()).getNumElements() +
                           6.0 * typeOf(getLogSumExp()).getNumElements());
}

/// A number per head to `[B,H,Sq]`.
static Value perHead(PlainBuilder &p, Value sink, Value lse) {
  return p.broadcast(p.cast(sink, typeOf(lse).getElementType()), {1},
                     typeOf(lse).getShape());
}

/// log(e^a + e^b).
static Value logOfSum(PlainBuilder &p, Value a, Value b) {
  Value high = p.max(a, b), low = p.min(a, b);
  return p.add(high, p.log(p.add(p.exp(p.sub(low, high)), 1.0)));
}

llvm::SmallVector<Value> AttentionSinkOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  Value lse = getLogSumExp();
  Value all = logOfSum(p, lse, perHead(p, getSink(), lse));
  Value part = p.exp(p.sub(lse, all)); // that attends to something
  Value y = p.widen(getY());
  Value z =
      p.mul(y, p.rows(p.transpose(part, {0, 2, 1}), typeOf(y).getShape()));
  return {p.cast(z, typeOf(getY()).getElementType()), all};
}

/// The sink has no value: its score's gradient is -p sum_d dz z.
static Value sinkGradient(PlainBuilder &p, AttentionSinkOp op, Value dz) {
  Value lse = op.getAllLogSumExp();
  Value weight = p.exp(p.sub(perHead(p, op.getSink(), lse), lse));
  Value delta = p.rowSum(p.mul(p.widen(dz), p.widen(op.getResult())));
  Value each = p.neg(p.mul(weight, p.transpose(delta, {0, 2, 1})));
  return p.cast(p.reduce(ReduceKind::Sum, each, {0, 2}),
                typeOf(op.getSink()).getElementType());
}

LogicalResult AttentionSinkOp::buildGradient(GradientBuilder &gradients) {
  auto attention = getY().getDefiningOp<AttentionOp>();
  if (!attention || getLogSumExp() != attention.getLogSumExp() ||
      gradients.has(getAllLogSumExp()))
    return emitOpError("has a gradient where y and lse are of one "
                       "'kerf.attention' and its own lse is not used");
  Value dz = gradients.of(getResult());
  addGradient(gradients, attention, getResult(), getAllLogSumExp(), dz);
  PlainBuilder p{gradients.builder(), getLoc()};
  if (gradients.needs(getSink()))
    gradients.add(getSink(), sinkGradient(p, *this, dz));
  return success();
}
