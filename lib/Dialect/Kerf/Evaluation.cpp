#include "kerf/Dialect/Kerf/Evaluation.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace kerf;

/// Dropout lets all pass.
static void removeDropout(ModelOp model) {
  model.getBody().walk([](Operation *op) {
    if (auto dropout = dyn_cast<DropoutOp>(op)) {
      dropout.getResult().replaceAllUsesWith(dropout.getX());
      dropout.erase();
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      attention.removeDropoutAttr();
      attention.removeNameAttr();
      attention.getSeedMutable().clear();
      attention.getStepMutable().clear();
      attention.getLayerMutable().clear();
    }
  });
}

/// An attention whose log-sum-exp nobody reads does not compute it.
static void dropLogSumExp(AttentionOp attention) {
  OpBuilder builder(attention);
  OperationState state(attention.getLoc(), AttentionOp::getOperationName());
  auto *copy = builder.clone(*attention);
  auto plain = cast<AttentionOp>(copy);
  plain.setLse(false);
  state.addOperands(plain->getOperands());
  state.addTypes(plain.getResult().getType());
  state.attributes.append(plain->getDiscardableAttrDictionary().getValue());
  state.propertiesAttr = plain->getPropertiesAsAttribute();
  Operation *made = builder.create(state);
  attention.getResult().replaceAllUsesWith(made->getResult(0));
  copy->erase();
  attention.erase();
}

/// The repeat without stacks that nobody reads.
static RepeatOp dropStacks(RepeatOp repeat) {
  YieldOp yield = repeat.getYield();
  llvm::SmallVector<Value> stacked, results(repeat.getCarryResults());
  for (auto [value, result] :
       llvm::zip(yield.getStacked(), repeat.getStackResults()))
    if (!result.use_empty()) {
      stacked.push_back(value);
      results.push_back(result);
    }
  if (results.size() == repeat.getNumResults())
    return repeat;
  OpBuilder builder(repeat);
  auto made = RepeatOp::create(
      builder, repeat.getLoc(), ValueRange(results).getTypes(),
      repeat.getInits(), repeat.getSlices(), repeat.getStartAttr(),
      repeat.getEndAttr(), repeat.getReverseAttr(), repeat.getPairAttr());
  made->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  made.getBody().takeBody(repeat.getBody());
  yield.getStackedMutable().assign(stacked);
  for (auto [from, to] : llvm::zip(results, made.getResults()))
    from.replaceAllUsesWith(to);
  repeat.erase();
  return made;
}

/// Erases what nobody reads, from the end.
static void dropDead(Block &block) {
  for (Operation *op = &block.back(), *before; op; op = before) {
    before = op->getPrevNode();
    if (isOpTriviallyDead(op)) {
      op->erase();
      continue;
    }
    if (auto repeat = dyn_cast<RepeatOp>(op))
      dropDead(dropStacks(repeat).getBody().front());
    else if (auto attention = dyn_cast<AttentionOp>(op))
      if (attention.getLse() && attention.getLogSumExp().use_empty())
        dropLogSumExp(attention);
  }
}

OwningOpRef<ModelOp> kerf::makeEvaluation(ModelOp model, IRMapping &mapping) {
  auto copy = cast<ModelOp>(model->clone(mapping));
  ReturnOp end = copy.getReturn();
  end.getValuesMutable().assign(ValueRange(end.getValues().front()));
  end.removeNamesAttr();
  for (UpdateOp update :
       llvm::make_early_inc_range(copy.getBody().getOps<UpdateOp>()))
    update.erase();
  removeDropout(copy);
  dropDead(copy.getBody().front());
  return copy;
}
