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

def OutlineKernelsPass : Pass<"kerf-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "Make each op that no library computes a kernel of its own";
  let description = [{
    Contractions, attention and views stay; every other compute op becomes an
    `spmd.fused` of its decomposition. Constants and index tensors are made again
    in each kernel that reads them. Needed for correctness: code is generated
    for `spmd.fused` alone.
  }];
}

def FuseGroupsPass : Pass<"kerf-fuse-groups", "::mlir::ModuleOp"> {
  let summary = "Join kernels that work on the same rows";
  let description = [{
    Kernels over one space (the shape of their largest tensor) are joined with
    their producers and with readers of the same tensors, as long as no other op
    stands between them. For speed: values inside a kernel cost no memory.
  }];
}

def VerifyFusedPass : Pass<"kerf-verify-fused", "::mlir::ModuleOp"> {
  let summary = "Check the contract after fuse";
  let description = [{
    Every compute op is a kernel of plain ops, a library op, or a view that its
    readers or writers take with strides.
  }];
}

#endif // KERF_FUSE_PASSES_TD
