//===- LinkTimes.h - measures links between the steps of a job --*- C++ -*-===//

#ifndef KERF_TRAIN_JOB_LINKTIMES_H
#define KERF_TRAIN_JOB_LINKTIMES_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/job/Machines.h"
#include "kerf/Train/job/SlowLinks.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// The first ranks of machines exchange messages, now and then, in pairs that
/// change; links that became slow are found. While they are fast it takes a
/// hundredth of the time at most. Messages go by the host's transport.
class LinkTimes {
public:
  /// `machines`: of each rank.
  LinkTimes(kerf_session *session, const std::vector<std::string> &machines);

  /// Whether a round is due by this rank's clock: all take one rank's word.
  bool isDue() const;
  /// Collective: measures a round, and adds what became slow, or is no more, to
  /// `told`: the same on all ranks.
  kerf_status measure(std::vector<SlowLink> &told, kerf_error &failure);
  /// Of the machines.
  const std::vector<std::string> &names() const { return machineNames; }

private:
  kerf_status exchange(double &seconds, kerf_error &failure);
  kerf_status exchangeOnce(uint32_t other, bool isFirst, kerf_error &failure);

  kerf_session *session;
  MachineMap map;
  std::vector<std::string> machineNames;
  SlowLinks links;
  std::vector<char> message;
  uint64_t round = 0;
  double shortest = 0; ///< seconds of a round
  double last = 0;     ///< when the last one ended
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_LINKTIMES_H
