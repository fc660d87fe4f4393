//===- Copies.h - copies to the host beside the steps ---------------------===//
//
// As in kerf_device_api.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_COPIES_H
#define KERF_DEVICES_CUDA_COPIES_H

#include "State.h"

namespace kerf::cuda {

kerf_device_status allocHost(kerf_device *device, uint64_t bytes, void **memory,
                             char *error, size_t errorBytes);
void freeHost(kerf_device *device, void *memory);
kerf_device_status copyBeside(kerf_device *device, void *host,
                              const void *memory, uint64_t bytes, char *error,
                              size_t errorBytes);
kerf_device_status joinCopies(kerf_device *device, char *error,
                              size_t errorBytes);
kerf_device_status awaitCopies(kerf_device *device, char *error,
                               size_t errorBytes);
/// Gives stream and events back.
void dropCopies(kerf_device &device);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_COPIES_H
