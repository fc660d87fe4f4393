#include "kerf/Dialect/Kerf/Kerf.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfMoEOps.cpp.inc"

using Types = llvm::SmallVectorImpl<Type>;
using OptionalLoc = std::optional<Location>;
using Shape = llvm::ArrayRef<int64_t>;

static RankedTensorType floatTensor(MLIRContext *context, Shape shape) {
  return RankedTensorType::get(shape, Float32Type::get(context));
}

static RankedTensorType intTensor(MLIRContext *context, Shape shape) {
  return RankedTensorType::get(shape, IntegerType::get(context, 32));
}

/// The dimension, 0 when the rank is too small.
static int64_t dimOf(Value value, int64_t d) {
  return d < typeOf(value).getRank() ? typeOf(value).getDimSize(d) : 0;
}

/// True when `value` has rank 3 and the first two dimensions of `like`.
static bool isPerToken(Value value, Value like) {
  return typeOf(value).getRank() == 3 && typeOf(like).getRank() == 3 &&
         typeOf(value).getShape().take_front(2) ==
             typeOf(like).getShape().take_front(2);
}

//===----------------------------------------------------------------------===//
// Routing
//===----------------------------------------------------------------------===//

/// Checks the groups of experts of which a token's best are chosen from.
static LogicalResult checkGroups(OptionalLoc loc, RouteOp::Adaptor adaptor,
                                 int64_t experts) {
  if (!adaptor.getGroups() && !adaptor.getBest())
    return success();
  int64_t groups = adaptor.getGroups().value_or(0);
  int64_t best = adaptor.getBest().value_or(0);
  if (groups >= 1 && experts % groups == 0 && experts / groups >= 2 &&
      best >= 1 && best <= groups && adaptor.getK() <= experts / groups * best)
    return success();
  return emitOptionalError(loc, // route_c3
                           "'kerf.route' expected groups of 2 or more of ",
                           experts, " experts, of which the best have ",
                           adaptor.getK(), ", found groups ", groups, " best ",
                           best);
}

LogicalResult RouteOp::inferReturnTypes(MLIRContext *context, OptionalLoc loc,
                                        Adaptor adaptor, Types &types) {
  auto logits = typeOf(adaptor.getLogits());
  int64_t k = adaptor.getK();
  if (logits.getRank() != 3 || k < 1 || k > logits.getDimSize(2)) // route_c1
    return emitOptionalError(loc,
                             "'kerf.route' expected logits of rank 3 and "
                             "1 <= k <= experts, found ",
                             logits, " and k ", k);
  int64_t experts = logits.getDimSize(2);
  Value bias = adaptor.getBias();
  if (bias && typeOf(bias).getShape() != Shape{experts}) // route_c2
    return emitOptionalError(loc, "'kerf.route' expected a bias of shape [",
                             experts, "], found ", bias.getType());
  if (failed(checkGroups(loc, adaptor, experts)))
    return failure();
  if (auto scale = adaptor.getScaleAttr())
    if (double value = scale.getValueAsDouble();
        !(value > 0) || !std::isfinite(value)) // route_c4
      return emitOptionalError(
          loc, "'kerf.route' expected a finite scale > 0, found ", value);
  int64_t shape[] = {logits.getDimSize(0), logits.getDimSize(1), k};
  types.push_back(logits.getElementType().isF64()
                      ? withShape(logits, shape)
                      : floatTensor(context, shape));
  types.push_back(intTensor(context, shape));
  return success();
}

Factors RouteOp::getFactors() {
  llvm::SmallVector<std::string> operands = {"bse"};
  if (getBias())
    operands.push_back("e");
  return labelledFactors(*this, Positions::Ignored, operands, {"bsk", "bsk"},
                         {}, "ek");
}

bool RouteOp::hasOwnLoops() { return true; }

bool RouteBackwardOp::hasOwnLoops() { return true; }

OpCost RouteOp::getCost() {
  return costWithFlops(*this, 0, 16 * elementCount(getLogits()));
}

bool RouteOp::keepsWide(OpOperand &operand) {
  // Steps of a bias are small beside it; sigmoids, unlike a softmax, are
  // compared as they are.
  return getSigmoid() || &operand != &getLogitsMutable();
}

