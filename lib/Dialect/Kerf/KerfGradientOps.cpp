#include "kerf/Dialect/Kerf/Kerf.h"

using namespace mlir;
using namespace kerf;

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfGradientOps.cpp.inc"

static std::string rowLabels(Value x) {
  return leadingLabels(typeOf(x).getRank() - 1);
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingGradientOp::verify() {
  auto table = typeOf(getResult());
  llvm::SmallVector<int64_t> shape(typeOf(getIds()).getShape());
  if (table.getRank() == 2)
    shape.push_back(table.getDimSize(1));
  if (table.getRank() != 2 ||
      typeOf(getDy()).getShape() != llvm::ArrayRef<int64_t>(shape))
    return emitOpError() // embedding_gradient_c1
           << "expected one row of " << table << " per entry of "
           << getIds().getType() << ", found " << getDy().getType();
  return success();
}

Factors EmbeddingGradientOp::getFactors() {
  std::string ids = leadingLabels(typeOf(getIds()).getRank());
  llvm::SmallVector<std::string> operands = {ids + "d", ids};
  if (getOffset())
    operands.push_back("");
  Factors facts =
      labelledFactors(*this, Positions::Read, operands, {"vd"}, {0});
  facts.placed = {facts.results[0][0][0]}; // the table's rows
  return facts;
}

OpCost EmbeddingGradientOp::getCost() {
  return costWithFlops(*this, 0, elementCount(getDy()));
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The vector has one entry per element of a row of x.
static LogicalResult verifyRow(Operation *op, Value x, Value vector) {
  auto type = typeOf(x);
  if (type.getRank() > 0 &&
      typeOf(vector).getShape() == type.getShape().take_back(1))
    return success();
  return op->emitOpError() // *_c1
         << "expected one entry per element of a row of " << type << ", found "
         << vector.getType();
}

#define KERF_NORM_BACKWARD(Op, FLOPS)                                          \
  LogicalResult Op::verify() { return verifyRow(*this, getX(), getGain()); }   \
  Factors Op::getFactors() {                                                   \
    std::string x = rowLabels(getX()) + "d";                                   \
    return labelledFactors(*this, Positions::Ignored, {x, "d", x}, {x}, {2},   \
                           "d");                                               \
  }                                                                            \
  OpCost Op::getCost() {                                                       \
    return costWithFlops(*this, 0, FLOPS * elementCount(getX()));              \
  }
KERF_NORM_BACKWARD(LayerNormBackwardOp, 14) // layer_norm_backward_c1
KERF_NORM_BACKWARD(RmsNormBackwardOp, 11)   // rms_norm_backward_c1
#undef KERF_NORM_BACKWARD

#define KERF_NORM_WEIGHT_GRADIENT(Op, FLOPS)                                   \
  LogicalResult Op::verify() { return verifyRow(*this, getX(), getResult()); } \
  Factors Op::getFactors() {                                                   \
    std::string x = rowLabels(getX()) + "d";                                   \
    return labelledFactors(*this, Positions::Ignored, {x, x}, {"d"}, {1},      \
                           "d");                                               \
  }                                                                            \
  OpCost Op::getCost() {                                                       \
    return costWithFlops(*this, 0, FLOPS * elementCount(getX()));              \
  }
// layer_norm_weight_gradient_c1, rms_norm_weight_gradient_c1
KERF_NORM_WEIGHT_GRADIENT(LayerNormWeightGradientOp, 8)
KERF_NORM_WEIGHT_GRADIENT(RmsNormWeightGradientOp, 6)
#undef KERF_NORM_WEIGHT_GRADIENT

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

#define KERF_ACTIVATION_BACKWARD(Op, FLOPS, LINEAR)                            \
  Factors Op::getFactors() {                                                   \
    return pointwiseFactors(*this, Positions::Ignored, {LINEAR});              \
  }                                                                            \
  OpCost Op::getCost() {                                                       \
    return costWithFlops(*this, 0,                                             \
                         FLOPS * elementCount((*this)->getResult(0)));         \
  }
KERF_ACTIVATION_BACKWARD(GeluBackwardOp, 28, 1)
KERF_ACTIVATION_BACKWARD(SiluBackwardOp, 15, 1)
KERF_ACTIVATION_BACKWARD(SquaredReluBackwardOp, 3, 1)
KERF_ACTIVATION_BACKWARD(SwigluBackwardOp, 18, 2)
#undef KERF_ACTIVATION_BACKWARD

LogicalResult SoftmaxBackwardOp::verify() {
  if (typeOf(getY()).getRank() == 0) // softmax_backward_c2
    return emitOpError("expected rank >= 1, found a scalar");
  return success();
}

Factors SoftmaxBackwardOp::getFactors() {
  std::string y = rowLabels(getY()) + "v";
  return labelledFactors(*this, Positions::Ignored, {y, y}, {y}, {1}, "v");
}

OpCost SoftmaxBackwardOp::getCost() {
  return costWithFlops(*this, 0, 4 * elementCount(getY()));
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

LogicalResult CrossEntropyBackwardOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
    llvm::SmallVectorImpl<Type> &types) {
  auto logits = typeOf(adaptor.getLogits());
  auto targets = typeOf(adaptor.getTargets());
  if (logits.getRank() == 0 ||
      targets.getShape() != logits.getShape().drop_back())
    return emitOptionalError( // cross_entropy_backward_c1
        loc,
        "'kerf.cross_entropy_backward' expected one target per row of logits ",
        logits, ", found ", targets);
  types.push_back(logits);
  return success();
}

Factors CrossEntropyBackwardOp::getFactors() {
  std::string rows = rowLabels(getLogits());
  llvm::SmallVector<std::string> operands = {rows + "v", rows};
  operands.resize(getNumOperands());
  Factors facts =
      labelledFactors(*this, Positions::Read, operands, {rows + "v"}, {2}, "v");
  facts.placed = {facts.operands[0].back()[0]}; // classes
  facts.variants.push_back({"split_vocabulary", {facts.operands[0].back()[0]}});
  return facts;
}

OpCost CrossEntropyBackwardOp::getCost() {
  return costWithFlops(*this, 0, 25 * elementCount(getLogits()));
}
