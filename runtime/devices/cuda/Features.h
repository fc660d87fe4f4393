//===- Features.h - what kernels need of a GPU ----------------------------===//

#ifndef KERF_DEVICES_CUDA_FEATURES_H
#define KERF_DEVICES_CUDA_FEATURES_H

#include "kerf/Runtime/Device.h"

namespace kerf::cuda {

/// As in kerf_device_api. Knows GPUs ("sm_90": of compute capability 9.0 or
/// later; "sm_90a": of 9.0 alone), by the least capable GPU of the machine, and
/// versions of PTX ("ptx80"), by the driver's. Where there is no driver or no
/// GPU nothing is missing: `create` says so.
int32_t checkFeatures(const char *features, char *missing, size_t missingBytes);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_FEATURES_H
