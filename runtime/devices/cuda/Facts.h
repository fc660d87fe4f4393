//===- Facts.h - what is said of a GPU and its libraries ------------------===//

#ifndef KERF_DEVICES_CUDA_FACTS_H
#define KERF_DEVICES_CUDA_FACTS_H

#include "State.h"

namespace kerf::cuda {

/// As in kerf_device_api.
void facts(const kerf_device *device, kerf_device_facts *facts);
void examine(char *text, size_t bytes);
kerf_device_status builtinKernel(kerf_device *device, uint32_t builtin,
                                 kerf_function **function, char *error,
                                 size_t errorBytes);

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_FACTS_H
