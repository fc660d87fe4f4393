//===- ModelFlops.cpp - the matmuls that a training step asks for ---------===//

#include "kerf/Dialect/Kerf/ModelFlops.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>

using namespace mlir;
using namespace kerf;

static bool isForward(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return phase && phase.getKind() == PhaseKind::Forward;
}

/// Flops in attention of each forward op, by its number.
static llvm::DenseMap<int64_t, double> attentionByNumber(ModelOp model) {
  llvm::DenseMap<int64_t, double> flops;
  model.getBody().walk([&](CostOpInterface op) {
    if (isForward(op))
      flops[getPhase(op).getOp()] += op.getCost().attentionFlops;
  });
  return flops;
}

double kerf::countModelFlops(ModelOp model) {
  llvm::DenseMap<int64_t, double> forward = attentionByNumber(model);
  double flops = 0;
  model.getBody().walk([&](CostOpInterface op) {
    PhaseAttr phase = getPhase(op);
    bool isUpdate = phase && phase.getKind() == PhaseKind::Update;
    if (isRecomputed(op) || isUpdate)
      return;
    OpCost cost = op.getCost();
    // Kernels make the scores again, a fifth matmul.
    if (phase && !isForward(op))
      cost.attentionFlops =
          std::min(cost.attentionFlops, 2 * forward.lookup(phase.getOp()));
    auto repeat = op->getParentOfType<RepeatOp>();
    flops += cost.matmuls() * (repeat ? repeat.getCount() : 1);
  });
  return flops;
}
