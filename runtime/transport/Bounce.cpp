//===- Bounce.cpp ---------------------------------------------------------===//

#include "Bounce.h"

#include <utility>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Bytes of what each member has of a value, without the dimension of members.
static uint64_t partBytes(const Exchange &exchange) {
  return exchange.outer * exchange.middle * exchange.inner *
         kerf_dtype_bytes(exchange.dtype);
}

uint64_t kerf::runtime::sourceBytes(const Exchange &exchange,
                                    uint32_t members) {
  bool hasAll = exchange.opcode == KERF_OP_REDUCE_SCATTER ||
                exchange.opcode == KERF_OP_ALL_TO_ALL;
  return partBytes(exchange) * (hasAll ? members : 1);
}

uint64_t kerf::runtime::destinationBytes(const Exchange &exchange,
                                         uint32_t members) {
  bool hasAll = exchange.opcode == KERF_OP_ALL_GATHER ||
                exchange.opcode == KERF_OP_ALL_TO_ALL;
  return partBytes(exchange) * (hasAll ? members : 1);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Status BounceBuffers::Buffer::grow(uint64_t to) {
  if (to <= bytes)
    return {};
  data.reset(); // Nothing is kept: at most one of both is there.
  bytes = 0;
  data.reset(std::malloc(to));
  if (!data)
    return failure(KERF_NO_MEMORY,
                   "cannot get a buffer of %llu bytes on the host, through "
                   "which the device exchanges",
                   (unsigned long long)to);
  bytes = to;
  return {};
}

Status BounceBuffers::reserve(uint64_t given, uint64_t got) {
  Status status = source.grow(given);
  return status.failed() ? status : destination.grow(got);
}

Status BounceBuffers::fetch(const void *memory, uint64_t bytes) {
  if (Status status = reserve(bytes, 0); status.failed())
    return status;
  if (bytes != 0)
    api.copy_out(device, source.data.get(), memory, bytes);
  // Behind the copy, so that a failure of it is told, too.
  char error[512] = "";
  if (api.synchronize(device, error, sizeof error))
    return failure(KERF_FAILED, "%s", error);
  return {};
}

void BounceBuffers::store(void *memory, uint64_t bytes) {
  if (bytes != 0)
    api.copy_in(device, memory, got(), bytes);
}

//===----------------------------------------------------------------------===//
// Groups and channels
//===----------------------------------------------------------------------===//

namespace {
class BounceCommunicator : public Communicator {
public:
  BounceCommunicator(std::unique_ptr<Communicator> group,
                     BounceBuffers &buffers)
      : group(std::move(group)), buffers(buffers) {}
  uint32_t rank() const override { return group->rank(); }
  uint32_t size() const override { return group->size(); }

  Status start(const Exchange &exchange) override {
    bytes = destinationBytes(exchange, size());
    Status status =
        buffers.fetch(exchange.source, sourceBytes(exchange, size()));
    if (!status.failed())
      status = buffers.reserve(0, bytes);
    if (status.failed())
      return status;
    destination = exchange.destination;
    Exchange onHost = exchange;
    onHost.source = buffers.given();
    onHost.destination = buffers.got();
    return group->start(onHost);
  }
  Status finish() override {
    Status status = group->finish();
    if (!status.failed())
      buffers.store(destination, bytes);
    return status;
  }

  Status send(uint32_t member, const void *data, uint64_t count) override {
    Status status = buffers.fetch(data, count);
    return status.failed() ? status
                           : group->send(member, buffers.given(), count);
  }
  Status receive(uint32_t member, void *data, uint64_t count) override {
    Status status = buffers.reserve(0, count);
    if (!status.failed())
      status = group->receive(member, buffers.got(), count);
    if (!status.failed())
      buffers.store(data, count);
    return status;
  }
  Status barrier() override { return group->barrier(); }

private:
  std::unique_ptr<Communicator> group;
  BounceBuffers &buffers;
  void *destination = nullptr; ///< of the exchange under way
  uint64_t bytes = 0;
};

class BounceChannel : public Channel {
public:
  BounceChannel(std::unique_ptr<Channel> channel, BounceBuffers &buffers)
      : channel(std::move(channel)), buffers(buffers) {}

  Status send(const void *data, uint64_t bytes) override {
    Status status = buffers.fetch(data, bytes);
    return status.failed() ? status : channel->send(buffers.given(), bytes);
  }
  Status receive(void *data, uint64_t bytes) override {
    Status status = buffers.reserve(0, bytes);
    if (!status.failed())
      status = channel->receive(buffers.got(), bytes);
    if (!status.failed())
      buffers.store(data, bytes);
    return status;
  }

private:
  std::unique_ptr<Channel> channel;
  BounceBuffers &buffers;
};
} // namespace

std::unique_ptr<Communicator>
kerf::runtime::bounce(std::unique_ptr<Communicator> group,
                      BounceBuffers &buffers) {
  return std::make_unique<BounceCommunicator>(std::move(group), buffers);
}

std::unique_ptr<Channel> kerf::runtime::bounce(std::unique_ptr<Channel> channel,
                                               BounceBuffers &buffers) {
  return std::make_unique<BounceChannel>(std::move(channel), buffers);
}