LogicalResult RouteBackwardOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                                Adaptor adaptor, Types &types) {
  if (!isPerToken(adaptor.getExperts(), adaptor.getLogits()) ||
      typeOf(adaptor.getExperts()).getShape() !=
          typeOf(adaptor.getDweights()).getShape()) // route_backward_c1
    return emitOptionalError(loc,
                             "'kerf.route_backward' expected experts and "
                             "weights [B,S,k] of logits [B,S,E], found ",
                             adaptor.getExperts().getType(), ", ",
                             adaptor.getDweights().getType(), " and ",
                             adaptor.getLogits().getType());
  types.push_back(adaptor.getLogits().getType());
  return success();
}

Factors RouteBackwardOp::getFactors() {
  return labelledFactors(*this, Positions::Ignored, {"bse", "bsk", "bsk"},
                         {"bse"}, {2}, "ek");
}

OpCost RouteBackwardOp::getCost() {
  return costWithFlops(*this, 0, 20 * elementCount(getLogits()));
}

LogicalResult ExpertLoadOp::verify() {
  if (typeOf(getExperts()).getRank() == 3 &&
      typeOf(getResult()).getRank() == 1) // expert_load_c1
    return success();
  return emitOpError() << "expected experts of rank 3 and a result of rank 1, "
                          "found "
                       << getExperts().getType() << " and "
                       << getResult().getType();
}

Factors ExpertLoadOp::getFactors() {
  Factors facts =
      labelledFactors(*this, Positions::Ignored, {"bsk"}, {"e"}, {}, "ke");
  facts.looksBack = true;
  return facts;
}

/// Shared by the load-balance loss and its gradient.
static LogicalResult checkBalance(OptionalLoc loc, llvm::StringRef op,
                                  Value logits, Value experts, int64_t group) {
  if (!isPerToken(experts, logits)) // load_balance_loss_c1,
                                    // load_balance_loss_backward_c1
    return emitOptionalError(loc, "'kerf.", op,
                             "' expected logits [B,S,E] and experts [B,S,k], "
                             "found ",
                             logits.getType(), " and ", experts.getType());
  if (group < 1 || dimOf(logits, 0) % group != 0) // load_balance_loss_c2
    return emitOptionalError(loc, "'kerf.", op,
                             "' expected a group >= 1 that divides ",
                             dimOf(logits, 0), ", found ", group);
  return success();
}

LogicalResult LoadBalanceLossOp::verify() {
  return checkBalance(getLoc(), "load_balance_loss", getLogits(), getExperts(),
                      getGroup());
}

/// `[G n, S, E], [G n, S, k]`: a split of G sums losses; a split inside a
/// group must reduce counts and means, which is the op's own communication.
static Factors balanceFactors(Operation *op, int64_t group, bool backward) {
  Factors facts(Positions::Ignored);
  Shape logits = typeOf(op->getOperand(0)).getShape();
  unsigned g = facts.add("g", logits[0] / group, FactorKind::Sum);
  unsigned n = facts.add("n", group, FactorKind::Whole);
  unsigned s = facts.add("s", logits[1], FactorKind::Whole);
  unsigned e = facts.add("e", logits[2], FactorKind::Whole);
  unsigned k = facts.add("k", typeOf(op->getOperand(1)).getDimSize(2),
                         FactorKind::Whole);
  facts.operands = {{{g, n}, {s}, {e}}, {{g, n}, {s}, {k}}};
  facts.operands.resize(op->getNumOperands());
  facts.results = {backward ? facts.operands[0] : TensorFactors()};
  facts.variants.push_back({"reduce_group", {n, s}});
  if (backward)
    facts.linearOperands = {2};
  return facts;
}

Factors LoadBalanceLossOp::getFactors() {
  return balanceFactors(*this, getGroup(), /*backward=*/false);
}

OpCost LoadBalanceLossOp::getCost() {
  return costWithFlops(*this, 0, 16 * elementCount(getLogits()));
}

