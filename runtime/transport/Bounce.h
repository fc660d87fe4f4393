//===- Bounce.h - exchanges of memory that the host cannot address --------===//
//
// A transport for memory of the host serves a device with memory of its own:
// the source is copied to a buffer of the host, exchanged, and the result is
// copied back. The device waits meanwhile; nothing of it can be recorded.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_BOUNCE_H
#define KERF_RUNTIME_TRANSPORT_BOUNCE_H

#include "Transport.h"

#include <cstdlib>

namespace kerf::runtime {

/// Bytes that one of `members` gives to an exchange.
uint64_t sourceBytes(const Exchange &exchange, uint32_t members);
/// Bytes that it gets.
uint64_t destinationBytes(const Exchange &exchange, uint32_t members);

/// The buffers of a session. Exchanges and messages take turns: a rank has at
/// most one under way.
class BounceBuffers {
public:
  BounceBuffers(const kerf_device_api &api, kerf_device *device)
      : api(api), device(device) {}

  /// Makes room for exchanges that give and get so many bytes.
  Status reserve(uint64_t given, uint64_t got);
  uint64_t bytes() const { return source.bytes + destination.bytes; }

  /// Waits for the device and copies what is to be given. Fails with what went
  /// wrong in the steps so far.
  Status fetch(const void *memory, uint64_t bytes);
  /// Copies what was got to the device.
  void store(void *memory, uint64_t bytes);
  const void *given() const { return source.data.get(); }
  void *got() const { return destination.data.get(); }

private:
  struct Buffer {
    std::unique_ptr<void, void (*)(void *)> data{nullptr, std::free};
    uint64_t bytes = 0;

    Status grow(uint64_t to);
  };
  const kerf_device_api &api;
  kerf_device *device;
  Buffer source, destination;
};

/// `group` for memory of the device. The buffers outlive it.
std::unique_ptr<Communicator> bounce(std::unique_ptr<Communicator> group,
                                     BounceBuffers &buffers);
std::unique_ptr<Channel> bounce(std::unique_ptr<Channel> channel,
                                BounceBuffers &buffers);

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_BOUNCE_H
