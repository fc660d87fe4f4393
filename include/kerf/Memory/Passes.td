//===- Passes.td - from tensors to one arena ------------------------------===//

#ifndef KERF_MEMORY_PASSES_TD
#define KERF_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlaceMemoryPass : Pass<"kerf-place-memory", "::mlir::ModuleOp"> {
  let summary = "Place every value in one arena and list the commands";
  let description = [{
    Replaces each `spmd.program` by an `exec.program`. Values that are written to
    a buffer, stacked or carried are computed where they go; views share the
    buffer of their base. Workspaces of library calls are placed like buffers.
    A slot buffer has as many copies as its attribute `slots` says, else as the
    program. Channels hold `channel_capacity` messages (an attribute of the
    program), else one.
  }];
  let options = [
    Option<"workers", "workers", "int64_t", "8",
           "threads that workspaces of library calls are planned for">,
    Option<"target", "target", "std::string", "\"cpu\"",
           "cpu or cuda: whose library calls">,
  ];
}

def VerifyMemoryPass : Pass<"kerf-verify-memory", "::mlir::ModuleOp"> {
  let summary = "Check the contract after memory";
  let description = [{
    No tensor is left outside kernels; every placed buffer lies inside the arena,
    and no two that live at one time overlap; every launch has a kernel and as
    many operands as it. That operands lie inside the arena is a constraint of
    `exec.program`. Whether a command keeps to the life of its buffer is not
    checked: operands are addresses.
  }];
}

#endif // KERF_MEMORY_PASSES_TD
