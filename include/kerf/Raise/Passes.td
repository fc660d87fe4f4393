//===- Passes.td - graphs of plain ops to layers in loops -----------------===//

#ifndef KERF_RAISE_PASSES_TD
#define KERF_RAISE_PASSES_TD

include "mlir/Pass/PassBase.td"

def RaisePass : Pass<"kerf-raise", "::mlir::ModuleOp"> {
  let summary = "Recognize the layers of a Transformer in plain ops";
  let description = [{
    Graphs that come from other tools spell layers out. Norms, rotary
    embeddings, attention with its mask, activations, gates, biases and the
    loss over rows become the ops of the dialect that stages plan, split and fuse
    best. What is not recognized stays as it is. A remark at each model counts
    what was found.
  }];
  let options = [
    Option<"explains", "explain", "bool", /*default=*/"false",
           "Remark what was left plain, and why">,
  ];
}

def RollPass : Pass<"kerf-roll", "::mlir::ModuleOp"> {
  let summary = "Make loops of layers that repeat";
  let description = [{
    Parameters whose names differ in one number (`h.3.attn.weight`) say where
    layers begin. Neighbours whose ops are the same, one layer or several that
    take turns, become a `kerf.repeat`; first and last layers that are unlike
    stay outside. A remark at each model tells the loops.
  }];
}

def FuseProjectionsPass : Pass<"kerf-fuse-projections", "::mlir::ModuleOp"> {
  let summary = "Make one matmul of linear layers that read one value";
  let description = [{
    Linear layers of one input whose weights have one shape (gate and up; key and
    value; with as many heads, the query too) get one weight, a stack of theirs:
    `mlp.{gate,up}_proj.weight`. For speed: one matmul instead of two or three, and
    one gradient of their input. Names, first values and checkpoints stay those of the
    single weights, and so does what each weight's optimizer does. Layers stay apart
    where a weight is read twice, is frozen, or has a group of its own, and in models
    with adapters.
  }];
}

#endif // KERF_RAISE_PASSES_TD
