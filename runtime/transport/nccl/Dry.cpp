//===- Dry.cpp ------------------------------------------------------------===//

#include "Dry.h"

#include <cstring>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

void DryRank::note(Call call) {
  if (depth == 0)
    ++group;
  call.group = group;
  call.command = command;
  calls.push_back(call);
}

/// Streams and communicators are their numbers + 1, so that none is null.
template <typename Handle> static Handle handleOf(uint64_t number) {
  return reinterpret_cast<Handle>(number + 1);
}
template <typename Handle> static uint32_t numberOf(Handle handle) {
  return uint32_t(reinterpret_cast<uintptr_t>(handle) - 1);
}

//===----------------------------------------------------------------------===//
// NCCL and the driver
//===----------------------------------------------------------------------===//

namespace {
class DryNccl : public Nccl {
public:
  DryNccl(DryRank &rank, uint32_t size) : sizes{size}, rank(rank) {}

  Result getUniqueId(UniqueId &) override { return kSuccess; }
  Result initRank(Comm &comm, int, const UniqueId &, int place,
                  const Config &) override {
    return make(comm, 0, 0, place);
  }
  Result split(Comm, int color, int key, Comm &part, const Config &) override {
    ++rank.splits;
    return color == kNoColor ? kSuccess : make(part, rank.splits, color, key);
  }
  Result getAsyncError(Comm, Result &error) override {
    error = kSuccess;
    return kSuccess;
  }
  Result destroy(Comm) override { return kSuccess; }
  Result abort(Comm) override { return kSuccess; }

  Result groupStart() override {
    if (rank.depth++ == 0)
      ++rank.group;
    return kSuccess;
  }
  Result groupEnd() override {
    --rank.depth;
    return kSuccess;
  }
  Result allReduce(const void *, void *, uint64_t count, DataType type,
                   Reduction reduction, Comm comm, Stream stream) override {
    return note(CallKind::AllReduce, count, type, reduction, comm, stream);
  }
  Result allGather(const void *, void *, uint64_t count, DataType type,
                   Comm comm, Stream stream) override {
    return note(CallKind::AllGather, count, type, kSum, comm, stream);
  }
  Result reduceScatter(const void *, void *, uint64_t count, DataType type,
                       Reduction reduction, Comm comm, Stream stream) override {
    return note(CallKind::ReduceScatter, count, type, reduction, comm, stream);
  }
  Result send(const void *, uint64_t count, DataType type, int peer, Comm comm,
              Stream stream) override {
    return note(CallKind::Send, count, type, kSum, comm, stream, peer);
  }
  Result receive(void *, uint64_t count, DataType type, int peer, Comm comm,
                 Stream stream) override {
    return note(CallKind::Receive, count, type, kSum, comm, stream, peer);
  }
  std::string text(Result, Comm) const override { return "dry"; }

  /// Members of a communicator of the rank, by its number; told by the plan.
  std::vector<uint32_t> sizes;

private:
  Result make(Comm &comm, uint32_t split, int color, int place) {
    comm = handleOf<Comm>(rank.made.size());
    rank.made.push_back({split, color, place});
    return kSuccess;
  }
  Result note(CallKind kind, uint64_t count, DataType type, Reduction reduction,
              Comm comm, Stream stream, int peer = -1) {
    Call call{kind, uint8_t(type), uint8_t(reduction)};
    call.stream = numberOf(stream);
    call.comm = numberOf(comm);
    call.count = count;
    if (peer >= 0) {
      uint32_t size = sizes[call.comm];
      uint32_t place = rank.made[call.comm].place;
      call.distance = (uint32_t(peer) + size - place) % size;
    }
    rank.note(call);
    return kSuccess;
  }

  DryRank &rank;
};

class DryGpu : public Gpu {
public:
  explicit DryGpu(DryRank &rank) : rank(rank) {}

