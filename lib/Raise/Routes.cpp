//===- Routes.cpp - routers of experts ------------------------------------===//
//
// The k largest of the softmax of logits, divided by their sum or not.
//
//===----------------------------------------------------------------------===//

#include "Views.h"

using namespace kerf;
using namespace mlir;

/// The op that divides `values` by their sum along the last dimension, and
/// their only reader besides that sum; null else.
static DivOp normalizationOf(Value values) {
  DivOp division;
  for (Operation *user : values.getUsers()) {
    if (auto div = dyn_cast<DivOp>(user); div && div.getLhs() == values) {
      division = div;
      continue;
    }
    auto reduce = dyn_cast<ReduceOp>(user);
    if (!reduce || !reduce->hasOneUse())
      return {};
  }
  if (!division)
    return {};
  Seen sum = lookThrough(division.getRhs());
  auto reduce = sum.op<ReduceOp>();
  int64_t last = typeOf(values).getRank() - 1;
  bool isSum = reduce && reduce.getKind() == ReduceKind::Sum &&
               reduce.getX() == values &&
               reduce.getDims() == llvm::ArrayRef<int64_t>{last} &&
               llvm::equal(sum.dims, dimRange(0, last));
  return isSum ? division : DivOp();
}

namespace {

struct RaiseRoute : OpRewritePattern<TopKOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TopKOp op,
                                PatternRewriter &rewriter) const override {
    Value chosen = op.getX();
    auto flat = chosen.getDefiningOp<ReshapeOp>();
    auto softmax =
        (flat ? flat.getX() : chosen).template getDefiningOp<SoftmaxOp>();
    Value logits = softmax ? softmax->getOperand(0) : Value();
    if (!logits || typeOf(logits).getRank() != 3 ||
        typeOf(logits).getShape().back() != typeOf(chosen).getShape().back())
      return failure();
    PlainBuilder p{rewriter, op.getLoc()};
    DivOp division = normalizationOf(op.getValues());
    auto route = RouteOp::create(
        rewriter, op.getLoc(), logits, /*bias=*/Value(), op.getKAttr(),
        division ? rewriter.getUnitAttr() : UnitAttr(),
        /*sigmoid=*/UnitAttr(), /*groups=*/IntegerAttr(),
        /*best=*/IntegerAttr(), /*by_largest=*/UnitAttr(),
        /*scale=*/FloatAttr());
    llvm::ArrayRef<int64_t> shape = typeOf(op.getIndices()).getShape();
    Type element = typeOf(op.getValues()).getElementType();
    Value weights = p.cast(p.reshape(route.getWeights(), shape), element);
    if (division)
      rewriter.replaceOp(division, weights);
    // Of what is normalized nobody else reads the numbers.
    rewriter.replaceOp(op, {weights, p.reshape(route.getExperts(), shape)});
    return success();
  }
};

} // namespace

void kerf::addRoutePatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseRoute>(patterns.getContext());
}
