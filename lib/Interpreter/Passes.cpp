#include "kerf/Interpreter/Passes.h"

#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Interpreter/SpmdInterpreter.h"

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

  /// Runs the steps; `run` makes one from its inputs.
  template <typename What, typename Run>
  LogicalResult runSteps(Operation *op, What what, Run run) {
    if (failed(checkInterpretable(what)))
      return failure();
    TrainingState state;
    for (int64_t step = 1; step <= steps; ++step) {
      auto results = run(makeInputs(what, seed, step, 0.01), state);
      if (failed(results))
        return failure();
      std::string loss; // in digits that tell two f32 apart
      llvm::raw_string_ostream(loss)
          << llvm::format("%.9g", results->front().data[0]);
      op->emitRemark() << "step " << step << " loss " << loss;
    }
    return success();
  }

  LogicalResult runModel(ModelOp model) {
    Interpreter interpreter(model, {f64, seed});
    return runSteps(model, model, [&](const auto &inputs, auto &state) {
      return interpreter.run(inputs, state);
    });
  }

  LogicalResult runPrograms(llvm::ArrayRef<spmd::ProgramOp> programs) {
    if (getOutputs(programs).empty())
      return spmd::ProgramOp(programs.front()).emitOpError("has no output");
    SpmdInterpreter interpreter(programs, {f64, seed});
    spmd::ProgramOp first = programs.front();
    return runSteps(first, programs, [&](const auto &inputs, auto &state) {
      return interpreter.run(inputs, state, "train");
    });
  }

  void runOnOperation() override {
    if (steps < 1) {
      mlir::emitError(getOperation().getLoc()) << "expected steps >= 1";
      return signalPassFailure();
    }
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(runModel(model)))
        return signalPassFailure();
    for (const auto &programs : getPipelines(getOperation()))
      if (failed(runPrograms(programs)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