  Status makeStream(Stream &stream) override {
    stream = handleOf<Stream>(rank.streams++);
    return {};
  }
  void freeStream(Stream) override {}
  Status makeEvent(Event &event) override {
    versions.push_back(0);
    event = handleOf<Event>(versions.size() - 1);
    return {};
  }
  void freeEvent(Event) override {}
  Status record(Event event, Stream stream) override {
    versions[numberOf(event)] = ++rank.events;
    return note(CallKind::Record, stream, rank.events);
  }
  Status wait(Stream stream, Event event) override {
    return note(CallKind::Wait, stream, versions[numberOf(event)]);
  }
  Status copy(void *, const void *, uint64_t, Stream) override { return {}; }
  Status copyRows(const Pitched<void> &, const Pitched<const void> &, uint64_t,
                  uint64_t, Stream) override {
    return {};
  }
  Status look(Stream stream, bool &isDone) override {
    isDone = true;
    return note(CallKind::Drain, stream, 0);
  }
  Status makeWords(uint32_t, uint32_t *&words) override {
    words = nullptr;
    return failure(KERF_UNSUPPORTED, "no words in a dry run");
  }
  void freeWords(uint32_t *) override {}
  Status write(uint32_t *, uint32_t, Stream) override { return {}; }

private:
  Status note(CallKind kind, Stream stream, uint64_t count) {
    Call call{kind};
    call.stream = numberOf(stream);
    call.count = count;
    rank.note(call);
    return {};
  }

  DryRank &rank;
  std::vector<uint64_t> versions; ///< of events: which record was the last
};

//===----------------------------------------------------------------------===//
// The host's side
//===----------------------------------------------------------------------===//

/// A world whose ranks say nothing to each other.
class DryCommunicator : public Communicator {
public:
  DryCommunicator(uint32_t own, uint32_t count) : own(own), count(count) {}
  uint32_t rank() const override { return own; }
  uint32_t size() const override { return count; }
  Status start(const Exchange &) override { return {}; }
  Status finish() override { return {}; }
  Status send(uint32_t, const void *, uint64_t) override { return {}; }
  Status receive(uint32_t, void *, uint64_t) override { return {}; }
  Status barrier() override { return {}; }

private:
  const uint32_t own, count;
};

class DryHost : public Transport {
public:
  DryHost(DryRank &rank, uint32_t number) : rank(rank), number(number) {}
  Status split(const std::vector<uint32_t> &members,
               std::unique_ptr<Communicator> &group) override {
    group = std::make_unique<DryCommunicator>(number, members.size());
    return {};
  }
  Status open(const ChannelSpec &, std::unique_ptr<Channel> &) override {
    return failure(KERF_INVALID, "a dry run has no channels of the host");
  }
  void enter(uint32_t command) override { rank.command = command; }
  bool abort(const char *) override { return true; }
  Status waitFor(const std::function<bool()> &isDone) override {
    // All is done at once.
    return isDone() ? Status()
                    : failure(KERF_FAILED, "a dry run waits for nothing");
  }

private:
  DryRank &rank;
  const uint32_t number;
};

class DryMeeting : public Meeting {
public:
  DryMeeting(DryJob &job, uint32_t rank, DryNccl &nccl)
      : job(job), rank(rank), nccl(nccl) {}
  Status share(UniqueId &) override { return {}; }
  Status plan(const NamedList &own, std::vector<Split> &splits) override {
    if (job.plan.empty()) {
      job.named[rank] = own;
      return failure(KERF_UNSUPPORTED, "noted");
    }
    splits = job.plan[rank];
    for (const Split &split : splits)
      if (split.color != kNoColor)
        nccl.sizes.push_back(own[split.named].size);
    return {};
  }

private:
  DryJob &job;
  const uint32_t rank;
  DryNccl &nccl;
};
} // namespace

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

/// Addresses that nobody looks at.
static void *const kNowhere = reinterpret_cast<void *>(uintptr_t(1) << 40);

static DryRank &rankOf(kerf_device *device) {
  return *reinterpret_cast<DryRank *>(device);
}

