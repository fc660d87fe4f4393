//===- StateFile.h - states that earlier versions saved ---------*- C++ -*-===//
//
// One file, `state.safetensors`, with all tensors whole, what a run is at as
// metadata, and a checksum of all that it says.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_STATEFILE_H
#define KERF_TRAIN_STATEFILE_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/RunState.h"
#include "kerf/Train/Safetensors.h"

#include <string>

namespace kerf::runtime {

inline constexpr const char *stateFileName = "state.safetensors";

class StateFile {
public:
  /// Fails on missing, truncated and damaged files (all bytes are checked).
  [[nodiscard]] bool open(const std::string &folder, std::string &error);
  const RunState &state() const { return run; }
  /// Bytes of its tensors.
  uint64_t bytes() const { return file.dataBytes(); }
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

#endif // KERF_TRAIN_STATEFILE_H
