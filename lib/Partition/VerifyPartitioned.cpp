#include "CheckRankStates.h"

#include "kerf/Partition/Passes.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_VERIFYPARTITIONEDPASS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

/// The declaration of a parameter that a function reads or updates.
static FailureOr<spmd::ParamOp> findParam(spmd::ProgramOp program,
                                          Operation *op, llvm::StringRef name,
                                          int64_t iteration) {
  if (spmd::ParamOp param = program.getParam(name, iteration))
    return param;
  return op->emitOpError() << "of \"" << name
                           << "\", which the program does not declare";
}

static LogicalResult checkRead(spmd::ProgramOp program, ParamOp read) {
  auto repeat = read->getParentOfType<RepeatOp>();
  auto param =
      findParam(program, read, read.getName(), repeat ? repeat.getStart() : 0);
  if (failed(param))
    return failure();
  if (read.getResult().getType() == param->getLocalType())
    return success();
  auto diagnostic = read.emitOpError()
                    << "of \"" << read.getName() << "\" expected "
                    << param->getLocalType() << ", found "
                    << read.getResult().getType();
  diagnostic.attachNote(param->getLoc()) << "as it is declared";
  return diagnostic;
}

static LogicalResult checkUpdate(spmd::ProgramOp program, UpdateOp update) {
  auto param = findParam(program, update, update.getName(),
                         update.getStart().value_or(0));
  if (failed(param))
    return failure();
  llvm::ArrayRef<int64_t> shape = typeOf(update.getGradient()).getShape();
  if (update.getStart())
    shape = shape.drop_front();
  bool inRange =
      !update.getStart() || (*update.getStart() >= *param->getStart() &&
                             *update.getEnd() <= *param->getEnd());
  if (shape == param->getStateType().getShape() && inRange &&
      update.getRule() == param->getRuleAttr())
    return success();
  auto diagnostic = update.emitOpError()
                    << "of \"" << update.getName()
                    << "\" does not match the declared shard, rule or range";
  diagnostic.attachNote(param->getLoc()) << "as it is declared";
  return diagnostic;
}

static LogicalResult checkProgram(spmd::ProgramOp program) {
  WalkResult walk = program.walk([&](Operation *op) {
    LogicalResult fine = success();
    if (auto read = dyn_cast<ParamOp>(op))
      fine = checkRead(program, read);
    else if (auto update = dyn_cast<UpdateOp>(op))
      fine = checkUpdate(program, update);
    if (op->hasAttr(kAssignAttrName))
      fine = op->emitOpError("has a 'kerf.assign', which partition removes");
    return failed(fine) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

namespace {
struct VerifyPartitionedPass
    : public kerf::impl::VerifyPartitionedPassBase<VerifyPartitionedPass> {
  using VerifyPartitionedPassBase::VerifyPartitionedPassBase;

  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      model.emitOpError("is no 'spmd.program' yet; run 'kerf-partition'");
      return signalPassFailure();
    }
    for (spmd::ProgramOp program : getOperation().getOps<spmd::ProgramOp>())
      if (failed(checkProgram(program)))
        return signalPassFailure();
    if (followRanks && failed(checkRankStates(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
