//===- RankTimes.h - where the ranks of a job spend their steps -*- C++ -*-===//

#ifndef KERF_TRAIN_JOB_RANKTIMES_H
#define KERF_TRAIN_JOB_RANKTIMES_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Trace.h"
#include "kerf/Train/job/SlowRanks.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Follows the times of this rank, and now and then compares those of all.
class RankTimes {
public:
  /// Before each step of a session, and after it.
  void begin(kerf_session *session);
  void end(kerf_session *session, const StepTimes &times);

  /// Collective: fills `waits` with seconds of the last step, by rank: data,
  /// communication, meetings; and finds ranks that became slow since.
  kerf_status compare(kerf_session *session, const kerf_artifact *artifact,
                      std::vector<std::array<double, 3>> &waits,
                      std::vector<SlowRank> &slow, kerf_error &failure);
  /// Of a rank; known after the first comparison.
  const std::string &machineOf(uint32_t rank) const { return machines[rank]; }

  /// On the first rank: what the compared steps went into, mean of all ranks,
  /// and which rank was the slowest most often; "" without any, or of one rank.
  std::string summary() const;

private:
  void add(const std::vector<std::array<double, 3>> &waits,
           const std::vector<double> &busySec);
  kerf_status gatherMachines(kerf_session *session, uint32_t ranks,
                             kerf_error &failure);

  kerf_waits before{}, between{}; ///< before the step, after the one before it
  std::array<double, 3> own{};    ///< of the last step
  double busySec = 0;             ///< since the last comparison
  int64_t steps = 0;              ///< that these are of
  std::vector<std::string> machines;
  std::optional<SlowRanks> slowRanks;
  std::array<double, 4> sums{};   ///< data, communication, meetings, computing
  std::vector<int64_t> slowestIn; ///< comparisons, by rank
  int64_t compared = 0;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_RANKTIMES_H
