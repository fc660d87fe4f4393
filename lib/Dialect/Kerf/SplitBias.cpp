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

/// The addition that `split` made of a product's bias; null: there is none.
static AddOp additionAfter(Operation *product) {
  Value sum = product->getResult(0);
  auto isOfProduct = [&](Operation *op) {
    return op && getPhase(op) && getPhase(op) == getPhase(product);
  };
  AddOp add = sum.hasOneUse() ? dyn_cast<AddOp>(*sum.user_begin()) : AddOp();
  if (!isOfProduct(add) || add.getLhs() != sum)
    return {};
  auto spread = add.getRhs().getDefiningOp<BroadcastOp>();
  return isOfProduct(spread) && spread->hasOneUse() ? add : AddOp();
}

template <typename Op> static bool merge(Op product) {
  AddOp add = product.getBias() ? AddOp() : additionAfter(product);
  if (!add)
    return false;
  auto spread = add.getRhs().getDefiningOp<BroadcastOp>();
  product->moveBefore(add);
  product.getBiasMutable().assign(spread.getX());
  add.getResult().replaceAllUsesWith(product->getResult(0));
  add.erase();
  spread.erase();
  return true;
}

bool kerf::mergeBias(Operation *product) {
  if (auto linear = dyn_cast<LinearOp>(product))
    return merge(linear);
  if (auto matmul = dyn_cast<MatmulOp>(product))
    return merge(matmul);
  return false;
}
