//===- Passes.td - graphs of plain ops to layers in loops -----------------===//

#ifndef KERF_RAISE_PASSES_TD
#define KERF_RAISE_PASSES_TD

include "mlir/Pass/PassBase.td"

def RaisePass : Pass<"kerf-raise", "::mlir::ModuleOp"> {
  let summary = "Recognize the layers of a Transformer in plain ops";
  let description = [{
    Graphs that come from other tools spell layers out. Norms, rotary
    embeddings, attention with its mask, activations, gates, biases and the
    loss over rows become the ops of the dialect that stages plan, cut and fuse
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

#endif // KERF_RAISE_PASSES_TD