static const kerf_device_api *makeApi() {
  static kerf_device_api api = {KERF_DEVICE_ABI, sizeof(kerf_device_api),
                                "dry"};
  api.destroy = [](kerf_device *) {};
  api.describe = [](const kerf_device *) { return "dry"; };
  api.workers = [](const kerf_device *) { return 1; };
  api.alloc = [](kerf_device *, uint64_t, void **memory, char *, size_t) {
    *memory = kNowhere;
    return KERF_DEVICE_OK;
  };
  api.free = [](kerf_device *, void *, uint64_t) {};
  api.copy_in = [](kerf_device *, void *, const void *, uint64_t) {};
  api.copy_out = [](kerf_device *, void *host, const void *, uint64_t bytes) {
    std::memset(host, 0, bytes);
  };
  api.load_image = [](kerf_device *, const void *, uint64_t, const char *,
                      uint64_t, kerf_image **image, char *, size_t) {
    *image = reinterpret_cast<kerf_image *>(kNowhere);
    return KERF_DEVICE_OK;
  };
  api.find_kernel = [](kerf_image *, const char *) {
    return reinterpret_cast<kerf_function *>(kNowhere);
  };
  api.unload_image = [](kerf_image *) {};
  api.prepare = [](kerf_device *, const kerf_step_info *, kerf_step **step,
                   char *, size_t) {
    *step = reinterpret_cast<kerf_step *>(kNowhere);
    return KERF_DEVICE_OK;
  };
  api.execute = [](kerf_step *, void *const *, char *, size_t) {
    return KERF_DEVICE_OK;
  };
  api.destroy_step = [](kerf_step *) {};
  api.scalar = [](kerf_device *, int32_t, const void **address, char *,
                  size_t) {
    *address = kNowhere;
    return KERF_DEVICE_OK;
  };
  api.synchronize = [](kerf_device *, char *, size_t) {
    return KERF_DEVICE_OK;
  };
  api.stream = [](kerf_device *, uint32_t number) {
    return static_cast<void *>(handleOf<Stream>(number));
  };
  api.order = [](kerf_device *device, uint32_t before, uint32_t after, char *,
                 size_t) {
    DryRank &rank = rankOf(device);
    Call call{CallKind::Record};
    call.stream = before;
    call.count = ++rank.events;
    rank.note(call);
    call.kind = CallKind::Wait;
    call.stream = after;
    rank.note(call);
    return KERF_DEVICE_OK;
  };
  return &api;
}

const kerf_device_api *DryJob::api() const {
  static const kerf_device_api *made = makeApi();
  return made;
}

kerf_device *DryJob::device(uint32_t rank) {
  return reinterpret_cast<kerf_device *>(&ranks[rank]);
}

std::unique_ptr<Transport> DryJob::transport(uint32_t rank) {
  ranks[rank] = {};
  auto nccl = std::make_unique<DryNccl>(ranks[rank], uint32_t(ranks.size()));
  Parts parts;
  parts.rank = rank;
  parts.size = uint32_t(ranks.size());
  parts.gpu = std::make_unique<DryGpu>(ranks[rank]);
  parts.host = std::make_unique<DryHost>(ranks[rank], rank);
  parts.meeting = std::make_unique<DryMeeting>(*this, rank, *nccl);
  parts.nccl = std::move(nccl);
  parts.api = api();
  parts.device = device(rank);
  return makeNcclTransport(std::move(parts));
}

Job DryJob::take() {
  std::map<std::pair<uint32_t, int>, uint32_t> numbers;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    for (const DryRank::Made &made : ranks[r].made) {
      auto [at, isNew] = numbers.try_emplace({made.split, made.color},
                                             uint32_t(numbers.size()));
      if (isNew)
        job.members.emplace_back();
      std::vector<uint32_t> &members = job.members[at->second];
      if (members.size() <= uint32_t(made.place))
        members.resize(made.place + 1, UINT32_MAX);
      members[made.place] = r;
      job.ranks[r].comms.push_back({at->second, uint32_t(made.place)});
    }
  }
  return std::move(job);
}
