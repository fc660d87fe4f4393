//===- Solo.cpp - the transport of a single rank --------------------------===//

#include "Transport.h"

#include <cstring>

#include <sched.h>

using namespace kerf::runtime;

namespace {
/// A group of one: everything is a copy.
class SoloCommunicator : public Communicator {
public:
  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }

  Status start(const Exchange &exchange) override {
    uint64_t count = exchange.outer * exchange.middle * exchange.inner;
    if (exchange.source != exchange.destination && count != 0)
      std::memmove(exchange.destination, exchange.source,
                   count * kerf_dtype_bytes(exchange.dtype));
    return {};
  }
  Status finish() override { return {}; }
  Status send(uint32_t member, const void *, uint64_t) override {
    return alone(member);
  }
  Status receive(uint32_t member, void *, uint64_t) override {
    return alone(member);
  }
  Status barrier() override { return {}; }

private:
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
  bool abort(const char *) override { return true; }
  Status waitFor(const std::function<bool()> &isDone) override {
    while (!isDone())
      sched_yield();
    return {};
  }
};
} // namespace

std::unique_ptr<Transport> kerf::runtime::makeSoloTransport() {
  return std::make_unique<SoloTransport>();
}
