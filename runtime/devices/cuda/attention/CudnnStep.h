//===- CudnnStep.h - commands of attention that cuDNN runs ----------------===//

#ifndef KERF_DEVICES_CUDA_CUDNNSTEP_H
#define KERF_DEVICES_CUDA_CUDNNSTEP_H

#include "../../common/AttentionShape.h"
#include "../Step.h"

#include <string>

namespace kerf::cuda {

/// Where keys and values, or their gradients, are copies in the workspace:
/// bytes from its first aligned address behind delta.
struct FusedCopies {
  int64_t k = 0, v = 0, dk = 0, dv = 0;
};

/// What of a command is attended at once.
struct FusedView {
  device::AttentionShape shape; ///< sq, sk and strides of it
  /// The last query sees the last key, and each before it one less; else the
  /// first one sees the first key.
  bool bottomRight = false;
  int64_t query = 0, key = 0; ///< its first rows in the command's tensors
  bool isCopied = false;      ///< keys and their gradients are copies
  FusedCopies copies;
  int64_t skipped = 0; ///< aligned bytes of the workspace behind delta
};

/// A command of attention, or of its gradient, with all that cuDNN is told.
struct FusedRequest {
  Request &request;
  bool backward;
  bool isWide;           ///< all rows lie in whole 16 bytes
  bool anyOrder = false; ///< sums of dq may be in any order
};

/// A step for a view, whose scalars are not looked at. Null where cuDNN does
/// not take it; `why` says so.
StepPointer fuseView(const FusedRequest &fused, const FusedView &view,
                     std::string &why);

/// Causal attention of a rank whose queries or keys are a part of the sequence
/// (ContextStep.cpp), as `fuseView`.
StepPointer fuseContext(const FusedRequest &fused,
                        const device::AttentionShape &shape, std::string &why);

/// Attention of a checked command, or its gradient, by cuDNN; `isWide`: all
/// rows lie in whole 16 bytes. Null where it is for own kernels, with nothing
/// written to the request's message; KERF_CUDA_LOG tells why.
StepPointer prepareFused(Request &request, const device::AttentionShape &shape,
                         bool backward, bool isWide);

/// Of a command of attention: its operand that is the workspace.
constexpr uint32_t attentionWorkspace(bool backward) {
  return device::attentionScalars(backward) + KERF_ATTN_WORKSPACE;
}

/// The first address of a workspace behind `skipped` bytes that cuDNN takes.
void *workspaceAt(void *workspace, int64_t skipped);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_CUDNNSTEP_H