LogicalResult LoadBalanceLossBackwardOp::inferReturnTypes(MLIRContext *,
                                                          OptionalLoc loc,
                                                          Adaptor adaptor,
                                                          Types &types) {
  types.push_back(adaptor.getLogits().getType());
  return checkBalance(loc, "load_balance_loss_backward", adaptor.getLogits(),
                      adaptor.getExperts(), adaptor.getGroup());
}

Factors LoadBalanceLossBackwardOp::getFactors() {
  return balanceFactors(*this, getGroup(), /*backward=*/true);
}

OpCost LoadBalanceLossBackwardOp::getCost() {
  return costWithFlops(*this, 0, 20 * elementCount(getLogits()));
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

LogicalResult AssignSlotsOp::inferReturnTypes(MLIRContext *context,
                                              OptionalLoc loc, Adaptor adaptor,
                                              Types &types) {
  auto experts = typeOf(adaptor.getExperts());
  if (experts.getRank() != 3) // assign_slots_c1
    return emitOptionalError(
        loc, "'kerf.assign_slots' expected experts of rank 3, found ", experts);
  int64_t group = adaptor.getGroup(), count = adaptor.getCount();
  int64_t capacity = adaptor.getCapacity().value_or(1);
  constexpr int64_t limit = 1 << 20;
  if (group < 1 || experts.getDimSize(0) % group != 0 || count < 1 ||
      count > limit || capacity < 1)
    return emitOptionalError( // assign_slots_c2
        loc, "'kerf.assign_slots' expected a group >= 1 that divides ",
        experts.getDimSize(0),
        ", a count >= 1 and a capacity >= 1, found group ", group, ", count ",
        count, " and capacity ", adaptor.getCapacity().value_or(1));
  types.push_back(experts);
  types.push_back(intTensor(context, {experts.getDimSize(0) / group, count}));
  return success();
}

/// Factors of ops over tokens `[g n, s, ...]` and tables `[g, ...]`.
namespace {
struct TokenFactors {
  Factors facts{Positions::Ignored};
  unsigned g, n, s, k;
  TensorFactors choices() const { return {{g, n}, {s}, {k}}; }
};
} // namespace

static TokenFactors tokenFactors(Shape choices, int64_t groups,
                                 FactorKind token, FactorKind choice) {
  TokenFactors t;
  t.g = t.facts.add("g", groups);
  t.n = t.facts.add("n", groups ? choices[0] / groups : 0, token);
  t.s = t.facts.add("s", choices[1], token);
  t.k = t.facts.add("k", choices[2], choice);
  return t;
}

Factors AssignSlotsOp::getFactors() {
  TokenFactors t =
      tokenFactors(typeOf(getExperts()).getShape(), dimOf(getSizes(), 0),
                   FactorKind::Whole, FactorKind::Whole);
  unsigned e = t.facts.add("e", getCount(), FactorKind::Whole);
  t.facts.operands = {t.choices()};
  t.facts.results = {t.choices(), {{t.g}, {e}}};
  t.facts.looksBack = true;
  return t.facts;
}

/// Of each row and expert, how many rows came before.
OpCost AssignSlotsOp::getCost() {
  OpCost cost = pointwiseCost(*this);
  cost.tableBytes = 4.0 * typeOf(getExperts()).getNumElements() * getCount();
  return cost;
}

//===----------------------------------------------------------------------===//
// Dispatch and combine
//===----------------------------------------------------------------------===//

/// Shapes of tokens `[B,S,D]`, choices `[B,S,k]` and a table `[G,R,D]` agree.
static bool tableFits(Shape tokens, Shape choices, Shape table) {
  return tokens.size() == 3 && choices.size() == 3 && table.size() == 3 &&
         tokens.take_front(2) == choices.take_front(2) &&
         tokens[2] == table[2] && table[0] > 0 && tokens[0] % table[0] == 0;
}

/// Optional operands: weights `[B,S,k]` and sizes `[G,E]`.
static bool optionsFit(Value weights, Value sizes, Value slots, Value table) {
  return (!weights || typeOf(weights).getShape() == typeOf(slots).getShape()) &&
         (!sizes ||
          (typeOf(sizes).getRank() == 2 && dimOf(sizes, 0) == dimOf(table, 0)));
}

LogicalResult DispatchOp::verify() {
  if (!tableFits(typeOf(getX()).getShape(), typeOf(getSlots()).getShape(),
                 typeOf(getResult()).getShape()) ||
      !optionsFit(getWeights(), getSizes(), getSlots(), getResult()))
    return emitOpError() // dispatch_c1
           << "expected x [B,S,D], slots and weights [B,S,k], sizes [G,E] and "
              "result [G,R,D] with G dividing B, found "
           << getX().getType() << ", " << getSlots().getType() << " and "
           << getResult().getType();
  return success();
}

/// Sizes are the last operand. With them rows have owners, each as many as it
/// happens to have.
static void addSizes(TokenFactors &t, Value sizes, unsigned r) {
  if (!sizes)
    return;
  unsigned e = t.facts.add("e", dimOf(sizes, 1), FactorKind::Whole);
  t.facts.operands.push_back({{t.g}, {e}});
  t.facts.maps[0].ragged = r;
  FactorVariant exchange = {"all_to_all", {t.g, r}};
  exchange.exchanges = true;
  t.facts.variants.push_back(exchange);
}

Factors DispatchOp::getFactors() {
  Shape table = typeOf(getResult()).getShape();
  TokenFactors t = tokenFactors(typeOf(getSlots()).getShape(), table[0],
                                FactorKind::Sum, FactorKind::Sum);
  unsigned r = t.facts.add("r", table[1], FactorKind::Whole);
  unsigned d = t.facts.add("d", table[2]);
  t.facts.operands = {{{t.g, t.n}, {t.s}, {d}}, t.choices()};
  if (getWeights())
    t.facts.operands.push_back(t.choices());
  t.facts.results = {{{t.g}, {r}, {d}}};
  t.facts.linearOperands = {0};
  t.facts.maps.push_back({1, {t.n, t.s, t.k}, {r}});
  addSizes(t, getSizes(), r);
  t.facts.looksBack = true;
  return t.facts;
}

OpCost DispatchOp::getCost() {
  return costWithFlops(*this, 0, getWeights() ? elementCount(getResult()) : 0);
}

LogicalResult CombineOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                          Adaptor adaptor, Types &types) {
  auto rows = typeOf(adaptor.getRows()), slots = typeOf(adaptor.getSlots());
  int64_t shape[] = {dimOf(adaptor.getSlots(), 0), dimOf(adaptor.getSlots(), 1),
                     dimOf(adaptor.getRows(), 2)};
  if (!tableFits(shape, slots.getShape(), rows.getShape()) ||
      !optionsFit(adaptor.getWeights(), adaptor.getSizes(), adaptor.getSlots(),
                  adaptor.getRows())) // combine_c1
    return emitOptionalError(loc,
                             "'kerf.combine' expected rows [G,R,D], slots "
                             "and weights [B,S,k] and sizes [G,E] with G "
                             "dividing B, found ",
                             rows, " and ", slots);
  types.push_back(withShape(rows, shape));
  return success();
}

