//===- AnyNumber.h - elements whose type is known when the kernel runs ----===//

#ifndef KERF_DEVICES_CUDA_KERNELS_ANYNUMBER_H
#define KERF_DEVICES_CUDA_KERNELS_ANYNUMBER_H

#include "Number.h"

#pragma clang force_cuda_host_device begin
#include "kerf/Artifact/Format.h"
#pragma clang force_cuda_host_device end

namespace kerf::cuda {

/// Element `index` of an array of KERF_F32, KERF_BF16 or KERF_F16.
KERF_DEVICE float load(const void *data, int dtype, int64_t index) {
  if (dtype == KERF_F32)
    return static_cast<const float *>(data)[index];
  if (dtype == KERF_F16)
    return toFloat(static_cast<const F16 *>(data)[index]);
  return toFloat(static_cast<const Bf16 *>(data)[index]);
}

/// Sets it, rounded to nearest.
KERF_DEVICE void store(void *data, int dtype, int64_t index, float value) {
  if (dtype == KERF_F32)
    static_cast<float *>(data)[index] = value;
  else if (dtype == KERF_F16)
    static_cast<F16 *>(data)[index] = (F16)value;
  else
    static_cast<Bf16 *>(data)[index] = (Bf16)value;
}

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_ANYNUMBER_H
