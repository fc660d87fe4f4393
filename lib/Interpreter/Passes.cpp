#include "kerf/Interpreter/Passes.h"

#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Interpreter/Interpreter.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_DECOMPOSEPASS
#define GEN_PASS_DEF_INTERPRETPASS
#include "kerf/Interpreter/Passes.h.inc"
} // namespace kerf

namespace {
struct DecomposePass : public kerf::impl::DecomposePassBase<DecomposePass> {
  void runOnOperation() override { decomposeAll(getOperation()); }
};

struct InterpretPass : public kerf::impl::InterpretPassBase<InterpretPass> {
  using InterpretPassBase::InterpretPassBase;

  LogicalResult run(ModelOp model) {
    if (failed(checkInterpretable(model)))
      return failure();
    Interpreter interpreter(model, {f64, seed});
    TrainingState state;
    for (int64_t step = 1; step <= steps; ++step) {
      auto results = interpreter.run(makeInputs(model, seed, step, 0.01), state);
      if (failed(results))
        return failure();
      model.emitRemark() << "step " << step << " loss "
                         << results->front().data[0];
    }
    return success();
  }

  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(run(model)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

LogicalResult kerf::checkInterpretable(ModelOp model) {
  constexpr int64_t limit = int64_t(1) << 28;
  auto check = [&](Location loc, Type type) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    double elements = 1;
    for (int64_t size : tensor ? tensor.getShape() : llvm::ArrayRef<int64_t>())
      elements *= size;
    if (elements <= limit)
      return success();
    auto diagnostic = mlir::emitError(loc)
                      << "the interpreter holds tensors of up to 2^28 "
                         "elements, found "
                      << type;
    diagnostic.attachNote() << "import the model with a smaller batch and "
                               "sequence, or a tiny config";
    return diagnostic;
  };
  for (BlockArgument input : model.getBody().getArguments())
    if (failed(check(input.getLoc(), input.getType())))
      return failure();
  WalkResult walk = model.getBody().walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (failed(check(op->getLoc(), type)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}
