//===- State.h - everything that a run needs to go on -----------*- C++ -*-===//

#ifndef KERF_TRAIN_STATE_H
#define KERF_TRAIN_STATE_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/RunState.h"
#include "kerf/Train/StateFile.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/StateReader.h"

#include <string>
#include <variant>

namespace kerf::runtime {

/// What a checkpoint's manifest has as `kerf_checkpoint`.
inline constexpr const char *checkpointVersion = "1";

/// A state that is being loaded: a checkpoint (StateFolder.h), or the file of
/// an earlier version.
class SavedState {
public:
  /// Opens the newest checkpoint in a folder, a checkpoint's own folder, or
  /// one with a file of an earlier version. Tensors of a checkpoint are checked
  /// when they are read.
  [[nodiscard]] bool open(const std::string &folder, std::string &error);
  const RunState &state() const { return run; }
  /// Where the state was found.
  const std::string &path() const { return found; }
  /// The checkpoint, if it is one whose files are in memory; or null.
  const StateReader *copy() const {
    return isCopyFolder(found) ? std::get_if<StateReader>(&source) : nullptr;
  }
  /// Whether it is a checkpoint among those of a folder.
  bool isIn(const std::string &folder) const {
    return std::holds_alternative<StateReader>(source) &&
           isSameFile(parentFolder(found), folder);
  }
  /// Sets all tensors that this rank has. Fails on what is damaged, and on the
  /// state of another model.
  [[nodiscard]] bool restore(kerf_session *session,
                             const kerf_artifact *artifact, LoadTimes &times,
                             std::string &error) const;

private:
  bool openCheckpoint(const std::string &folder, std::string &error);
  /// Adds which state came before the one that is damaged, if any.
  void tellEarlier(std::string &error) const;

  std::variant<StateReader, StateFile> source;
  std::string found;
  RunState run;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_STATE_H
