//===- StateFolder.h - checkpoints of a run in a folder ---------*- C++ -*-===//
//
// A folder has a checkpoint for each saved step, `step-12/`, with
//   rank-00000.safetensors ..  the pieces that each rank saved (Pieces.h), and
//                              a checksum of each tile of them;
//   index.json                 where each piece of each tensor lies;
//   manifest.json              step, place in the data, schedule, loss scale.
// It is written as `step-12.partial/`, the manifest last, and gets its name by
// one rename: what has no manifest is no checkpoint.
//
// `step-12.copy/` has manifest and index alone: the files are in the memory of
// the machines (job/PeerCopies.h).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_STATEFOLDER_H
#define KERF_TRAIN_STATEFOLDER_H

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

inline constexpr const char *manifestName = "manifest.json";
inline constexpr const char *indexName = "index.json";
/// Tensor of a rank's file with the checksums of its pieces' tiles.
inline constexpr const char *sumsName = "checksums";

/// "rank-00003.safetensors".
std::string rankFileName(uint32_t rank);
/// "FOLDER/step-12.partial".
std::string partialFolder(const std::string &folder, int64_t step);

/// Whether a file is one that a save writes, or began to.
bool isStateFile(const std::string &name);

struct SavedStep {
  int64_t step = 0;
  /// Saves are numbered: a folder may have states of a run that went further,
  /// and of one that began again. One whose manifest cannot be read is the
  /// newest unless a later one can, so that nobody goes on from an older one
  /// without a word.
  int64_t number = 0;
  bool isReadable() const { return number > 0 && number < INT64_MAX; }
  std::string path;
};
/// The checkpoints in a folder that have a manifest, the oldest save first.
std::vector<SavedStep> listSteps(const std::string &folder);
/// Those whose files are in memory, of which manifest and index can be read.
std::vector<SavedStep> listCopies(const std::string &folder);
bool isEarlier(const SavedStep &a, const SavedStep &b);
/// The newest of both, if there is any.
std::optional<SavedStep> newestState(const std::string &folder);
/// "FOLDER/step-12.copy".
std::string pathOfCopy(const std::string &folder, int64_t step);
/// Whether a state's folder is one of those in memory.
bool isCopyFolder(const std::string &path);
/// Makes a state known whose files are in memory.
[[nodiscard]] bool publishCopy(const std::string &folder, int64_t step,
                               const std::string &manifest,
                               const std::string &index, std::string &error);
/// Forgets the states in memory, but for the one at `kept`.
void forgetCopies(const std::string &folder, const std::string &kept = "");
/// Why a run that does not go on from the states in `folder` may not save
/// there; "" where there are none.
std::string refuseStates(const std::string &folder);
/// The number of the next save.
int64_t nextNumber(const std::string &folder);

/// Removes what saves that never ended left: unfinished checkpoints, those that
/// were being removed, and those that another one took the place of.
void tidyFolder(const std::string &folder);
/// Does so, and makes an empty partial folder.
[[nodiscard]] bool beginStep(const std::string &folder, int64_t step,
                             std::string &error);
/// Removes a partial checkpoint that will not be completed.
void abandonStep(const std::string &folder, int64_t step);
/// Gives a partial checkpoint its name; one of the same step that was there is
/// replaced at once. `path` is its folder then.
[[nodiscard]] bool publishStep(const std::string &folder, int64_t step,
                               std::string &path, std::string &error);
/// What a manifest has as a save's number.
inline constexpr const char *numberKey = "save";

/// Removes checkpoints but the `keep` newest and those of every `keepEvery`-th
/// step (0: none). Those that cannot be read stay and do not count. Other files
/// in their folders stay. Ends early, between two files, once `isStopped`: the
/// next save removes the rest.
void pruneSteps(const std::string &folder, int64_t keep, int64_t keepEvery,
                const std::atomic<bool> &isStopped);

/// Keeps other runs from saving to the same folder, as long as it lives.
class FolderLock {
public:
  FolderLock() = default;
  FolderLock(const FolderLock &) = delete;
  ~FolderLock();
  /// Makes the folder and locks it. Fails where another run has it.
  [[nodiscard]] bool take(const std::string &folder, std::string &error);

private:
  int descriptor = -1;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_STATEFOLDER_H
