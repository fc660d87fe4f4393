//===- CudnnStep.h - commands of attention that cuDNN runs ----------------===//

#ifndef KERF_DEVICES_CUDA_CUDNNSTEP_H
#define KERF_DEVICES_CUDA_CUDNNSTEP_H

#include "../common/AttentionShape.h"
#include "Step.h"

namespace kerf::cuda {

/// Attention of a checked command, or its gradient, by cuDNN; `isWide`: all
/// rows lie in whole 16 bytes. Null where it is for own kernels, with nothing
/// written to the request's message; KERF_CUDA_LOG tells why.
StepPointer prepareFused(Request &request, const device::AttentionShape &shape,
                         bool backward, bool isWide);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_CUDNNSTEP_H
