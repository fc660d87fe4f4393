#include "kerf/Dialect/Kerf/Kerf.h"

#include "Shard.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/KerfNNOps.cpp.inc"

using Types = llvm::SmallVectorImpl<Type>;
using OptionalLoc = std::optional<Location>;

static RankedTensorType tensor(Type type) {
  return cast<RankedTensorType>(type);
}

/// `shape` without its last dimension.
static llvm::ArrayRef<int64_t> rowsOf(Type type) {
  return tensor(type).getShape().drop_back();
}

/// Labels of all dimensions but the last.
static std::string rowLabels(Value x) {
  return leadingLabels(typeOf(x).getRank() - 1);
}

//===----------------------------------------------------------------------===//
// Embedding and matmuls
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                            Adaptor adaptor, Types &types) {
  auto table = tensor(adaptor.getTable().getType());
  if (table.getRank() != 2) // embedding_c1
    return emitOptionalError(
        loc, "'kerf.embedding' expected a table of rank 2, found ", table);
  llvm::SmallVector<int64_t> shape(
      tensor(adaptor.getIds().getType()).getShape());
  shape.push_back(table.getDimSize(1));
  types.push_back(withShape(table, shape));
  return success();
}

Factors EmbeddingOp::getFactors() {
  std::string ids = leadingLabels(typeOf(getIds()).getRank());
  llvm::SmallVector<std::string> operands = {ids, "vd"};
  if (getOffset())
    operands.push_back("");
  Factors facts =
      labelledFactors(*this, Positions::Read, operands, {ids + "d"}, {1});
  facts.placed = {facts.operands[1][0][0]}; // the table's rows
  return facts;
}

OpCost EmbeddingOp::getCost() {
  OpCost cost = costWithFlops(*this, 0, 0);
  cost.bytesRead = cost.bytesWritten; // only the rows looked up
  return cost;
}

/// Checks an optional bias against the number of outputs.
static LogicalResult checkBias(OptionalLoc loc, llvm::StringRef op, Value bias,
                               int64_t outputs) {
  if (!bias || typeOf(bias).getShape() == llvm::ArrayRef<int64_t>{outputs})
    return success();
  return emitOptionalError(loc, "'kerf.", op, "' expected a bias of ", outputs,
                           " entries, found ", bias.getType());
}

LogicalResult LinearOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                         Adaptor adaptor, Types &types) {
  auto x = tensor(adaptor.getX().getType());
  auto weight = tensor(adaptor.getWeight().getType());
  if (x.getRank() < 1 || x.getRank() > 8 || weight.getRank() != 2) // linear_c1
    return emitOptionalError(loc,
                             "'kerf.linear' expected x of rank 1 to 8 and a "
                             "weight of rank 2, found ",
                             x, " and ", weight);
  bool transposed = adaptor.getTransposed();
  int64_t inner = weight.getDimSize(transposed ? 0 : 1);
  int64_t outputs = weight.getDimSize(transposed ? 1 : 0);
  if (x.getShape().back() != inner) // linear_c2
    return emitOptionalError(loc, "'kerf.linear' expected inner dimension ",
                             x.getShape().back(), " (rows of ", x, "), found ",
                             inner, " in weight ", weight);
  if (failed(checkBias(loc, "linear", adaptor.getBias(), outputs))) // linear_c3
    return failure();
  llvm::SmallVector<int64_t> shape(rowsOf(x));
  shape.push_back(outputs);
  types.push_back(withShape(x, shape));
  return success();
}

/// Factors of a matmul summed over k. Each part of the sum would add the bias,
/// so with a bias k is split only by adding it after the sum.
static Factors matmulFactors(Operation *op,
                             llvm::SmallVector<std::string> operands,
                             const std::string &result, Value bias) {
  if (bias)
    operands.push_back("n");
  Factors facts = labelledFactors(op, Positions::Ignored, operands, {result},
                                  {}, bias ? "k" : "");
  if (bias)
    facts.variants.push_back({"bias_after_sum",
                              {facts.operands[0].back()[0]},
                              /*together=*/false,
                              /*leavesSum=*/true});
  else
    facts.linearOperands = {0, 1};
  return facts;
}

