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

def QuantizeMatmulsPass : Pass<"kerf-quantize-matmuls", "::mlir::ModuleOp"> {
  let summary = "Multiply weights of layers in 8-bit floats";
  let description = [{
    Matmuls of activations with weights in repeated layers, and the two matmuls of
    their gradients, get operands of 8 bits: `f8E4M3FN`, and `f8E5M2` for the
    gradients of activations. An operand is divided by its `unit` first, a power of
    two; the result is multiplied by both units. The contracted dimensions lie last in memory, as tensor cores want them.

    Left alone are attention, the router, experts, embeddings, the head, matmuls
    with results of f32 in the forward pass, and what is no multiple of 16 in any of
    its sizes.

    Runs on a step of bf16, before it is planned.
  }];
}

def WidenMatmulsPass : Pass<"kerf-widen-matmuls", "::mlir::ModuleOp"> {
  let summary = "Multiply 8-bit floats as bf16 where the device cannot";
  let description = [{
    bf16 has every number of both 8-bit types, so that the matmuls are the same.
    Concerns matmuls whose local sizes are no multiples of 16, which cuBLASLt does not
    take; with `all` every matmul.
  }];
  let options = [
    Option<"all", "all", "bool", "false", "the device has no matmuls of 8-bit floats">,
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
