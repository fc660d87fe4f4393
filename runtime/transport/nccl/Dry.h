//===- Dry.h - a job that only writes down what it asks of NCCL -----------===//
//
// Each rank is a session with the executor and the transport of a real run, on
// a device without memory and an NCCL that notes its calls. So what is written
// down is what a cluster would do, and any machine can look at any job.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_NCCL_DRY_H
#define KERF_RUNTIME_TRANSPORT_NCCL_DRY_H

#include "Calls.h"
#include "NcclTransport.h"

#include <map>

namespace kerf::runtime::nccl {

/// The NCCL of one rank: notes calls.
class DryRank {
public:
  std::vector<Call> calls;
  /// Communicators in the order in which the rank got them: by which split (0:
  /// the whole job) and color, and its place.
  struct Made {
    uint32_t split;
    int color;
    int place;
  };
  std::vector<Made> made;
  uint32_t command = UINT32_MAX; ///< that the rank is in
  uint32_t splits = 0, streams = 4;
  uint32_t group = 0, depth = 0;
  uint64_t events = 0;

  void note(Call call);
};

/// All ranks of a job.
class DryJob {
public:
  explicit DryJob(uint32_t size) : ranks(size), named(size) {
    job.ranks.resize(size);
  }

  std::vector<DryRank> ranks;
  std::vector<NamedList> named;
  SplitPlan plan; ///< empty until `planAll`

  /// Plans the splits from what all ranks named.
  Status planAll() { return planSplits(named, plan); }
  /// The device and the transport of a rank. Before `planAll` its `meet` notes
  /// what the rank names and fails with KERF_UNSUPPORTED.
  const kerf_device_api *api() const;
  kerf_device *device(uint32_t rank);
  std::unique_ptr<Transport> transport(uint32_t rank);
  /// The rank has called what it will; its list is taken.
  void finish(uint32_t rank) {
    job.ranks[rank].list = job.add(std::move(ranks[rank].calls));
    ranks[rank].calls.clear();
  }
  /// What all ranks called, once all have finished. Takes it.
  Job take();

private:
  Job job;
};

} // namespace kerf::runtime::nccl

#endif // KERF_RUNTIME_TRANSPORT_NCCL_DRY_H