LibraryCall LinearOp::getLibraryCall() { return LibraryCall::Matmul; }

Factors LinearOp::getFactors() {
  std::string rows = rowLabels(getX());
  return matmulFactors(*this, {rows + "k", getTransposed() ? "kn" : "nk"},
                       rows + "n", getBias());
}

OpCost LinearOp::getCost() {
  double outputs = typeOf(getResult()).getNumElements();
  return costWithFlops(*this, 2 * outputs * typeOf(getX()).getShape().back(),
                       getBias() ? outputs : 0);
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                         Adaptor adaptor, Types &types) {
  auto a = tensor(adaptor.getLhs().getType());
  auto b = tensor(adaptor.getRhs().getType());
  int64_t rank = a.getRank();
  if (rank < 2 || rank > 8 || b.getRank() != rank ||
      a.getShape().drop_back(2) != b.getShape().drop_back(2)) // matmul_c1
    return emitOptionalError(loc,
                             "'kerf.matmul' expected operands of one rank "
                             "2 to 8 and equal leading dimensions, found ",
                             a, " and ", b);
  if (a.getShape().back() != b.getDimSize(rank - 2)) // matmul_c2
    return emitOptionalError(loc, "'kerf.matmul' expected inner dimension ",
                             a.getShape().back(), ", found ",
                             b.getDimSize(rank - 2));
  int64_t columns = b.getShape().back();
  if (failed(checkBias(loc, "matmul", adaptor.getBias(), columns))) // matmul_c3
    return failure();
  llvm::SmallVector<int64_t> shape(rowsOf(a));
  shape.push_back(columns);
  types.push_back(withShape(a, shape));
  return success();
}

LibraryCall MatmulOp::getLibraryCall() { return LibraryCall::Matmul; }

Factors MatmulOp::getFactors() {
  std::string batch = leadingLabels(typeOf(getLhs()).getRank() - 2);
  return matmulFactors(*this, {batch + "mk", batch + "kn"}, batch + "mn",
                       getBias());
}

OpCost MatmulOp::getCost() {
  double outputs = typeOf(getResult()).getNumElements();
  return costWithFlops(*this, 2 * outputs * typeOf(getLhs()).getShape().back(),
                       getBias() ? outputs : 0);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Common checks of norms; `params` are gain and bias.
static LogicalResult checkNorm(OptionalLoc loc, llvm::StringRef op, Type x,
                               llvm::ArrayRef<Value> params,
                               FloatAttr epsAttr) {
  auto type = tensor(x);
  for (Value param : params) // layer_norm_c1, rms_norm_c1
    if (param && (type.getRank() == 0 ||
                  typeOf(param).getShape() !=
                      llvm::ArrayRef<int64_t>{type.getShape().back()}))
      return emitOptionalError(loc, "'kerf.", op,
                               "' expected a gain or bias "
                               "with one entry per element "
                               "of a row of ",
                               x, ", found ", param.getType());
  // Absent while parsing when the text leaves it to its default.
  double eps = epsAttr ? epsAttr.getValueAsDouble() : 0;
  if (!(eps >= 0) || !std::isfinite(eps)) // layer_norm_c2, rms_norm_c2
    return emitOptionalError(loc, "'kerf.", op,
                             "' expected a finite eps >= 0, found ", eps);
  return success();
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                            Adaptor adaptor, Types &types) {
  types.push_back(adaptor.getX().getType());
  return checkNorm(loc, "layer_norm", adaptor.getX().getType(),
                   {adaptor.getGain(), adaptor.getBias()},
                   adaptor.getEpsAttr());
}

Factors LayerNormOp::getFactors() {
  std::string rows = rowLabels(getX());
  llvm::SmallVector<std::string> operands = {rows + "d", "d"};
  if (getBias())
    operands.push_back("d");
  return labelledFactors(*this, Positions::Ignored, operands, {rows + "d"}, {},
                         "d");
}

OpCost LayerNormOp::getCost() {
  return costWithFlops(*this, 0, 8.0 * typeOf(getX()).getNumElements());
}

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                          Adaptor adaptor, Types &types) {
  types.push_back(adaptor.getX().getType());
  return checkNorm(loc, "rms_norm", adaptor.getX().getType(),
                   {adaptor.getGain()}, adaptor.getEpsAttr());
}

