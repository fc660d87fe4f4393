//===- Image.h - kernels of an artifact -----------------------------------===//

#ifndef KERF_DEVICES_CPU_IMAGE_H
#define KERF_DEVICES_CPU_IMAGE_H

#include "kerf/Runtime/Device.h"

namespace kerf::cpu {

/// As in kerf_device_api.
kerf_device_status loadImage(kerf_device *device, const void *bytes,
                             uint64_t size, const char *ptx, uint64_t ptxBytes,
                             kerf_image **image, char *error,
                             size_t errorBytes);
kerf_function *findKernel(kerf_image *image, const char *symbol);
void unloadImage(kerf_image *image);

} // namespace kerf::cpu

#endif // KERF_DEVICES_CPU_IMAGE_H
