//===- Routes.cpp - routers of experts ------------------------------------===//
//
// A `route` stands for what graphs write in several ops, each found alone:
//
//   choice   the k largest of p = softmax(logits) or logistic(logits), or of
//            p + bias, or of those among the best groups of experts; or of the
//            logits themselves, whose softmax or logistic is taken then
//   weights  p of those, taken along the last dimension by their numbers
//   sum, factor   weights divided by their sum, times a number
//
// Rows, batch times sequence, may be one dimension or two, so values are asked
// for by row and column.
//
//===----------------------------------------------------------------------===//

#include "Views.h"

#include "kerf/Dialect/Kerf/Constants.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

//===----------------------------------------------------------------------===//
// Values by row and column
//===----------------------------------------------------------------------===//

/// What is behind reshapes and changes of type.
static Value behindShape(Value value) {
  while (true) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<ReshapeOp, CastOp>(op))
      return value;
    value = op->getOperand(0);
  }
}

/// The same of an element, behind all views.
static Element behind(Element element) {
  while (true) {
    element = sourceOf(element);
    auto cast = element.value.getDefiningOp<CastOp>();
    if (!cast)
      return element;
    element.value = cast.getX();
  }
}

/// Of a scalar one.
static int64_t columnsOf(Value value) {
  llvm::ArrayRef<int64_t> shape = typeOf(value).getShape();
  return shape.empty() ? 1 : shape.back();
}

namespace {
/// A tensor [rows..., columns, parts], its elements by row, column and part.
struct Grid {
  Value value;
  int64_t rows = 1, columns = 1, parts = 1;

  explicit Grid(Value value) : value(value) {
    llvm::ArrayRef<int64_t> shape = typeOf(value).getShape();
    parts = shape.back();
    columns = shape[shape.size() - 2];
    rows = typeOf(value).getNumElements() / parts / columns;
  }
  Element at(Value of, int64_t row, int64_t column, int64_t part) const {
    int64_t linear = (row * columns + column) * parts + part;
    return {of, indexOf(linear, typeOf(value).getShape())};
  }
  /// True where `holds` says so of all columns and parts of the first and the
  /// last row.
  bool all(llvm::function_ref<bool(int64_t, int64_t, int64_t)> holds) const {
    for (int64_t row : {int64_t(0), rows - 1})
      for (int64_t column = 0; column < columns; ++column)
        for (int64_t part = 0; part < parts; ++part)
          if (!holds(row, column, part))
            return false;
    return true;
  }
};
} // namespace

/// True where an element is that of number `linear` of `value`.
static bool isElement(const Element &element, Value value, int64_t linear) {
  return element.value == value &&
         linearOf(element.index, typeOf(value).getShape()) == linear;
}

