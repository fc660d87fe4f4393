//===- RunState.h - where a run is ------------------------------*- C++ -*-===//

#ifndef KERF_TRAIN_RUNSTATE_H
#define KERF_TRAIN_RUNSTATE_H

#include "kerf/Train/LossScale.h"
#include "kerf/Train/Schedule.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace kerf::runtime {

struct RunState {
  int64_t step = 0; ///< steps done
  int64_t consumedSamples = 0;
  int64_t seed = 0;
  Schedule schedule;
  std::optional<LossScale> lossScale; ///< of a model that takes one
  uint64_t dataFingerprint = 0;
  uint64_t programHash = 0; ///< kerf_meta.input_hash

  /// Steps that changed the weights: what an optimizer counts.
  int64_t updates() const {
    return step - (lossScale ? lossScale->skippedSteps : 0);
  }
};

/// Names and values.
using Metadata = std::map<std::string, std::string>;

Metadata describeRun(const RunState &state);
/// False if an entry is missing, malformed or of a value that no run has.
[[nodiscard]] bool readRun(const Metadata &metadata, RunState &state);

} // namespace kerf::runtime

#endif // KERF_TRAIN_RUNSTATE_H
