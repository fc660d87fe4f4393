//===- Image.h - kernels of an artifact -----------------------------------===//

#ifndef KERF_DEVICES_CUDA_IMAGE_H
#define KERF_DEVICES_CUDA_IMAGE_H

#include "State.h"

/// A kernel of an image.
struct kerf_function {
  kerf::cuda::CUfunction handle;
  int maxThreads; ///< of a block
};

namespace kerf::cuda {

/// Loads a NUL-terminated PTX text or a cubin. Writes what the assembler says
/// on failure.
CUresult loadModule(kerf_device &device, const void *code, CUmodule &module,
                    std::string &log);

/// Whether loading failed for what the code is, with this GPU and driver.
bool isRefusal(CUresult result);

/// As in kerf_device_api.
kerf_device_status loadImage(kerf_device *device, const void *bytes,
                             uint64_t size, const char *ptx, uint64_t ptxBytes,
                             kerf_image **image, char *error,
                             size_t errorBytes);
kerf_function *findKernel(kerf_image *image, const char *symbol);
void unloadImage(kerf_image *image);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_IMAGE_H
