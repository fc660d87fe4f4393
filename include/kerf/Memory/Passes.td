//===- Passes.td - from tensors to one arena ------------------------------===//

#ifndef KERF_MEMORY_PASSES_TD
#define KERF_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def BuildCommandsPass : Pass<"kerf-build-commands", "::mlir::ModuleOp"> {
  let summary = "Give every value a buffer and list the commands";
  let description = [{
    Replaces each `spmd.program` by an `exec.program`. Values that are written to
    a buffer, stacked or carried are computed where they go; views share the
    buffer of their base. Workspaces of library calls are buffers, too.
    A slot buffer has as many copies as its attribute `slots` says, else as the
    program. Channels hold `channel_capacity` messages (an attribute of the
    program), else one. Buffers are laid out one behind the other; the program is
    whole, and its arena as large as all of them.
  }];
  let options = [
    Option<"workers", "workers", "int64_t", "8",
           "threads that workspaces of library calls are planned for">,
    Option<"target", "target", "std::string", "\"cpu\"",
           "cpu or cuda: whose library calls">,
  ];
}

def PlaceMemoryPass : Pass<"kerf-place-memory", "::mlir::ModuleOp"> {
  let summary = "Give bytes to several buffers that never live together";
  let description = [{
    Finds when each buffer of an `exec.program` that `kerf-build-commands` made is
    alive in the calls of its schedules, places them in a small arena, and moves
    all addresses. Buffers that no command uses go away. Refuses a slot buffer whose
    copies would hold two micro-batches at one time.
  }];
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
