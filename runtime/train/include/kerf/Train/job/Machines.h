//===- Machines.h - which rank is on which machine --------------*- C++ -*-===//

#ifndef KERF_TRAIN_JOB_MACHINES_H
#define KERF_TRAIN_JOB_MACHINES_H

#include "kerf/Runtime/Runtime.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// The name of this machine: KERF_MACHINE, else its host name. At most 47 bytes
/// of it.
std::string machineName();

/// Collective: the machine of each of `ranks` ranks.
kerf_status gatherMachines(kerf_session *session, uint32_t ranks,
                           std::vector<std::string> &machines,
                           kerf_error &failure);

/// Ranks and their machines, which are numbered by their first rank.
struct MachineMap {
  std::vector<uint32_t> of;                 ///< machine of each rank
  std::vector<std::vector<uint32_t>> ranks; ///< of each machine

  explicit MachineMap(const std::vector<std::string> &names = {});
  uint32_t count() const { return static_cast<uint32_t>(ranks.size()); }
  /// Whether it is the first rank on its machine.
  bool isFirst(uint32_t rank) const { return ranks[of[rank]].front() == rank; }
  /// The rank that keeps what `rank` has: on the machine half of all machines
  /// further. Needs two machines.
  uint32_t keeperOf(uint32_t rank) const;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_MACHINES_H
