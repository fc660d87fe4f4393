//===- RankTimes.h - where the ranks of a job spend their steps -*- C++ -*-===//

#ifndef KERF_TRAIN_JOB_RANKTIMES_H
#define KERF_TRAIN_JOB_RANKTIMES_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Trace.h"
#include "kerf/Train/job/LinkTimes.h"
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

  /// Collective, after step `step`: fills `waits` with seconds of the last one,
  /// by rank: data, communication, meetings; and tells of ranks and links that
  /// became slow since.
  kerf_status compare(kerf_session *session, const kerf_artifact *artifact,
                      int64_t step, std::vector<std::array<double, 3>> &waits,
                      Log &log, kerf_error &failure);

  /// On the first rank: what the compared steps went into, mean of all ranks,
  /// and which rank was the slowest most often; "" without any, or of one rank.
  std::string summary() const;

private:
  void add(const std::vector<std::array<double, 3>> &waits,
           const std::vector<double> &busySec);

  kerf_waits before{}, between{}; ///< before the step, after the one before it
  std::array<double, 3> own{};    ///< of the last step
  double busySec = 0;             ///< since the last comparison
  int64_t steps = 0;              ///< that these are of
  kerf_status begin(kerf_session *session, const kerf_artifact *artifact,
                    kerf_error &failure);
  kerf_status measureLinks(int64_t step, Log &log, kerf_error &failure);

  std::vector<std::string> machines; ///< of each rank
  std::optional<SlowRanks> slowRanks;
  std::optional<LinkTimes> links; ///< of several machines
  std::array<double, 4> sums{};   ///< data, communication, meetings, computing
  std::vector<int64_t> slowestIn; ///< comparisons, by rank
  int64_t compared = 0;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_RANKTIMES_H
