//===- Streams.h - order, waiting and graphs ------------------------------===//
//
// As in kerf_device_api.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_STREAMS_H
#define KERF_DEVICES_CUDA_STREAMS_H

#include "State.h"

namespace kerf::cuda {

/// Where a failure of what was enqueued happened: "in 'mlp'", or as much of
/// that as is known.
std::string placeOf(const kerf_device &device);

/// Waits for all streams; the message names the step where that is known.
kerf_device_status synchronize(kerf_device *device, char *error,
                               size_t errorBytes);
void *stream(kerf_device *device, uint32_t number);
kerf_device_status order(kerf_device *device, uint32_t before, uint32_t after,
                         char *error, size_t errorBytes);
kerf_device_status beginGraph(kerf_device *device, char *error,
                              size_t errorBytes);
kerf_device_status endGraph(kerf_device *device, kerf_graph **graph,
                            char *error, size_t errorBytes);
kerf_device_status launchGraph(kerf_device *device, kerf_graph *graph,
                               char *error, size_t errorBytes);
void destroyGraph(kerf_graph *graph);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_STREAMS_H
