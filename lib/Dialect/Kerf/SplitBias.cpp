#include "kerf/Dialect/Kerf/SplitBias.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

template <typename Op> static Operation *split(Op op) {
  Value bias = op.getBias();
  if (!bias)
    return nullptr;
  OpBuilder builder(op);
  auto product = cast<Op>(builder.clone(*op.getOperation()));
  product.getBiasMutable().clear();
  Value result = product->getResult(0);
  PlainBuilder p{builder, op.getLoc()};
  llvm::ArrayRef<int64_t> shape = typeOf(result).getShape();
  Value added =
      p.broadcast(bias, dimRange(shape.size() - 1, shape.size()), shape);
  Value sum = p.add(result, added);
  if (PhaseAttr phase = getPhase(op)) {
    added.getDefiningOp()->setAttr(kPhaseAttrName, phase);
    sum.getDefiningOp()->setAttr(kPhaseAttrName, phase);
  }
  op->getResult(0).replaceAllUsesWith(sum);
  op.erase();
  return product;
}

Operation *kerf::splitBias(Operation *op) {
  if (auto linear = dyn_cast<LinearOp>(op))
    return split(linear);
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return split(matmul);
  return nullptr;
}
