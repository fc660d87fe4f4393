//===- NcclConnect.cpp - ranks with GPUs find each other ------------------===//

#include "NcclTransport.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

namespace {
/// Agrees through a transport of the host.
class HostMeeting : public Meeting {
public:
  explicit HostMeeting(std::unique_ptr<Communicator> world)
      : world(std::move(world)) {}

  Status share(UniqueId &id) override {
    std::vector<UniqueId> ids(world->size());
    Status status =
        world->allGather(&id, ids.data(), KERF_I1, 1, sizeof(UniqueId));
    id = ids.front();
    return status;
  }
  Status plan(const NamedList &own, std::vector<Split> &splits) override;

private:
  std::unique_ptr<Communicator> world;
};
} // namespace

Status HostMeeting::plan(const NamedList &own, std::vector<Split> &splits) {
  uint32_t size = world->size();
  uint64_t count = own.size();
  std::vector<uint64_t> counts(size);
  Status status =
      world->allGather(&count, counts.data(), KERF_I1, 1, sizeof count);
  if (status.failed())
    return status;
  uint64_t most = *std::max_element(counts.begin(), counts.end());
  NamedList padded = own, all(most * size);
  padded.resize(most);
  status = world->allGather(padded.data(), all.data(), KERF_I1, 1,
                            most * sizeof(Named));
  if (status.failed())
    return status;
  std::vector<NamedList> named(size);
  for (uint32_t rank = 0; rank < size; ++rank)
    named[rank].assign(all.begin() + rank * most,
                       all.begin() + rank * most + counts[rank]);
  SplitPlan plan;
  status = planSplits(named, plan);
  if (!status.failed())
    splits = std::move(plan[world->rank()]);
  return status;
}

/// The transport by which ranks on GPUs agree and watch each other: that of the
/// machine where all are on one.
static const char *hostFor(const Rendezvous &rendezvous) {
  constexpr uint32_t mostOfMachine = 64;
  if (std::strcmp(defaultTransport(), "shm") != 0)
    return defaultTransport();
  const char *local = std::getenv("LOCAL_WORLD_SIZE");
  bool isOneMachine = !local || std::atoll(local) >= rendezvous.size;
  bool isSmall = rendezvous.size <= mostOfMachine && !rendezvous.name.empty();
  return isOneMachine && isSmall ? "shm" : "tcp";
}

Status kerf::runtime::nccl::connectNccl(const Rendezvous &rendezvous,
                                        const char *pluginPath,
                                        std::unique_ptr<Transport> &transport) {
  if (!rendezvous.api || rendezvous.api->flags & KERF_DEVICE_HOST_MEMORY)
    return failure(KERF_INVALID,
                   "transport 'nccl' moves memory of GPUs, and this job runs "
                   "on '%s': use shm, tcp or mpi",
                   rendezvous.api ? rendezvous.api->name : "the host");
  Parts parts;
  Status status = openNccl(parts.nccl, parts.gpu);
  if (status.failed()) {
    status.message = "transport 'nccl': " + status.message;
    return status;
  }
  status =
      connectTransport(hostFor(rendezvous), pluginPath, rendezvous, parts.host);
  if (status.failed())
    return status;
  std::vector<uint32_t> all(rendezvous.size);
  for (uint32_t r = 0; r < all.size(); ++r)
    all[r] = r;
  std::unique_ptr<Communicator> world;
  status = parts.host->split(all, world);
  if (status.failed())
    return status;
  parts.meeting = std::make_unique<HostMeeting>(std::move(world));
  parts.rank = rendezvous.rank;
  parts.size = rendezvous.size;
  parts.api = rendezvous.api;
  parts.device = rendezvous.device;
  parts.nameCommand = rendezvous.nameCommand;
  parts.dropRecordings = rendezvous.dropRecordings;
  transport = makeNcclTransport(std::move(parts));
  return {};
}
