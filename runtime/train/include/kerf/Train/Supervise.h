//===- Supervise.h - starts a job again after a fault -----------*- C++ -*-===//

#ifndef KERF_TRAIN_SUPERVISE_H
#define KERF_TRAIN_SUPERVISE_H

#include "kerf/Train/Launcher.h"
#include "kerf/Train/Options.h"
#include "kerf/Train/StateFolder.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// The command that goes on from a state: the one that was typed, but for what
/// gave the run its weights.
std::string resumeCommand(const std::vector<std::string> &arguments,
                          const std::string &state);

/// The newest checkpoint of a folder of those from number `first` on: what was
/// there before the job is another run's.
std::optional<SavedStep> newestSince(const std::string &folder, int64_t first);

/// Runs a job and starts it again after faults, from the newest checkpoint of
/// `--save-state`, with pauses of 1 to 60 s that grow until a later one is
/// there. Gives up at `--max-restarts` of them within an hour, at the same
/// fault in the same step a second time in a row (SIGKILL: a third time), and
/// where the same run would fail again. Writes `run.json` to the folder of
/// states: each attempt with its steps, seconds, status and fault, and, every
/// minute, what the time of the job went into. Returns the exit status of the
/// last one.
int supervise(const RunOptions &options,
              const std::vector<std::string> &arguments,
              const std::function<JobEnd(const std::vector<std::string> &,
                                         const JobProgress &)> &launch);

} // namespace kerf::runtime

#endif // KERF_TRAIN_SUPERVISE_H