/// The value [rows..., columns] whose numbers are compared with those from 0 to
/// parts - 1 along the last dimension of `truth`; null else.
static Value numbersNamedBy(Value truth) {
  auto compare = truth.getDefiningOp<CompareOp>();
  if (!compare || compare.getKind() != CompareKind::EQ ||
      typeOf(truth).getRank() < 2)
    return {};
  Grid grid(truth);
  for (auto [index, counted] : bothOrders(compare)) {
    Value numbers = behind(grid.at(index, 0, 0, 0)).value;
    bool isNamed = grid.all([&, index = index, counted = counted](
                                int64_t row, int64_t column, int64_t part) {
      return numberAt(grid.at(counted, row, column, part)) == part &&
             isElement(behind(grid.at(index, row, column, part)), numbers,
                       row * grid.columns + column);
    });
    if (isNamed)
      return numbers;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

namespace {
/// What experts are chosen by.
struct Choice {
  Value logits;
  bool isSigmoid = false;
  Value bias; ///< as its reader sees it
  int64_t groups = 1, best = 1;
  bool isByLargest = false;
};

/// A value of two numbers: those it has where an element of another is 0 or 1.
struct TwoNumbers {
  Element of;
  double ifZero = 0, ifOne = 1;
};
} // namespace

/// The largest of truth values along a dimension, 0 or 1, are the end of what
/// is followed.
static std::optional<TwoNumbers> twoNumbersAt(Element element) {
  element = sourceOf(element);
  Operation *op = element.value.getDefiningOp();
  if (auto cast = dyn_cast_or_null<CastOp>(op)) {
    bool isWhole = typeOf(element.value).getElementType().isInteger(32);
    return isWhole ? std::nullopt : twoNumbersAt({cast.getX(), element.index});
  }
  if (auto select = dyn_cast_or_null<SelectOp>(op)) {
    auto a = splatOf(select->getOperand(1)), b = splatOf(select->getOperand(2));
    auto chosen = a && b ? twoNumbersAt({select->getOperand(0), element.index})
                         : std::nullopt;
    if (!chosen)
      return std::nullopt;
    return TwoNumbers{chosen->of, chosen->ifZero != 0 ? *a : *b,
                      chosen->ifOne != 0 ? *a : *b};
  }
  if (auto compare = dyn_cast_or_null<CompareOp>(op)) {
    auto number = splatOf(compare.getRhs());
    auto inner =
        number ? twoNumbersAt({compare.getLhs(), element.index}) : std::nullopt;
    if (!inner)
      return std::nullopt;
    CompareKind kind = compare.getKind();
    return TwoNumbers{inner->of, double(holds(kind, inner->ifZero, *number)),
                      double(holds(kind, inner->ifOne, *number))};
  }
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  if (!reduce || reduce.getKind() != ReduceKind::Max)
    return std::nullopt;
  return TwoNumbers{element, 0, 1};
}

/// The numbers of the groups [rows..., best] that experts must be of to have
/// `shown` in `condition` [rows..., experts]; null else.
static Value groupsShownBy(Value condition, bool shown, int64_t &groups) {
  if (typeOf(condition).getRank() < 2)
    return {};
  Grid grid(condition);
  int64_t experts = grid.parts, rows = grid.rows * grid.columns;
  Value marks;
  for (int64_t row : {int64_t(0), rows - 1})
    for (int64_t expert = 0; expert < experts; ++expert) {
      auto two = twoNumbersAt(
          grid.at(condition, row / grid.columns, row % grid.columns, expert));
      if (!two || (two->ifOne != 0) != shown || (two->ifZero != 0) == shown)
        return {};
      marks = two->of.value;
      groups = columnsOf(marks);
      if (experts % groups != 0 ||
          !isElement(two->of, marks,
                     row * groups + expert / (experts / groups)))
        return {};
    }
  auto reduce = marks.getDefiningOp<ReduceOp>();
  Value truth = reduce ? behindShape(reduce.getX()) : Value();
  int64_t along = truth ? typeOf(reduce.getX()).getRank() - 2 : -1;
  if (!truth || reduce.getDims() != llvm::ArrayRef<int64_t>{along} ||
      typeOf(truth).getShape() != typeOf(reduce.getX()).getShape())
    return {};
  return numbersNamedBy(truth);
}

/// True where `scores` [rows..., groups] are the two largest of each group of
/// `values` [rows..., experts], added, or with `isByLargest` the largest one.
static bool isScoreOfGroups(Value scores, Value values, int64_t groups,
                            bool &isByLargest) {
  auto reduce = scores.getDefiningOp<ReduceOp>();
  if (!reduce)
    return false;
  int64_t size = columnsOf(values) / groups;
  Value parts = reduce.getX();
  isByLargest = reduce.getKind() == ReduceKind::Max;
  if (!isByLargest) {
    auto largest = parts.getDefiningOp<TopKOp>();
    if (reduce.getKind() != ReduceKind::Sum || !largest ||
        largest.getValues() != parts || largest.getK() != 2)
      return false;
    parts = largest.getX();
  }
  int64_t last = typeOf(parts).getRank() - 1;
  return reduce.getDims() == llvm::ArrayRef<int64_t>{last} &&
         columnsOf(parts) == size && columnsOf(scores) == groups &&
         behindShape(parts) == values;
}

/// Hides the experts of all but the best groups; the values of those that are
/// left. Null where it is something else.
static Value withoutLimit(SelectOp select, Choice &choice, double &hidden) {
  for (bool shown : {true, false}) {
    Value kept = select->getOperand(shown ? 1 : 2);
    auto fill = splatOf(select->getOperand(shown ? 2 : 1));
    if (!fill)
      continue;
    hidden = *fill;
    Value values = behindShape(kept);
    Value numbers = groupsShownBy(select->getOperand(0), shown, choice.groups);
    auto largest = numbers ? numbers.getDefiningOp<TopKOp>() : TopKOp();
    if (!largest || largest.getIndices() != numbers ||
        !isScoreOfGroups(behindShape(largest.getX()), values, choice.groups,
                         choice.isByLargest))
      return {};
    choice.best = largest.getK();
    return values;
  }
  return {};
}

/// The probabilities of `choice`, a softmax or logistic of logits [B, S,
/// experts].
static bool readProbabilities(Value value, Choice &choice) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<SoftmaxOp, LogisticOp>(op) ||
      typeOf(value).getRank() != 3)
    return false;
  choice.logits = op->getOperand(0);
  choice.isSigmoid = isa<LogisticOp>(op);
  return true;
}