/// `third` is dy `[B,S,D]` of the weights' gradient, else weights `[B,S,k]` or
/// null.
static Factors combineFactors(Operation *op, Value third, Value sizes,
                              bool weightGradient) {
  Shape table = typeOf(op->getOperand(0)).getShape();
  TokenFactors t = tokenFactors(
      typeOf(op->getOperand(1)).getShape(), table[0], FactorKind::Parallel,
      weightGradient ? FactorKind::Parallel : FactorKind::Sum);
  unsigned r = t.facts.add("r", table[1], FactorKind::Whole);
  unsigned d = t.facts.add(
      "d", table[2], weightGradient ? FactorKind::Sum : FactorKind::Parallel);
  TensorFactors tokens = {{t.g, t.n}, {t.s}, {d}};
  t.facts.operands = {{{t.g}, {r}, {d}}, t.choices()};
  if (third)
    t.facts.operands.push_back(weightGradient ? tokens : t.choices());
  t.facts.results = {weightGradient ? t.choices() : tokens};
  t.facts.linearOperands = {0};
  t.facts.maps.push_back({1, {r}, {t.n, t.s, t.k}});
  addSizes(t, sizes, r);
  return t.facts;
}

Factors CombineOp::getFactors() {
  Factors facts = combineFactors(*this, getWeights(), getSizes(), false);
  facts.looksBack = true;
  return facts;
}

