//===- NcclTransport.h - exchanges between GPUs by NCCL -------------------===//
//
// Exchanges are enqueued: those of groups on a stream of the device, each
// message of a channel on the channel's own stream, from a copy, so that the
// sender goes on and nobody waits for messages in another order than they were
// planned in. Once the communicators are there the host does not block in the
// driver or in NCCL: it waits by asking, while a transport of the host watches
// the job.
//
// All ranks make their communicators at the same time, in `meet`, from one plan
// (Splits.h).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_NCCL_NCCLTRANSPORT_H
#define KERF_RUNTIME_TRANSPORT_NCCL_NCCLTRANSPORT_H

#include "Splits.h"

#include "Transport.h"

#include <list>

namespace kerf::runtime::nccl {

/// How ranks agree before they have communicators.
class Meeting {
public:
  virtual ~Meeting() = default;
  /// Collective: gives all ranks the id of rank 0.
  virtual Status share(UniqueId &id) = 0;
  /// Collective: what this rank, which is in the groups `own`, does in the
  /// splits.
  virtual Status plan(const NamedList &own, std::vector<Split> &splits) = 0;
};

/// What the transport of a rank is made of.
struct Parts {
  uint32_t rank = 0, size = 1;
  std::unique_ptr<Nccl> nccl;
  std::unique_ptr<Gpu> gpu;
  std::unique_ptr<Transport> host; ///< of the same ranks
  std::unique_ptr<Meeting> meeting;
  const kerf_device_api *api = nullptr;
  kerf_device *device = nullptr;
  std::function<std::string(uint32_t)> nameCommand; ///< may be empty
  std::function<void()> dropRecordings;             ///< may be empty
};

std::unique_ptr<Transport> makeNcclTransport(Parts parts);

/// Meets the other ranks, by shared memory where all are on one machine, else
/// by TCP, or by MPI under mpirun. Fails where the device has no memory of its
/// own, and where NCCL or the driver is missing.
Status connectNccl(const Rendezvous &rendezvous, const char *pluginPath,
                   std::unique_ptr<Transport> &transport);

/// The stream of the device that exchanges of groups are on.
constexpr uint32_t kExchangeStream = 1;

} // namespace kerf::runtime::nccl

#endif // KERF_RUNTIME_TRANSPORT_NCCL_NCCLTRANSPORT_H
