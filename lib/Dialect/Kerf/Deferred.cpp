//===- Deferred.cpp - weight gradients that may run at another time -------===//
//
// Steps: weight-gradient ops that no other op of the body reads could be
// deferred; of these the matmuls are, and ops that add nothing to what is kept
// for them. Carried values that deferred ops alone read go with them; an op
// that turns out to feed a staying one stays.
//
// Cost: a few visits per use.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Deferred.h"

using namespace mlir;
using namespace kerf;

using OpSet = llvm::SetVector<Operation *>;

static bool isShown(Operation *op) {
  return isa_and_nonnull<ReshapeOp, SliceOp, BroadcastOp>(op);
}

/// What is recomputed is made beside the input gradients: it is handed over,
/// where what it is made of would have to be kept.
static bool isWeightOp(Operation &op) {
  PhaseAttr phase = getPhase(&op);
  return phase && phase.getKind() == PhaseKind::WeightGradient &&
         !op.hasTrait<OpTrait::IsTerminator>() &&
         (!isRecomputed(&op) || isShown(&op));
}

static bool isMatmul(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && cost.getCost().matmuls() > 0;
}

/// What a chain of views shows.
static Value rootOf(Value value) {
  while (isShown(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

Value kerf::shownSlice(RepeatOp repeat, Value value) {
  Value root = rootOf(value);
  bool isSlice =
      root != value && llvm::is_contained(repeat.getSliceArgs(), root);
  return isSlice ? root : Value();
}

static bool isReadBy(Operation *op, const OpSet &readers) {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return readers.contains(user) || isa<YieldOp>(user);
  });
}

/// Weight-gradient ops that nothing but such ops and the yield reads; the last
/// one first.
static OpSet findFree(Block &body) {
  OpSet free;
  for (Operation &op : llvm::reverse(body))
    if (isWeightOp(op) && isReadBy(&op, free))
      free.insert(&op);
  return free;
}

/// Of free ops the matmuls with what follows them (a scale), and what needs no
/// more than these keep anyway.
static OpSet chooseOps(const OpSet &free) {
  llvm::DenseSet<Value> kept;
  for (Operation *op : free)
    if (isMatmul(op))
      for (Value operand : op->getOperands())
        kept.insert(rootOf(operand));
  OpSet chosen, late; // late: matmuls, and what follows them
  auto isThere = [&](Value operand) {
    Value root = rootOf(operand);
    Operation *maker = root.getDefiningOp();
    return kept.contains(root) ||
           (maker && (chosen.contains(maker) || maker->getNumOperands() == 0));
  };
  auto isLate = [&](Value operand) {
    return late.contains(rootOf(operand).getDefiningOp());
  };
  // In the order of the body.
  for (Operation *op : llvm::reverse(free)) {
    if (isMatmul(op) || llvm::any_of(op->getOperands(), isLate))
      late.insert(op);
    if (late.contains(op) || (op->getNumOperands() > 0 && !isShown(op) &&
                              llvm::all_of(op->getOperands(), isThere)))
      chosen.insert(op);
  }
  OpSet ordered;
  for (Operation *op : free)
    if ((chosen.contains(op) || isShown(op)) && isReadBy(op, ordered))
      ordered.insert(op);
  return ordered;
}

/// True when only deferred ops and the yield's operand `number` read `value`.
static bool serves(Value value, const Deferred &deferred, unsigned number) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    return deferred.ops.contains(use.getOwner()) ||
           (isa<YieldOp>(use.getOwner()) && use.getOperandNumber() == number);
  });
}

/// Divides the carried values; false where an op had to stay for one.
static bool divideCarried(RepeatOp repeat, Deferred &deferred) {
  bool isDone = true;
  deferred.stayCarried.clear();
  deferred.moveCarried.clear();
  for (auto [k, arg] : llvm::enumerate(repeat.getCarryArgs())) {
    Operation *maker = repeat.getYield().getCarried()[k].getDefiningOp();
    bool isMade = maker && deferred.ops.contains(maker);
    bool moves = isMade && serves(arg, deferred, k);
    (moves ? deferred.moveCarried : deferred.stayCarried).push_back(k);
    if (isMade && !moves)
      isDone &= !deferred.ops.remove(maker);
  }
  return isDone;
}

/// What a staying op reads stays; false where an op had to.
static bool keepRead(RepeatOp repeat, Deferred &deferred) {
  bool isDone = true;
  for (Operation &op : repeat.getBody().front().without_terminator())
    if (!deferred.ops.contains(&op))
      for (Value operand : op.getOperands())
        if (Operation *maker = operand.getDefiningOp())
          isDone &= !deferred.ops.remove(maker);
  return isDone;
}

Deferred kerf::findDeferred(RepeatOp reverse) {
  Deferred deferred;
  deferred.ops = chooseOps(findFree(reverse.getBody().front()));
  bool isDone = false;
  while (!isDone) {
    isDone = divideCarried(reverse, deferred);
    isDone &= keepRead(reverse, deferred);
  }
  return deferred;
}