Factors RmsNormOp::getFactors() {
  std::string rows = rowLabels(getX());
  return labelledFactors(*this, Positions::Ignored, {rows + "d", "d"},
                         {rows + "d"}, {1}, "d");
}

OpCost RmsNormOp::getCost() {
  return costWithFlops(*this, 0, 5.0 * typeOf(getX()).getNumElements());
}

//===----------------------------------------------------------------------===//
// Rope
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::inferReturnTypes(MLIRContext *, OptionalLoc loc,
                                       Adaptor adaptor, Types &types) {
  auto x = tensor(adaptor.getX().getType());
  if (x.getRank() != 4 || x.getShape().back() % 2 != 0) // rope_c1
    return emitOptionalError(loc,
                             "'kerf.rope' expected x of rank 4 with an "
                             "even last dimension, found ",
                             x);
  if (Value positions = adaptor.getPositions())
    if (typeOf(positions).getShape() != x.getShape().take_front(2)) // rope_c2
      return emitOptionalError(loc, "'kerf.rope' expected positions of shape [",
                               x.getDimSize(0), ", ", x.getDimSize(1),
                               "], found ", positions.getType());
  double theta = adaptor.getTheta().convertToDouble();
  if (!(theta > 0) || !std::isfinite(theta)) // rope_c3
    return emitOptionalError(
        loc, "'kerf.rope' expected a finite theta > 0, found ", theta);
  auto table = dyn_cast_or_null<RopeTableAttr>(adaptor.getScalingAttr());
  int64_t pairs = x.getDimSize(3) / 2;
  if (table && table.getFrequencies().size() != pairs) // rope_c5
    return emitOptionalError(loc, "'kerf.rope' expected ", pairs,
                             " frequencies, found ",
                             table.getFrequencies().size());
  ZigzagAttr zigzag = adaptor.getZigzagAttr();
  if (zigzag && (adaptor.getPositions() || // rope_c4
                 zigzag.getDims() != llvm::ArrayRef<int64_t>{1} ||
                 x.getDimSize(1) > zigzag.getRows()))
    return emitOptionalError(loc,
                             "'kerf.rope' expected a zigzag along [1] of its "
                             "rows and no positions, found ",
                             zigzag);
  types.push_back(x);
  return success();
}

bool RopeOp::followsOrder(unsigned) { return true; }

void RopeOp::tellOrder(RowOrders &orders) {
  if (!getPositions())
    setZigzagAttr(cast_or_null<ZigzagAttr>(orders.of(getX())));
}

Factors RopeOp::getFactors() {
  llvm::SmallVector<std::string> operands = {"bshd"};
  if (getPositions())
    operands.push_back("bs");
  if (getOffset())
    operands.push_back("");
  Factors facts =
      labelledFactors(*this, Positions::Read, operands, {"bshd"}, {0}, "d");
  return facts;
}

OpCost RopeOp::getCost() {
  OpCost cost = costWithFlops(*this, 0, 3.0 * typeOf(getX()).getNumElements());
  auto x = typeOf(getX()).getShape();
  if (!getPositions()) // cosines and sines of each position, in f32
    cost.stepTableBytes = 4.0 * x[1] * x[3];
  return cost;
}

bool RopeOp::hasOwnLoops() { return true; }

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

