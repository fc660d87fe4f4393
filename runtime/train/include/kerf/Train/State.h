//===- State.h - everything that a run needs to go on -----------*- C++ -*-===//
//
// A saved state is `state.safetensors` in a folder: all parameters, masters and
// optimizer state as global tensors (any layout loads any layout), and as
// metadata the step, the place in the data, the seed, the learning-rate
// schedule and the loss scale. It is replaced by rename only when the new one
// is complete, and carries a checksum of all that it says.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_STATE_H
#define KERF_TRAIN_STATE_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/LossScale.h"
#include "kerf/Train/Safetensors.h"
#include "kerf/Train/Schedule.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kerf::runtime {

/// Where a run is.
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

/// Saves to `folder`, which is made if needed. Collective; the first rank
/// writes. On failure the state that was there stays; what is not finite is
/// a failure.
[[nodiscard]] bool saveState(kerf_session *session,
                             const kerf_artifact *artifact,
                             const std::string &folder, const RunState &state,
                             std::string &error);

/// Whether a state can be saved to `folder`: makes it, and a file there that
/// does not stay.
[[nodiscard]] bool tryState(const std::string &folder, std::string &error);

/// A state that is being loaded.
class SavedState {
public:
  /// Opens the state in `folder` and reads its metadata. Fails on missing,
  /// truncated and damaged files (all bytes are checked).
  [[nodiscard]] bool open(const std::string &folder, std::string &error);
  const RunState &state() const { return run; }
  /// Sets all tensors of the session. Fails on tensors that are missing, not of
  /// the model, or of another shape or type.
  [[nodiscard]] bool restore(kerf_session *session,
                             const kerf_artifact *artifact,
                             std::string &error) const;

private:
  SafetensorsFile file;
  RunState run;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_STATE_H