OpCost CombineOp::getCost() {
  return costWithFlops(*this, 0,
                       2 * elementCount(getResult()) * dimOf(getSlots(), 2));
}

LogicalResult CombineWeightGradientOp::inferReturnTypes(MLIRContext *context,
                                                        OptionalLoc loc,
                                                        Adaptor adaptor,
                                                        Types &types) {
  if (!tableFits(typeOf(adaptor.getDy()).getShape(),
                 typeOf(adaptor.getSlots()).getShape(),
                 typeOf(adaptor.getRows()).getShape()) ||
      !optionsFit({}, adaptor.getSizes(), adaptor.getSlots(),
                  adaptor.getRows()))
    return emitOptionalError( // combine_weight_gradient_c1
        loc,
        "'kerf.combine_weight_gradient' expected rows [G,R,D], slots "
        "[B,S,k], dy [B,S,D] and sizes [G,E], found ",
        adaptor.getRows().getType(), ", ", adaptor.getSlots().getType(),
        " and ", adaptor.getDy().getType());
  Shape shape = typeOf(adaptor.getSlots()).getShape();
  auto dy = typeOf(adaptor.getDy());
  types.push_back(dy.getElementType().isF64() ? withShape(dy, shape)
                                              : floatTensor(context, shape));
  return success();
}

Factors CombineWeightGradientOp::getFactors() {
  return combineFactors(*this, getDy(), getSizes(), true);
}

OpCost CombineWeightGradientOp::getCost() {
  return costWithFlops(*this, 0,
                       2 * elementCount(getDy()) * dimOf(getSlots(), 2));
}

//===----------------------------------------------------------------------===//
// Grouped matmul
//===----------------------------------------------------------------------===//

/// R = E C with a capacity.
static bool capacityFits(std::optional<int64_t> capacity, int64_t rows,
                         int64_t experts) {
  return !capacity ||
         (*capacity >= 1 && *capacity <= rows && rows == experts * *capacity);
}

LogicalResult GroupedMatmulOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                                Adaptor adaptor, Types &types) {
  auto x = typeOf(adaptor.getX()), weight = typeOf(adaptor.getWeight());
  auto sizes = typeOf(adaptor.getSizes());
  bool transposed = adaptor.getTransposed();
  bool fits = x.getRank() == 3 && weight.getRank() == 3 &&
              sizes.getRank() == 2 && sizes.getDimSize(0) == x.getDimSize(0) &&
              sizes.getDimSize(1) == weight.getDimSize(0) &&
              x.getDimSize(2) == weight.getDimSize(transposed ? 1 : 2);
  if (!fits) // grouped_matmul_c1
    return emitOptionalError(loc,
                             "'kerf.grouped_matmul' expected x [G,R,K], "
                             "weight [E,N,K] and sizes [G,E], found ",
                             x, ", ", weight, " and ", sizes);
  std::optional<int64_t> capacity = adaptor.getCapacity();
  if (!capacityFits(capacity, x.getDimSize(1), weight.getDimSize(0)))
    return emitOptionalError(loc, // grouped_matmul_c2
                             "'kerf.grouped_matmul' expected ",
                             weight.getDimSize(0), " experts with capacity ",
                             *capacity, " to own ", x.getDimSize(1), " rows");
  types.push_back(withShape(x, {x.getDimSize(0), x.getDimSize(1),
                                weight.getDimSize(transposed ? 2 : 1)}));
  return success();
}

namespace {
/// Factors of ops over rows `[G,R,*]`, weights `[E,N,K]` and sizes `[G,E]`.
struct ExpertFactors {
  Factors facts{Positions::Ignored};
  unsigned g, e, n, k;
  DimFactors r;
  TensorFactors rows(unsigned inner) const { return {{g}, r, {inner}}; }
  TensorFactors weight() const { return {{e}, {n}, {k}}; }
};
} // namespace