// Flops per element: a transcendental function counts as 10.
#define KERF_ACTIVATION(Op, FLOPS, ...)                                        \
  Factors Op::getFactors() {                                                   \
    return pointwiseFactors(*this, Positions::Ignored, {__VA_ARGS__});         \
  }                                                                            \
  OpCost Op::getCost() {                                                       \
    return costWithFlops(*this, 0, FLOPS * elementCount(getResult()));         \
  }
KERF_ACTIVATION(GeluOp, 18)
KERF_ACTIVATION(SiluOp, 12)
KERF_ACTIVATION(SquaredReluOp, 2)
KERF_ACTIVATION(SwigluOp, 13, 1)
#undef KERF_ACTIVATION

LogicalResult SoftmaxOp::verify() {
  if (typeOf(getX()).getRank() == 0) // softmax_c2
    return emitOpError("expected rank >= 1, found a scalar");
  return success();
}

Factors SoftmaxOp::getFactors() {
  std::string rows = rowLabels(getX());
  return labelledFactors(*this, Positions::Ignored, {rows + "v"}, {rows + "v"},
                         {}, "v");
}

OpCost SoftmaxOp::getCost() {
  return costWithFlops(*this, 0, 14 * elementCount(getX()));
}

/// `rate` in [0, 1).
static bool isRate(double rate) { return rate >= 0 && rate < 1; }

LogicalResult DropoutOp::verify() {
  if (!isRate(getRate().convertToDouble())) // dropout_c1
    return emitOpError() << "expected a rate in [0, 1), found "
                         << getRate().convertToDouble();
  // dropout_c2
  llvm::ArrayRef<int64_t> shape = typeOf(getX()).getShape();
  if (failed(verifyShard(*this, shape, getGlobal(), getOffsets().size())))
    return failure();
  return verifyZigzag(*this, getZigzagAttr(), // dropout_c3
                      getGlobal() ? *getGlobal() : shape);
}

/// Labels of one tensor followed by `scalars` operands without dimensions.
static llvm::SmallVector<std::string> withScalars(const std::string &labels,
                                                  size_t scalars) {
  llvm::SmallVector<std::string> all = {labels};
  all.resize(1 + scalars);
  return all;
}

bool DropoutOp::followsOrder(unsigned) { return true; }

void DropoutOp::tellOrder(RowOrders &orders) {
  setZigzagAttr(cast_or_null<ZigzagAttr>(orders.of(getResult())));
}

Factors DropoutOp::getFactors() {
  std::string labels = leadingLabels(typeOf(getX()).getRank());
  Factors facts =
      labelledFactors(*this, Positions::Read,
                      withScalars(labels, getNumOperands() - 1), {labels}, {0});
  return facts;
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

/// "At least 1" holds for the whole count only: parts sum theirs before it.
Factors CountValidOp::getFactors() {
  return labelledFactors(*this, Positions::Ignored,
                         {leadingLabels(typeOf(getTargets()).getRank())}, {""});
}

LogicalResult CrossEntropyOp::verify() {
  auto logits = typeOf(getLogits()), targets = typeOf(getTargets());
  if (logits.getRank() == 0 || targets.getShape() != rowsOf(logits))
    return emitOpError() // cross_entropy_c1
           << "expected one target per row of logits " << logits << ", found "
           << targets;
  double zLoss = getZLoss().convertToDouble();
  if (!(zLoss >= 0) || !std::isfinite(zLoss)) // cross_entropy_c2
    return emitOpError() << "expected a finite z_loss >= 0, found " << zLoss;
  return success();
}

Factors CrossEntropyOp::getFactors() {
  std::string rows = rowLabels(getLogits());
  llvm::SmallVector<std::string> operands = {rows + "v", rows};
  operands.resize(getNumOperands());
  Factors facts =
      labelledFactors(*this, Positions::Read, operands, {""}, {}, "v");
  facts.placed = {facts.operands[0].back()[0]}; // classes
  facts.variants.push_back({"split_vocabulary", {facts.operands[0].back()[0]}});
  return facts;
}

OpCost CrossEntropyOp::getCost() {
  return costWithFlops(*this, 0, 13 * elementCount(getLogits()));
}
