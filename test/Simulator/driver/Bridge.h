//===- Bridge.h - what stand-ins of libraries use of the driver's ---------===//

#ifndef KERF_SIMULATOR_BRIDGE_H
#define KERF_SIMULATOR_BRIDGE_H

#include <cstdint>
#include <functional>

namespace kerf::sim {

/// Enqueues work in a stream, as a kernel; it may throw Trap. Returns the
/// status of the call.
__attribute__((visibility("default"))) int
bridgeEnqueue(void *stream, std::function<void()> work);

/// Host memory of [address, address + bytes), or null where it is not inside
/// one allocation.
__attribute__((visibility("default"))) uint8_t *bridgeHost(uint64_t address,
                                                           uint64_t bytes);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_BRIDGE_H
