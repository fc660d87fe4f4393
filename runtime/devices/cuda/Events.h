//===- Events.h - times that the GPU takes itself -------------------------===//

#ifndef KERF_DEVICES_CUDA_EVENTS_H
#define KERF_DEVICES_CUDA_EVENTS_H

#include "State.h"

namespace kerf::cuda {

/// Gives back the events of `device.times`.
void dropTimes(kerf_device &device);

/// As in kerf_device_api.
kerf_device_status reserveTimes(kerf_device *device, uint32_t count,
                                char *error, size_t errorBytes);
kerf_device_status startTimes(kerf_device *device, char *error,
                              size_t errorBytes);
kerf_device_status noteTime(kerf_device *device, uint32_t stream,
                            uint32_t index, char *error, size_t errorBytes);
kerf_device_status readTime(kerf_device *device, uint32_t index,
                            double *seconds, char *error, size_t errorBytes);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_EVENTS_H
