//===- Memory.h - memory of a GPU -----------------------------------------===//
//
// As in kerf_device_api.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_MEMORY_H
#define KERF_DEVICES_CUDA_MEMORY_H

#include "State.h"

namespace kerf::cuda {

kerf_device_status allocate(kerf_device *device, uint64_t bytes, void **memory,
                            char *error, size_t errorBytes);
void release(kerf_device *device, void *memory, uint64_t bytes);
/// A failure is kept for `synchronize`.
void copyIn(kerf_device *device, void *memory, const void *host,
            uint64_t bytes);
void copyOut(kerf_device *device, void *host, const void *memory,
             uint64_t bytes);
kerf_device_status scalar(kerf_device *device, int32_t value,
                          const void **address, char *error, size_t errorBytes);
kerf_device_status memoryInfo(kerf_device *device, uint64_t *freeBytes,
                              uint64_t *totalBytes, char *error,
                              size_t errorBytes);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_MEMORY_H
