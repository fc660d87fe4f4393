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
  using DifferentiatePassBase::DifferentiatePassBase;

  void runOnOperation() override {
    for (ModelOp model :
         llvm::make_early_inc_range(getOperation().getOps<ModelOp>()))
      if (failed(differentiate(model, scaleLoss)))
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

/// Iterations of the parameter that have an update.
static int64_t countUpdated(ModelOp model, ParamOp param, int64_t first,
                            int64_t end) {
  int64_t covered = 0; // Updates of one parameter do not overlap.
  for (UpdateOp update : model.getBody().getOps<UpdateOp>()) {
    if (update.getName() != param.getName())
      continue;
    int64_t from = update.getStart().value_or(first);
    int64_t to = update.getEnd().value_or(end);
    covered += std::max<int64_t>(0, std::min(to, end) - std::max(from, first));
  }
  return covered;
}

static LogicalResult checkUpdates(ModelOp model) {
  WalkResult walk = model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    bool own = repeat && param.isPerIteration();
    int64_t first = own ? repeat.getStart() : 0;
    int64_t end = own ? repeat.getEnd() : 1;
    if (param.getFrozen() ||
        countUpdated(model, param, first, end) == end - first)
      return WalkResult::advance();
    param.emitOpError() << "\"" << param.getName()
                        << "\" is trainable but has no update"
                        << (own ? " for some iterations" : "");
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