/// With a capacity R is `e c`, and splitting experts splits their rows.
/// Without, the rows that an expert owns depend on the sizes before it: neither
/// may be split, but the map says how rows may be sent to their experts.
static ExpertFactors expertFactors(Shape rows, Shape weight,
                                   std::optional<int64_t> capacity) {
  ExpertFactors f;
  f.g = f.facts.add("g", rows[0]);
  f.e = f.facts.add("e", weight[0],
                    capacity ? FactorKind::Parallel : FactorKind::Whole);
  unsigned r = f.facts.add(capacity ? "c" : "r", capacity.value_or(rows[1]),
                           FactorKind::Whole);
  f.n = f.facts.add("n", weight[1]);
  f.k = f.facts.add("k", weight[2]);
  f.r = {r};
  if (capacity) {
    f.r = {f.e, r};
  } else {
    f.facts.maps.push_back({2, {r}, {f.e}, /*ragged=*/static_cast<int>(r)});
    FactorVariant exchange = {"all_to_all", {r, f.e}, /*together=*/true};
    exchange.exchanges = true;
    f.facts.variants.push_back(exchange);
  }
  f.facts.linearOperands = {0, 1};
  return f;
}

LibraryCall GroupedMatmulOp::getLibraryCall() {
  return LibraryCall::GroupedMatmul;
}

Factors GroupedMatmulOp::getFactors() {
  ExpertFactors f = expertFactors(
      typeOf(getX()).getShape(), typeOf(getWeight()).getShape(), getCapacity());
  unsigned inner = getTransposed() ? f.n : f.k;
  unsigned outer = getTransposed() ? f.k : f.n;
  f.facts.factors[inner].kind = FactorKind::Sum;
  f.facts.operands = {f.rows(inner), f.weight(), {{f.g}, {f.e}}};
  f.facts.results = {f.rows(outer)};
  f.facts.looksBack = true;
  return f.facts;
}

OpCost GroupedMatmulOp::getCost() {
  double rows = double(elementCount(getX())) / dimOf(getX(), 2);
  return costWithFlops(
      *this, 2 * rows * dimOf(getWeight(), 1) * dimOf(getWeight(), 2), 0);
}

LogicalResult GroupedWeightGradientOp::verify() {
  auto dy = typeOf(getDy()), x = typeOf(getX()), sizes = typeOf(getSizes());
  auto result = typeOf(getResult());
  bool fits = dy.getRank() == 3 && x.getRank() == 3 && sizes.getRank() == 2 &&
              result.getRank() == 3 &&
              dy.getShape().take_front(2) == x.getShape().take_front(2) &&
              sizes.getDimSize(0) == x.getDimSize(0) &&
              result.getShape() ==
                  Shape{sizes.getDimSize(1), dy.getDimSize(2), x.getDimSize(2)};
  if (!fits) // grouped_weight_gradient_c1
    return emitOpError() << "expected dy [G,R,N], x [G,R,K], sizes [G,E] and "
                            "result [E,N,K], found "
                         << dy << ", " << x << ", " << sizes << " and "
                         << result;
  if (!capacityFits(getCapacity(), x.getDimSize(1), sizes.getDimSize(1)))
    return emitOpError() << "expected " << sizes.getDimSize(1)
                         << " experts with capacity " << *getCapacity()
                         << " to own " << x.getDimSize(1)
                         << " rows"; // grouped_weight_gradient_c2
  return success();
}

LibraryCall GroupedWeightGradientOp::getLibraryCall() {
  return LibraryCall::GroupedGradient;
}

Factors GroupedWeightGradientOp::getFactors() {
  ExpertFactors f = expertFactors(
      typeOf(getX()).getShape(), typeOf(getResult()).getShape(), getCapacity());
  f.facts.factors[f.g].kind = FactorKind::Sum;
  f.facts.operands = {f.rows(f.n), f.rows(f.k), {{f.g}, {f.e}}};
  f.facts.results = {f.weight()};
  return f.facts;
}

OpCost GroupedWeightGradientOp::getCost() {
  return costWithFlops(*this, 2 * elementCount(getDy()) * dimOf(getX(), 2), 0);
}
