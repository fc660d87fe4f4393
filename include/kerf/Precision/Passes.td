//===- Passes.td - number types -------------------------------------------===//

#ifndef KERF_PRECISION_PASSES_TD
#define KERF_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrecisionPass : Pass<"kerf-precision", "::mlir::ModuleOp"> {
  let summary = "Give every value the type it is computed and kept in";
  let description = [{
    `f32` leaves the training step as it is. `bf16` keeps parameters, activations
    and their gradients in bf16; trainable parameters get an f32 master, which
    the update reads and writes; weight gradients, their sums, the loss and what
    an op defines to be f32 (log-sum-exp, routing weights) stay f32. Casts are
    explicit. `f16` does the same with f16; small gradients are zero in it, so
    that the step must have been differentiated with `scale-loss`.

    Errors: f16 for a step whose loss is not scaled.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"f32\"", "f32, bf16 or f16">,
  ];
}

def VerifyPrecisionPass : Pass<"kerf-verify-precision", "::mlir::ModuleOp"> {
  let summary = "Check the contract after precision";
  let description = [{
    Every trainable parameter of a 16-bit type has a master; gradients reach
    updates in the type that is updated, and the global norm in 32 bits at least.
  }];
}

#endif // KERF_PRECISION_PASSES_TD
