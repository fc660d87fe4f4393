//===- Saves.h - the states that a run keeps --------------------*- C++ -*-===//
//
// On disk (StateWriter.h), and between two of these in the memory of other
// machines (PeerCopies.h). One at a time is under way.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_JOB_SAVES_H
#define KERF_TRAIN_JOB_SAVES_H

#include "kerf/Train/Log.h"
#include "kerf/Train/Options.h"
#include "kerf/Train/Setup.h"
#include "kerf/Train/StateWriter.h"
#include "kerf/Train/job/PeerCopies.h"

#include <optional>
#include <string>

namespace kerf::runtime {

/// All but `failed`, `settle` and `isBusy` are collective. They fail with an
/// error, or with none where another rank tells it.
class Saves {
public:
  Saves(const RunOptions &options, const RunSetup &setup, kerf_session *session,
        Log &log);

  /// Tries where states go.
  [[nodiscard]] bool open(std::string &error);
  /// Forgets copies of runs that this one does not go on from, and tries where
  /// those of this one go.
  [[nodiscard]] bool openCopies(std::string &error);
  /// Begins to save to disk; waits for what is under way.
  [[nodiscard]] bool save(const RunState &state, std::string &error);
  /// Begins a copy in memory where one is due and nothing is under way.
  [[nodiscard]] bool keep(const RunState &state, std::string &error);
  /// Moves on what is under way, and completes what all ranks have done.
  [[nodiscard]] bool poll(const RunState &state, std::string &error);
  /// Waits for what is under way.
  [[nodiscard]] bool complete(const RunState &state, std::string &error);
  /// The run ended well: its states are on disk.
  void end();

  bool isBusy() const {
    return writer.isBusy() || (copies && copies->isBusy());
  }
  int64_t savedStep() const { return lastSaved; }
  void settle() { writer.settle(); }
  /// Why a call failed: KERF_OK where it could not write.
  kerf_status failed() const;

private:
  bool finish(bool hasWaited, const RunState &state, std::string &error);
  bool send(bool all, const RunState &state, std::string &error);
  void tellCopy(const SaveRecord &record);

  const RunOptions &options;
  const RunSetup &setup;
  kerf_session *session;
  Log &log;
  StateWriter writer;
  std::optional<PeerCopies> copies; ///< that are kept or were gone on from
  int64_t lastSaved = -1;
  bool isCopy = false; ///< what is under way
  bool isCopyTold = false;
  SaveRecord sending; ///< the copy that is being sent
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_SAVES_H
