//===- KerfNNGradients.cpp - gradients of layers --------------------------===//

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

LogicalResult EmbeddingOp::buildGradient(GradientBuilder &gradients) {
  gradients.add(getTable(), EmbeddingGradientOp::create(
                                gradients.builder(), getLoc(),
                                getTable().getType(), gradients.of(getResult()),
                                getIds(), getOffset(), getPaddingAttr()));
  return success();
}

/// Adds the sum of dy over all rows to the bias, if there is one.
static void addBiasGradient(GradientBuilder &gradients, PlainBuilder &p,
                            Value bias, Value dy) {
  if (!bias || !gradients.needs(bias))
    return;
  Value sum = p.sum(dy, dimRange(0, typeOf(dy).getRank() - 1));
  gradients.add(bias, p.cast(sum, typeOf(bias).getElementType()));
}

LogicalResult LinearOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  std::string rows = leadingLabels(typeOf(dy).getRank() - 1);
  std::string weight = getTransposed() ? "kn" : "nk";
  if (gradients.needs(getX()))
    gradients.add(getX(), p.einsum(rows + "n," + weight + "->" + rows + "k", dy,
                                   getWeight()));
  if (gradients.needs(getWeight()))
    gradients.add(getWeight(),
                  p.einsum(rows + "n," + rows + "k->" + weight, dy, getX(),
                           typeOf(getWeight()).getElementType()));
  addBiasGradient(gradients, p, getBias(), dy);
  return success();
}

LogicalResult MatmulOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  std::string b = leadingLabels(typeOf(dy).getRank() - 2);
  if (gradients.needs(getLhs()))
    gradients.add(getLhs(),
                  p.einsum(b + "mn," + b + "kn->" + b + "mk", dy, getRhs()));
  if (gradients.needs(getRhs()))
    gradients.add(getRhs(),
                  p.einsum(b + "mk," + b + "mn->" + b + "kn", getLhs(), dy,
                           typeOf(getRhs()).getElementType()));
  addBiasGradient(gradients, p, getBias(), dy);
  return success();
}

LogicalResult LayerNormOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  if (gradients.needs(getX()))
    gradients.add(getX(),
                  LayerNormBackwardOp::create(p.builder, p.loc, getX(),
                                              getGain(), dy, getEpsAttr()));
  if (gradients.needs(getGain()))
    gradients.add(getGain(), LayerNormWeightGradientOp::create(
                                 p.builder, p.loc, getGain().getType(), getX(),
                                 dy, getEpsAttr()));
  addBiasGradient(gradients, p, getBias(), dy);
  return success();
}

LogicalResult RmsNormOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  if (gradients.needs(getX()))
    gradients.add(getX(),
                  RmsNormBackwardOp::create(p.builder, p.loc, getX(), getGain(),
                                            dy, getEpsAttr()));
  if (gradients.needs(getGain()))
    gradients.add(getGain(), RmsNormWeightGradientOp::create(
                                 p.builder, p.loc, getGain().getType(), getX(),
                                 dy, getEpsAttr()));
  return success();
}

LogicalResult RopeOp::buildGradient(GradientBuilder &gradients) {
  auto back = cast<RopeOp>(gradients.builder().clone(*getOperation()));
  back.getXMutable().assign(gradients.of(getResult()));
  back.setInverse(!getInverse());
  gradients.add(getX(), back);
  return success();
}

LogicalResult GeluOp::buildGradient(GradientBuilder &gradients) {
  gradients.add(getX(),
                GeluBackwardOp::create(gradients.builder(), getLoc(), getKind(),
                                       getX(), gradients.of(getResult())));
  return success();
}

LogicalResult SiluOp::buildGradient(GradientBuilder &gradients) {
  gradients.add(getX(),
                SiluBackwardOp::create(gradients.builder(), getLoc(), getX(),
                                       gradients.of(getResult())));
  return success();
}

LogicalResult SquaredReluOp::buildGradient(GradientBuilder &gradients) {
  gradients.add(
      getX(), SquaredReluBackwardOp::create(gradients.builder(), getLoc(),
                                            getX(), gradients.of(getResult())));
  return success();
}

LogicalResult SwigluOp::buildGradient(GradientBuilder &gradients) {
  auto back = SwigluBackwardOp::create(gradients.builder(), getLoc(), getGate(),
                                       getUp(), gradients.of(getResult()));
  gradients.add(getGate(), back.getDgate());
  gradients.add(getUp(), back.getDup());
  return success();
}

LogicalResult SoftmaxOp::buildGradient(GradientBuilder &gradients) {
  gradients.add(getX(), SoftmaxBackwardOp::create(gradients.builder(), getLoc(),
                                                  getResult(),
                                                  gradients.of(getResult())));
  return success();
}

/// The same mask on the gradient.
LogicalResult DropoutOp::buildGradient(GradientBuilder &gradients) {
  auto back = cast<DropoutOp>(gradients.builder().clone(*getOperation()));
  back.getXMutable().assign(gradients.of(getResult()));
  gradients.add(getX(), back);
  return success();
}

LogicalResult CrossEntropyOp::buildGradient(GradientBuilder &gradients) {
  PlainBuilder p{gradients.builder(), getLoc()};
  Value dy = gradients.of(getResult());
  gradients.add(getLogits(), CrossEntropyBackwardOp::create(
                                 p.builder, p.loc, getLogits(), getTargets(),
                                 dy, getNormalizer(), getOffset(),
                                 getIgnoreAttr(), getZLossAttr()));
  if (gradients.needs(getNormalizer())) { // 0 counts as the constant 1.
    Value slope = p.neg(p.div(p.mul(dy, getResult()), getNormalizer()));
    Value isZero = p.compare(CompareKind::EQ, getNormalizer(), 0.0);
    gradients.add(getNormalizer(),
                  p.select(isZero, p.constant(slope.getType(), 0.0), slope));
  }
  return success();
}
