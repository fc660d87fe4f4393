//===- Plugin.h - finding libraries of devices and transports -------------===//

#ifndef KERF_RUNTIME_CORE_PLUGIN_H
#define KERF_RUNTIME_CORE_PLUGIN_H

#include "Status.h"

#include "kerf/Runtime/Device.h"
#include "kerf/Runtime/Wire.h"

namespace kerf::runtime {

/// Opens `libkerf_device_<name>.so`: from the folders of `path` (by colon), or,
/// when that is null, of KERF_PLUGIN_PATH; then <exe>/../lib/kerf, <exe>/../lib
/// and the folder of this library. The first one that exists counts. Fails
/// when there is none (the folders are named), and when it does not load or is
/// of another ABI. The library stays loaded until the process ends.
Status openDevice(const std::string &name, const char *path,
                  const kerf_device_api *&api);

/// The same for the transport library `libkerf_wire_<name>.so`.
Status openWire(const std::string &name, const char *path,
                const kerf_wire_api *&api);

/// What a failure of a device means to a caller. Only KERF_FAILED is worth
/// another try as it is.
inline kerf_status statusOf(kerf_device_status status) {
  switch (status) {
  case KERF_DEVICE_OK:
    return KERF_OK;
  case KERF_DEVICE_INVALID:
    return KERF_INVALID;
  case KERF_DEVICE_UNSUPPORTED:
    return KERF_UNSUPPORTED;
  case KERF_DEVICE_NO_MEMORY:
    return KERF_NO_MEMORY;
  default:
    return KERF_FAILED;
  }
}

/// Takes the arena of a program, `bytes` of zeros, from a device; the caller
/// gives it back with `api.free`. On failure `arena` stays as it is, and the
/// status has the device's reason.
Status allocateArena(const kerf_device_api &api, kerf_device *device,
                     uint64_t bytes, char *&arena);

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_PLUGIN_H
