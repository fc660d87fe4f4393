//===- Passes.td - from ops to kernels ------------------------------------===//

#ifndef KERF_FUSE_PASSES_TD
#define KERF_FUSE_PASSES_TD

include "mlir/Pass/PassBase.td"

def MergePadsPass : Pass<"kerf-merge-pads", "::mlir::ModuleOp"> {
  let summary = "Join sums of padded tensors to one concatenation";
  let description = [{
    The gradient of slices is a sum of padded gradients. Where the parts do not
    overlap and leave no gap, it is their concatenation, which their producers
    can write in place.
  }];
}

def JoinGroupsPass : Pass<"kerf-join-groups", "::mlir::ModuleOp"> {
  let summary = "Give all groups of tokens of a rank one table of experts' rows";
  let description = [{
    `kerf.assign_slots` gives each group of sequences a table of its own. In the
    program of a rank that has all experts, rows of all groups go into one, in which
    those of an expert lie together. For speed: matmuls of experts work on tiles of
    128 rows, of which an expert's last one is not full; now it has one, not one for
    each group. Nothing changes where experts are split among ranks, or where tables
    have a capacity.
  }];
}

def FoldOffsetsPass : Pass<"kerf-fold-offsets", "::mlir::ModuleOp"> {
  let summary = "Tell attention where its part lies by one number each";
  let description = [{
    What computes an offset of `kerf.attention` from `spmd.offset` and constants
    becomes one `spmd.offset`: sums, multiples, and the place along a ring that goes
    on at its beginning. For speed: such a number is known when a file is loaded, so
    that a library can be asked for just what the rank's queries see, and no kernel
    computes it in every layer.
  }];
}

def FuseEpiloguesPass : Pass<"kerf-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "Let matmuls compute what follows them";
  let description = [{
    A tanh gelu behind a matmul, its gradient behind the matmul that makes the
    gradient of its result, and the sum of the rows of a factor (the gradient of
    a bias) become one `spmd.fused_matmul` with the matmul, where the libraries of
    GPUs have such a call; so does a multiplication by the units of 8-bit floats
    (`kerf.unit`). For speed: the op's values go through memory once less, and a
    launch is saved. A sum that a kernel computes beside its other work stays there.
  }];
  let options = [
    Option<"gelu", "gelu", "bool", /*default=*/"true",
      "Take gelu and its gradient, too">,
    Option<"sums", "sums", "bool", /*default=*/"true",
      "Take sums of rows, too">,
    Option<"wideScales", "wide-scales", "bool", /*default=*/"false",
      "Scale matmuls of wider floats, too">];
}

def PadMatmulsPass : Pass<"kerf-pad-matmuls", "::mlir::ModuleOp"> {
  let summary = "Widen the columns of matmuls to whole lines of memory";
  let description = [{
    A matmul whose rows are no multiple of 16 bytes, such as logits over 50,257
    words, gets more columns: its weight is padded with rows of zeros, and what
    reads the result (a loss, its gradient, the matmuls of that) is written for
    the wider rows. Sums, maxima and contracted dimensions see neutral values in
    the new columns; weights and their gradients keep their shape. For speed: GPUs
    read and write 16 bytes at a time, and matmuls on tensor cores ask for it.
    Where a reader cannot do with wider rows, nothing changes.
  }];
}

def OutlineKernelsPass : Pass<"kerf-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "Make each op that no library computes a kernel of its own";
  let description = [{
    Contractions, attention and views stay; every other compute op becomes an
    `spmd.fused` of its decomposition. Constants, index tensors and scalars that are
    computed from units (`kerf.unit`) alone are recomputed in each kernel that reads
    them. Needed for correctness: code is generated
    for `spmd.fused` alone.
  }];
  let options = [
    Option<"ownKernels", "own-kernels", "bool", "true",
           "ops that bring a kernel, which is for CPUs, keep it; else those that decompose are decomposed">,
  ];
}

def HoistTablesPass : Pass<"kerf-hoist-tables", "::mlir::ModuleOp"> {
  let summary = "Make tables of constants once per step";
  let description = [{
    A costly function of constants that a kernel spreads along leading dimensions
    (the cosines and sines of rotary positions) is made by the prologue and kept in
    a buffer of the step; equal tables of all functions are one. For speed: each
    kernel would store it again before it reads it, a launch more.
  }];
}

def HoistUnitsPass : Pass<"kerf-hoist-units", "::mlir::ModuleOp"> {
  let summary = "Find units of weights once per step";
  let description = [{
    `kerf.unit` of a layer's weight, as it is stored, is found by the prologue and kept in
    a buffer of the step, 16 bytes a layer; forward and backward functions read it
    there. For speed: each pass of each micro-batch would read the weight for it. Runs
    after `kerf-fuse-epilogues`, which must see that scales are units.
  }];
}

def AbsorbMovesPass : Pass<"kerf-absorb-moves", "::mlir::ModuleOp"> {
  let summary = "Slice and concatenate inside kernels";
  let description = [{
    A slice that kernels alone read is done by each of them: it is another address.
    A concatenation computes the parts of kernels that it alone reads. For speed: a
    rotary embedding of a part of a head's channels, or a gate that is one half of a
    matmul, reads and writes memory once.
  }];
}

def FuseGroupsPass : Pass<"kerf-fuse-groups", "::mlir::ModuleOp"> {
  let summary = "Join kernels that work on the same rows";
  let description = [{
    Kernels over one space (the shape of their largest tensor) are joined with
    their producers and with readers of the same tensors, as long as no other op
    stands between them. For speed: values inside a kernel cost no memory.
    With `gathers`, `kerf.combine` takes part: it is joined as a sum of the rows that
    it makes, and a sum that is made for it alone is made where it looks up rows.
    With `turned`, a kernel that copies a tensor (casts or scales it) is joined with one that makes
    a transposed copy of it.
  }];
  let options = [Option<"gathers", "gathers", "bool", /*default=*/"false",
    "Join kernels that look up rows of experts, too">,
    Option<"turned", "turned", "bool", /*default=*/"false",
    "Join copies of a tensor with transposed ones">];
}

def VerifyFusedPass : Pass<"kerf-verify-fused", "::mlir::ModuleOp"> {
  let summary = "Check the contract after fuse";
  let description = [{
    Every compute op is a kernel of plain ops, a library op, or a view that its
    readers or writers take with strides.
  }];
}

#endif // KERF_FUSE_PASSES_TD
