//===- Solo.cpp - the transport of a single rank --------------------------===//

#include "Transport.h"

#include <cstring>

using namespace kerf::runtime;

namespace {
/// A group of one: everything is a copy.
class SoloCommunicator : public Communicator {
public:
  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }

  Status allReduce(const void *source, void *destination, uint32_t dtype,
                   uint32_t, uint64_t count) override {
    return copy(source, destination, dtype, count);
  }
  Status allGather(const void *source, void *destination, uint32_t dtype,
                   uint64_t outer, uint64_t inner) override {
    return copy(source, destination, dtype, outer * inner);
  }
  Status reduceScatter(const void *source, void *destination, uint32_t dtype,
                       uint32_t, uint64_t outer, uint64_t inner) override {
    return copy(source, destination, dtype, outer * inner);
  }
  Status allToAll(const void *source, void *destination, uint32_t dtype, bool,
                  uint64_t outer, uint64_t middle, uint64_t inner) override {
    return copy(source, destination, dtype, outer * middle * inner);
  }
  Status rotate(const void *source, void *destination, uint32_t dtype,
                uint64_t count) override {
    return copy(source, destination, dtype, count);
  }
  Status send(uint32_t member, const void *, uint64_t) override {
    return alone(member);
  }
  Status receive(uint32_t member, void *, uint64_t) override {
    return alone(member);
  }
  Status barrier() override { return {}; }

private:
  static Status copy(const void *source, void *destination, uint32_t dtype,
                     uint64_t count) {
    if (source != destination && count != 0)
      std::memmove(destination, source, count * kerf_dtype_bytes(dtype));
    return {};
  }
  static Status alone(uint32_t member) {
    return failure(KERF_INVALID, "no member %u in a group of one", member);
  }
};

class SoloTransport : public Transport {
public:
  Status split(const std::vector<uint32_t> &,
               std::unique_ptr<Communicator> &group) override {
    group = std::make_unique<SoloCommunicator>();
    return {};
  }
  Status open(const ChannelSpec &spec, std::unique_ptr<Channel> &) override {
    return failure(KERF_INVALID, "a channel from rank %u to %u in a job of one",
                   spec.from, spec.to);
  }
  void enter(uint32_t) override {}
  void abort(const char *) override {}
};
} // namespace

std::unique_ptr<Transport> kerf::runtime::makeSoloTransport() {
  return std::make_unique<SoloTransport>();
}