/// What the largest of `values` are the largest of; none where it is no choice
/// of experts.
static std::optional<Choice> choiceOf(Value values) {
  Choice choice;
  int64_t experts = columnsOf(values);
  values = behindShape(values);
  std::optional<double> hidden;
  if (auto select = values.getDefiningOp<SelectOp>()) {
    values = withoutLimit(select, choice, hidden.emplace());
    if (!values)
      return std::nullopt;
  }
  if (auto add = values.getDefiningOp<AddOp>())
    for (auto [p, bias] : bothOrders(add))
      // In place of a gradient, which is 0, the bias of a `route` gets the load
      // of its experts: it must not be trained.
      if (isMadeOfFrozen(bias) || isMadeOfConstants(bias)) {
        choice.bias = bias;
        values = behindShape(p);
        break;
      }
  if (!readProbabilities(values, choice) || columnsOf(choice.logits) != experts)
    return std::nullopt;
  // Probabilities are above 0; with a bias they may be anything.
  if (hidden && *hidden > (choice.bias ? -1e30 : 0))
    return std::nullopt;
  return choice;
}

/// The softmax or logistic that alone reads the largest logits; null else.
static Operation *laterFunction(Value values) {
  while (values.hasOneUse()) {
    Operation *user = *values.user_begin();
    if (isa<SoftmaxOp, LogisticOp>(user))
      return columnsOf(user->getOperand(0)) == columnsOf(values) ? user
                                                                 : nullptr;
    if (!isa<ReshapeOp, CastOp>(user) ||
        columnsOf(user->getResult(0)) != columnsOf(values))
      return nullptr;
    values = user->getResult(0);
  }
  return nullptr;
}

static RouteOp createRoute(OpBuilder &builder, Location loc,
                           const Choice &choice, IntegerAttr k,
                           bool isRenormalized) {
  auto flag = [&](bool value) {
    return value ? builder.getUnitAttr() : UnitAttr();
  };
  bool isLimited = choice.best < choice.groups;
  auto number = [&](int64_t value) {
    return isLimited ? builder.getI64IntegerAttr(value) : IntegerAttr();
  };
  return RouteOp::create(builder, loc, choice.logits, choice.bias, k,
                         flag(isRenormalized), flag(choice.isSigmoid),
                         number(choice.groups), number(choice.best),
                         flag(isLimited && choice.isByLargest),
                         /*scale=*/FloatAttr());
}

/// The weights of a route in the shape and type of what they stand for.
static Value weightsAs(PlainBuilder &p, RouteOp route, Value value) {
  RankedTensorType type = typeOf(value);
  return p.cast(p.reshape(route.getWeights(), type.getShape()),
                type.getElementType());
}

namespace {

/// Numbers of the k largest probabilities, with those or without.
struct RaiseChoice : OpRewritePattern<TopKOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TopKOp op,
                                PatternRewriter &rewriter) const override {
    auto choice = choiceOf(op.getX());
    if (!choice || (choice->bias && !op.getValues().use_empty()))
      return failure();
    if (choice->bias) {
      int64_t last = typeOf(choice->bias).getRank() - 1;
      choice->bias = vectorAlong(rewriter, op.getLoc(), choice->bias, last);
      if (!choice->bias || columnsOf(choice->bias) != columnsOf(choice->logits))
        return failure();
    }
    RouteOp route = createRoute(rewriter, op.getLoc(), *choice, op.getKAttr(),
                                /*isRenormalized=*/false);
    PlainBuilder p{rewriter, op.getLoc()};
    rewriter.replaceOp(op, {weightsAs(p, route, op.getValues()),
                            p.reshape(route.getExperts(),
                                      typeOf(op.getIndices()).getShape())});
    return success();
  }
};

/// The k largest logits, and their softmax or logistic.
struct RaiseLaterFunction : OpRewritePattern<TopKOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TopKOp op,
                                PatternRewriter &rewriter) const override {
    Value logits = behindShape(op.getX());
    Operation *function = laterFunction(op.getValues());
    if (!function || typeOf(logits).getRank() != 3 ||
        columnsOf(logits) != columnsOf(op.getX()) ||
        !isa<FloatType>(typeOf(logits).getElementType()))
      return failure();
    Choice choice;
    choice.logits = logits;
    choice.isSigmoid = isa<LogisticOp>(function);
    RouteOp route = createRoute(rewriter, op.getLoc(), choice, op.getKAttr(),
                                /*isRenormalized=*/!choice.isSigmoid);
    PlainBuilder p{rewriter, op.getLoc()};
    rewriter.replaceOp(function, weightsAs(p, route, function->getResult(0)));
    rewriter.replaceAllUsesWith(
        op.getIndices(),
        p.reshape(route.getExperts(), typeOf(op.getIndices()).getShape()));
    return success();
  }
};

