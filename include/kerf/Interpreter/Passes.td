//===- Passes.td - running models -----------------------------------------===//

#ifndef KERF_INTERPRETER_PASSES_TD
#define KERF_INTERPRETER_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecomposePass : Pass<"kerf-decompose", "::mlir::ModuleOp"> {
  let summary = "Replace high-level ops by the plain ops that define them";
  let description = [{
    The interpreter's semantics, as IR. Tests compare it with the op; a backend
    without a kernel for an op may use it.
  }];
}

def InterpretPass : Pass<"kerf-interpret", "::mlir::ModuleOp"> {
  let summary = "Run every model or program of the module in the interpreter";
  let description = [{
    Steps on seeded inputs; fails where a `kerf.check_close` fails. The loss of
    each is reported as a remark. Of programs the schedule "train" is run, all
    stages of a pipeline together. The IR is left as it is.
  }];
  let options = [
    Option<"f64", "f64", "bool", "false", "compute everything in f64">,
    Option<"seed", "seed", "int64_t", "0", "seed of inputs and parameters">,
    Option<"steps", "steps", "int64_t", "1", "steps to run">,
  ];
}

#endif // KERF_INTERPRETER_PASSES_TD
