#include "kerf/Interpreter/Passes.h"

#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Interpreter/Interpreter.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

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
      auto results =
          interpreter.run(makeInputs(model, seed, step, 0.01), state);
      if (failed(results))
        return failure();
      std::string loss; // in digits that tell two f32 apart
      llvm::raw_string_ostream(loss)
          << llvm::format("%.9g", results->front().data[0]);
      model.emitRemark() << "step " << step << " loss " << loss;
    }
    return success();
  }

  void runOnOperation() override {
    if (steps < 1) {
      mlir::emitError(getOperation().getLoc()) << "expected steps >= 1";
      return signalPassFailure();
    }
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(run(model)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
