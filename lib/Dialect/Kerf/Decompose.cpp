#include "kerf/Dialect/Kerf/Decompose.h"

using namespace mlir;
using namespace kerf;

void kerf::decomposeOp(DecomposeOpInterface op) {
  OpBuilder builder(op);
  Operation *before = op->getPrevNode();
  llvm::SmallVector<Value> results = op.decompose(builder);
  if (PhaseAttr phase = getPhase(op)) {
    Operation *first =
        before ? before->getNextNode() : &op->getBlock()->front();
    for (Operation *made = first; made != op; made = made->getNextNode())
      made->setAttr(kPhaseAttrName, phase);
  }
  op->replaceAllUsesWith(results);
  op->erase();
}

void kerf::decomposeAll(Operation *root) {
  llvm::SmallVector<DecomposeOpInterface> worklist;
  do {
    worklist.clear();
    root->walk([&](DecomposeOpInterface op) { worklist.push_back(op); });
    for (DecomposeOpInterface op : worklist)
      decomposeOp(op);
  } while (!worklist.empty());
}
