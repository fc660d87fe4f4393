//===- SolveOrder.cpp - one order of tokens for all layers ----------------===//
//
// Problem: ranks that share the queries of a causal attention have equal work
// when tokens lie in another order (OrderContext.cpp), and that is the order of
// the whole step. Tensor ranks may share the queries of one kind of layer and
// the heads of another. The latter then sees whole sequences out of order,
// which no library computes: own kernels do, and take longer. Kinds are priced
// one by one, so that no price says it.
//
// Idea: where several kinds of layers attend, tensor ranks share heads. Context
// ranks share queries in all kinds.
//
// Example: gemma-3-27b, 256 x 8192 on 64 B200, 52 layers with a window and 10
// without: planned 4.324 s with the queries of these 10 shared by two tensor
// ranks; the program took 4.640.
//
//===----------------------------------------------------------------------===//

#include "SolveOrder.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

static bool attends(const LayerOp &op) { return op.work.attentionFlops > 0; }

OptionFilter kerf::orderOptions(const StepModel &step) {
  auto hasOrder = [](const LayerKind &kind) {
    return llvm::any_of(
        kind.ops, [](const LayerOp &op) { return attends(op) && op.causal; });
  };
  if (step.plainOrder || llvm::count_if(step.kinds, hasOrder) < 2)
    return {};
  return [](const LayerOp &op, InnerAxis axis, const OpOption &option) {
    return !attends(op) || axis != InnerAxis::Tensor || option.factor < 0 ||
           op.factors[option.factor].index != IndexClass::Sequence;
  };
}
