//===- StateWriter.h - saves a state beside training ------------*- C++ -*-===//
//
// A save has three parts. Between two steps all ranks begin a copy of what they
// save (`begin`). A thread of each makes it, beside the next step as far as
// that allows, and writes it while training goes on. When all have, the ranks
// exchange their checksums, and the first one writes index and manifest and
// gives the checkpoint its name (`finish`): until then it does not exist, and
// what was saved before stays.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_STATEWRITER_H
#define KERF_TRAIN_STATEWRITER_H

#include "kerf/Train/Log.h"
#include "kerf/Train/Pieces.h"
#include "kerf/Train/RunState.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/StateIndex.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace kerf::runtime {

struct SaveOptions {
  std::string folder;
  int64_t keep = 2;      ///< newest checkpoints that stay
  int64_t keepEvery = 0; ///< those of every so many steps stay, too; 0: none
  double bytesPerSecond = 0; ///< most that a rank writes; 0: as fast as it can
  int64_t every = 0;         ///< steps between saves; 0: at the end alone
};

class StateWriter {
public:
  StateWriter(kerf_session *session, const kerf_artifact *artifact,
              SaveOptions options);
  /// Ends the writing; what is not whole does not stay.
  ~StateWriter();
  StateWriter(const StateWriter &) = delete;

  /// Makes the folder and tries it. Collective; the first rank locks it, others
  /// look whether they see it.
  [[nodiscard]] bool open(std::string &error);

  /// Starts to copy what this rank saves, as it is now, and to write it.
  /// Collective; no save may be under way. `place`, if not empty: the rank's
  /// file, on its machine alone; `every`: steps until the next one of these.
  [[nodiscard]] bool begin(const RunState &state, std::string &error,
                           const std::string &place = "", int64_t every = 0);
  /// Whether a save is under way: the same on all ranks.
  bool isBusy() const { return busy; }
  /// Collective, while one is under way: whether all ranks have written. False
  /// with an `error`, or with none where another rank tells it, when one could
  /// not.
  [[nodiscard]] bool poll(bool &isWritten, std::string &error);
  /// Collective: waits until all ranks have written, and completes the
  /// checkpoint, if its files are in the folder. `hasWaited`: training stands
  /// still for it.
  [[nodiscard]] bool finish(bool hasWaited, SaveRecord &record,
                            std::string &error);
  /// Bytes of each rank's file of the last save that was finished.
  const std::vector<uint64_t> &fileBytes() const { return bytesOfFiles; }
  /// Its index, and its manifest with some entries added; on the first rank.
  const std::string &index() const { return indexText; }
  std::string manifestWith(Metadata added) const;
  /// Bytes that this rank saves.
  uint64_t bytes() const { return copyBytes; }
  /// Waits until what was removed aside is gone.
  void settle();
  /// Why a call failed: KERF_OK where it could not write.
  kerf_status failed() const { return failure.status; }

private:
  struct Job;

  bool check(kerf_status code, std::string &error);
  bool reserve(std::string &error);
  static bool startThread(std::thread &made, std::function<void()> body,
                          std::string &error);
  double coresToTake() const;
  bool copy(const RunState &state, const std::string &place,
            std::string &error);
  bool publish(SaveRecord &record, std::string &error);
  StateIndex indexOf(const std::vector<double> &all, uint32_t width) const;

  kerf_session *session;
  kerf_error failure{};
  const kerf_artifact *artifact;
  SaveOptions options;
  uint32_t rank, ranks;
  std::vector<StateTensor> tensors;
  std::vector<Share> shares;
  FolderLock lock;
  void *memory = nullptr; ///< of the copy, the session's
  uint64_t copyBytes = 0;
  std::unique_ptr<Job> job;
  std::thread thread; ///< of the save that is under way
  std::thread aside;  ///< makes memory ready, removes old states
  std::atomic<bool> isEnding{false};
  std::vector<uint64_t> bytesOfFiles;
  std::string indexText;
  bool busy = false;
  bool isPartial = false; ///< a folder is there that has no name yet
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_STATEWRITER_H