/// The probabilities of those that a `route` chose.
struct RaiseWeights : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto select = op.getX().getDefiningOp<SelectOp>();
    int64_t rank = typeOf(op.getX()).getRank();
    if (op.getKind() != ReduceKind::Sum || !select || rank < 2 ||
        op.getDims() != llvm::ArrayRef<int64_t>{rank - 1} ||
        splatOf(select->getOperand(2)) != 0.0)
      return failure();
    Value numbers = numbersNamedBy(select->getOperand(0));
    auto route = numbers ? numbers.getDefiningOp<RouteOp>() : RouteOp();
    if (!route || numbers != route.getExperts() || route.getRenormalize() ||
        route.getScale() || !isTakenFrom(select->getOperand(1), route))
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    rewriter.replaceOp(op, weightsAs(p, route, op.getResult()));
    return success();
  }

  /// True where `wide` [rows..., k, experts] has for each k all probabilities.
  static bool isTakenFrom(Value wide, RouteOp route) {
    Grid grid(wide);
    Value p = behind(grid.at(wide, 0, 0, 0)).value;
    Choice choice;
    return readProbabilities(p, choice) && choice.logits == route.getLogits() &&
           choice.isSigmoid == route.getSigmoid() &&
           grid.all([&](int64_t row, int64_t column, int64_t part) {
             return isElement(behind(grid.at(wide, row, column, part)), p,
                              row * grid.parts + part);
           });
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Sums and factors
//===----------------------------------------------------------------------===//

/// The route whose weights `value` is, in any shape, if `readers` of them are
/// all that read it.
static RouteOp routeOf(Value value, llvm::SmallVector<Operation *> readers) {
  while (true) {
    for (Operation *user : value.getUsers())
      if (!llvm::is_contained(readers, user))
        return {};
    auto route = value.getDefiningOp<RouteOp>();
    if (route)
      return value == route.getWeights() ? route : RouteOp();
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<ReshapeOp, CastOp>(op) ||
        columnsOf(value) != columnsOf(op->getOperand(0)))
      return {};
    value = op->getOperand(0);
    readers = {op};
  }
}

namespace {

/// Weights divided by their sum, or by that plus less than f32 tells from it.
struct RaiseNormalization : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    Seen divisor = lookThrough(op.getRhs());
    if (auto add = divisor.op<AddOp>())
      for (auto [sum, small] : bothOrders(add))
        if (auto number = splatOf(small);
            number && *number >= 0 && *number <= kSmall)
          divisor = lookThrough(Seen{sum, divisor.dims});
    Value weights = op.getLhs();
    if (rowSumOf(divisor) != weights || !divisor.value.hasOneUse())
      return failure();
    RouteOp route = routeOf(weights, {op, divisor.value.getDefiningOp()});
    if (!route || route.getRenormalize() || route.getScale())
      return failure();
    rewriter.modifyOpInPlace(route, [&] { route.setRenormalize(true); });
    rewriter.replaceOp(op, weights);
    return success();
  }

  /// What a `route` adds to the sum of logistic functions.
  static constexpr double kSmall = 1e-20;
};

/// Numbers of experts that another route chose already, as a loss that counts
/// them asks for.
struct MergeRoutes : OpRewritePattern<RouteOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RouteOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getWeights().use_empty() || !isByLogits(op))
      return failure();
    for (Operation *user : op.getLogits().getUsers()) {
      auto other = dyn_cast<RouteOp>(user);
      if (!other || other == op || !isByLogits(other) ||
          other.getK() != op.getK() || other->getBlock() != op->getBlock() ||
          !other->isBeforeInBlock(op))
        continue;
      rewriter.replaceOp(op, other);
      return success();
    }
    return failure();
  }

  /// True where the largest logits are chosen: p grows with them.
  static bool isByLogits(RouteOp op) {
    return !op.getBias() && !op.getGroups();
  }
};

/// Weights times a number.
struct RaiseScale : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    auto scaled = scaledOf(op.getResult());
    RouteOp route = scaled ? routeOf(scaled->x, {op}) : RouteOp();
    if (!route || !(scaled->factor > 0) || !std::isfinite(scaled->factor))
      return failure();
    double scale = scaled->factor;
    if (auto before = route.getScale())
      scale *= before->convertToDouble();
    rewriter.modifyOpInPlace(
        route, [&] { route.setScaleAttr(rewriter.getF64FloatAttr(scale)); });
    rewriter.replaceOp(op, scaled->x);
    return success();
  }
};

} // namespace

void kerf::addRoutePatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseChoice, RaiseLaterFunction, RaiseWeights,
               RaiseNormalization, MergeRoutes, RaiseScale>(
      patterns.getContext());
}
