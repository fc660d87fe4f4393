//===- SuiteDevice.cpp ----------------------------------------------------===//

#include "SuiteDevice.h"

#include "Nccl.h"

#include <cstdlib>
#include <map>

#include <dlfcn.h>

using namespace kerf::runtime;

namespace {
/// Streams of the stand-in, ordered by its events.
struct Streams {
  std::unique_ptr<nccl::Nccl> library;
  std::unique_ptr<nccl::Gpu> gpu;
  nccl::Stream streams[KERF_DEVICE_STREAMS] = {};
  nccl::Event event = nullptr;
};
} // namespace

static Streams &streams() {
  static Streams made;
  return made;
}

static kerf_device_status order(kerf_device *, uint32_t before, uint32_t after,
                                char *, size_t) {
  Streams &own = streams();
  bool failed = own.gpu->record(own.event, own.streams[before]).failed() ||
                own.gpu->wait(own.streams[after], own.event).failed();
  return failed ? KERF_DEVICE_FAILED : KERF_DEVICE_OK;
}

const kerf_device_api *kerf::test::suiteDevice(kerf_device **device) {
  Streams &own = streams();
  Status status = nccl::openNccl(own.library, own.gpu);
  if (status.failed()) {
    std::fprintf(stderr, "%s\n", status.message.c_str());
    std::exit(2);
  }
  for (nccl::Stream &stream : own.streams)
    (void)own.gpu->makeStream(stream);
  (void)own.gpu->makeEvent(own.event);
  static kerf_device_api api = {KERF_DEVICE_ABI, sizeof api, "suite"};
  api.alloc = [](kerf_device *, uint64_t bytes, void **memory, char *, size_t) {
    *memory = std::calloc(1, bytes);
    return *memory ? KERF_DEVICE_OK : KERF_DEVICE_NO_MEMORY;
  };
  api.free = [](kerf_device *, void *memory, uint64_t) { std::free(memory); };
  api.stream = [](kerf_device *, uint32_t number) -> void * {
    return streams().streams[number];
  };
  api.order = order;
  *device = reinterpret_cast<kerf_device *>(&own);
  return &api;
}

bool kerf::test::setRecordings(int count) {
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  auto *set = reinterpret_cast<void (*)(int)>(
      library ? dlsym(library, "kerfStandInRecord") : nullptr);
  if (!set)
    return false;
  set(count);
  return true;
}

namespace {
class WaitingCommunicator : public Communicator {
public:
  WaitingCommunicator(Transport &transport, std::unique_ptr<Communicator> inner)
      : transport(transport), inner(std::move(inner)) {}
  uint32_t rank() const override { return inner->rank(); }
  uint32_t size() const override { return inner->size(); }
  Status start(const Exchange &exchange) override {
    return inner->start(exchange);
  }
  Status finish() override { return drained(inner->finish()); }
  Status send(uint32_t member, const void *data, uint64_t bytes) override {
    return drained(inner->send(member, data, bytes));
  }
  Status receive(uint32_t member, void *data, uint64_t bytes) override {
    return drained(inner->receive(member, data, bytes));
  }
  Status barrier() override { return inner->barrier(); }

private:
  Status drained(const Status &status) {
    return status.failed() ? status : transport.drain();
  }
  Transport &transport;
  std::unique_ptr<Communicator> inner;
};

class WaitingChannel : public Channel {
public:
  WaitingChannel(Transport &transport, std::unique_ptr<Channel> inner)
      : transport(transport), inner(std::move(inner)) {}
  Status send(const void *data, uint64_t bytes) override {
    return drained(inner->send(data, bytes));
  }
  Status receive(void *data, uint64_t bytes) override {
    return drained(inner->receive(data, bytes));
  }
  Status expect(uint64_t bytes) override { return inner->expect(bytes); }

private:
  Status drained(const Status &status) {
    return status.failed() ? status : transport.drain();
  }
  Transport &transport;
  std::unique_ptr<Channel> inner;
};

class WaitingTransport : public Transport {
public:
  explicit WaitingTransport(std::unique_ptr<Transport> inner)
      : inner(std::move(inner)) {}
  Status split(const std::vector<uint32_t> &members,
               std::unique_ptr<Communicator> &group) override {
    std::unique_ptr<Communicator> made;
    Status status = inner->split(members, made);
    group = std::make_unique<WaitingCommunicator>(*inner, std::move(made));
    return status;
  }
  Status open(const ChannelSpec &spec,
              std::unique_ptr<Channel> &channel) override {
    std::unique_ptr<Channel> made;
    Status status = inner->open(spec, made);
    if (!status.failed())
      channel = std::make_unique<WaitingChannel>(*inner, std::move(made));
    return status;
  }
  void enter(uint32_t command) override { inner->enter(command); }
  bool abort(const char *message) override { return inner->abort(message); }
  Status meet() override { return inner->meet(); }
  Status waitFor(const std::function<bool()> &isDone) override {
    return inner->waitFor(isDone);
  }

private:
  std::unique_ptr<Transport> inner;
};
} // namespace

std::unique_ptr<Transport>
kerf::test::waitFor(std::unique_ptr<Transport> transport) {
  return std::make_unique<WaitingTransport>(std::move(transport));
}
