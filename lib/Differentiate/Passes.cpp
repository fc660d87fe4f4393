#include "kerf/Differentiate/Passes.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#define GEN_PASS_DEF_VERIFYDIFFERENTIATEDPASS
#include "kerf/Differentiate/Passes.h.inc"
} // namespace kerf

namespace {
struct DifferentiatePass
    : public kerf::impl::DifferentiatePassBase<DifferentiatePass> {
  void runOnOperation() override {
    for (ModelOp model : llvm::make_early_inc_range(getOperation().getOps<ModelOp>()))
      if (failed(differentiate(model)))
        return signalPassFailure();
  }
};

struct VerifyDifferentiatedPass
    : public kerf::impl::VerifyDifferentiatedPassBase<
          VerifyDifferentiatedPass> {
  void runOnOperation() override;
};
} // namespace

/// Numbers of the forward ops; every op must have a phase.
static LogicalResult collectForwardOps(ModelOp model,
                                       llvm::DenseSet<int64_t> &numbers) {
  WalkResult walk = model.getBody().walk([&](Operation *op) {
    PhaseAttr phase = getPhase(op);
    if (isa<CheckCloseOp>(op)) {
      op->emitOpError("is for the interpreter only; remove it");
      return WalkResult::interrupt();
    }
    if (!phase) {
      op->emitOpError("has no 'kerf.phase'");
      return WalkResult::interrupt();
    }
    if (phase.getKind() == PhaseKind::Forward)
      numbers.insert(phase.getOp());
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

static LogicalResult checkLinks(ModelOp model,
                                const llvm::DenseSet<int64_t> &numbers) {
  WalkResult walk = model.getBody().walk([&](Operation *op) {
    PhaseAttr phase = getPhase(op);
    if (phase.getOp() < 0 || numbers.contains(phase.getOp()))
      return WalkResult::advance();
    op->emitOpError() << "belongs to forward op " << phase.getOp()
                      << ", which does not exist";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// True when an update covers iteration `i` of the parameter.
static bool isUpdated(ModelOp model, ParamOp param, int64_t i) {
  return llvm::any_of(model.getBody().getOps<UpdateOp>(), [&](UpdateOp update) {
    return update.getName() == param.getName() &&
           (!update.getStart() ||
            (*update.getStart() <= static_cast<uint64_t>(i) &&
             static_cast<uint64_t>(i) < *update.getEnd()));
  });
}

static LogicalResult checkUpdates(ModelOp model) {
  WalkResult walk = model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    int64_t first = repeat ? repeat.getStart() : 0;
    int64_t last = repeat ? repeat.getEnd() - 1 : 0;
    if (param.getFrozen() ||
        (isUpdated(model, param, first) && isUpdated(model, param, last)))
      return WalkResult::advance();
    param.emitOpError() << "\"" << param.getName()
                        << "\" is trainable but has no update";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

void VerifyDifferentiatedPass::runOnOperation() {
  for (ModelOp model : getOperation().getOps<ModelOp>()) {
    llvm::DenseSet<int64_t> numbers;
    if (failed(collectForwardOps(model, numbers)) ||
        failed(checkLinks(model, numbers)) || failed(checkUpdates(model)))
      return signalPassFailure();
  }
}
