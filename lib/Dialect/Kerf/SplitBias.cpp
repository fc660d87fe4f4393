#include "kerf/Dialect/Kerf/SplitBias.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

using namespace mlir;
using namespace kerf;

template <typename Op> static Operation *split(Op op) {
  Value bias = op.getBias();
  if (!bias)
    return nullptr;
  OpBuilder builder(op);
  auto matmul = cast<Op>(builder.clone(*op.getOperation()));
  matmul.getBiasMutable().clear();
  Value result = matmul->getResult(0);
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
  return matmul;
}

Operation *kerf::splitBias(Operation *op) {
  if (auto linear = dyn_cast<LinearOp>(op))
    return split(linear);
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return split(matmul);
  return nullptr;
}

/// The addition that `split` made of a matmul's bias; null: there is none.
static AddOp additionAfter(Operation *matmul) {
  Value sum = matmul->getResult(0);
  auto isOfMatmul = [&](Operation *op) {
    return op && getPhase(op) && getPhase(op) == getPhase(matmul);
  };
  AddOp add = sum.hasOneUse() ? dyn_cast<AddOp>(*sum.user_begin()) : AddOp();
  if (!isOfMatmul(add) || add.getLhs() != sum)
    return {};
  auto spread = add.getRhs().getDefiningOp<BroadcastOp>();
  return isOfMatmul(spread) && spread->hasOneUse() ? add : AddOp();
}

template <typename Op> static bool merge(Op matmul) {
  AddOp add = matmul.getBias() ? AddOp() : additionAfter(matmul);
  if (!add)
    return false;
  auto spread = add.getRhs().getDefiningOp<BroadcastOp>();
  matmul->moveBefore(add);
  matmul.getBiasMutable().assign(spread.getX());
  add.getResult().replaceAllUsesWith(matmul->getResult(0));
  add.erase();
  spread.erase();
  return true;
}

bool kerf::mergeBias(Operation *matmul) {
  if (auto linear = dyn_cast<LinearOp>(matmul))
    return merge(linear);
  if (auto plain = dyn_cast<MatmulOp>(matmul))
    return merge(plain);
  return false;
}
