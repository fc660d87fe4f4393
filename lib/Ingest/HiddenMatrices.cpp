#include "HiddenMatrices.h"

using namespace kerf;
using namespace mlir;

/// The parameter that a value is, through casts and views.
static ParamOp paramOf(Value value) {
  while (isa_and_nonnull<CastOp, ReshapeOp, TransposeOp, SliceOp, BroadcastOp>(
      value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<ParamOp>();
}

static bool isMatrix(ParamOp param) {
  llvm::ArrayRef<int64_t> shape = typeOf(param.getResult()).getShape();
  size_t rank = isStacked(param.getName()) ? 3 : 2;
  return shape.size() == rank &&
         llvm::all_of(shape.take_back(2), [](int64_t n) { return n > 1; });
}

/// Parameters of the first matmuls that are found on the ways from `value`
/// back to the layers.
static void addOutputs(Value value, llvm::SetVector<llvm::StringRef> &names) {
  llvm::SetVector<Value> open;
  open.insert(value);
  for (size_t i = 0; i < open.size(); ++i) {
    Operation *op = open[i].getDefiningOp();
    if (!op || isa<RepeatOp>(op))
      continue;
    bool isMatmul = isa<LinearOp, MatmulOp, EinsumOp>(op);
    for (Value operand : op->getOperands())
      if (ParamOp param = isMatmul ? paramOf(operand) : ParamOp())
        names.insert(param.getName());
      else if (!isMatmul)
        open.insert(operand);
  }
}

llvm::SetVector<llvm::StringRef> kerf::notHidden(ModelOp model) {
  llvm::SetVector<llvm::StringRef> names;
  auto addTable = [&](Value table) {
    if (ParamOp param = paramOf(table))
      names.insert(param.getName());
  };
  bool hasLoss = false;
  model.getBody().walk([&](Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op))
      if (!param.getFrozen() && !isMatrix(param))
        names.insert(param.getName());
    if (auto embedding = dyn_cast<EmbeddingOp>(op))
      addTable(embedding.getTable());
    if (auto gather = dyn_cast<GatherOp>(op))
      addTable(gather.getTable());
    if (auto loss = dyn_cast<CrossEntropyOp>(op)) {
      addOutputs(loss.getLogits(), names);
      hasLoss = true;
    }
  });
  if (!hasLoss && model.getReturn() && !model.getReturn().getValues().empty())
    addOutputs(model.getReturn().getValues().front(), names);
  return names;
}
