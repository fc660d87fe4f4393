//===- Faults.h - what ranks tell their launcher ----------------*- C++ -*-===//
//
// Ranks write records of a fixed size to a pipe that the launcher opens; the
// environment names it. Without one nothing happens.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_FAULTS_H
#define KERF_TRAIN_FAULTS_H

#include <cstdint>
#include <string>

namespace kerf::runtime {

enum class FaultKind : int32_t {
  None,      ///< the rank is in this step
  Done,      ///< the rank has made this step
  NotFinite, ///< the loss is no number
  Failed,    ///< a device, a link or memory failed
  PeerLost,  ///< another rank left
  Refused,   ///< the same run would fail again
  Stalled,   ///< nothing moved
  Asked,     ///< a signal to the launcher ended the job
  Finished   ///< the rank has done all steps, and what comes after them
};

/// What a rank tells.
struct FaultRecord {
  FaultKind kind = FaultKind::None;
  int32_t rank = 0;
  int64_t step = 0;
  double at = 0;        ///< when, by `now()`
  double savingSec = 0; ///< since the last record: training waited for a save

  /// Else it tells how far a rank is.
  bool isFault() const {
    return kind != FaultKind::None && kind != FaultKind::Done &&
           kind != FaultKind::Finished;
  }
};

/// Sends a record; one that finds no room in time is dropped.
void tellLauncher(const FaultRecord &record);

/// The launcher's side.
class FaultPipe {
public:
  FaultPipe() = default;
  FaultPipe(const FaultPipe &) = delete;
  ~FaultPipe();
  /// Without a pipe nothing is told.
  void open();
  /// In a child, before it becomes a rank: names the pipe in the environment.
  void handOn() const;
  /// The next record; false if there is none now.
  bool take(FaultRecord &record);

private:
  int ends[2] = {-1, -1};
};

/// Why a job ended.
struct Fault {
  FaultKind kind = FaultKind::None;
  int64_t rank = -1;
  int signal = 0;         ///< that killed the rank or ended the job; 0: none
  int64_t step = -1;      ///< that the job was in; -1: before the first
  bool isBetween = false; ///< the step was made, and the next one not begun
  std::string lost = {};  ///< machines: "'a' does not answer"; "" where none is

  /// The same thing again. Of ranks that fail by themselves, as when nothing
  /// moves, any one may be the first to tell.
  bool operator==(const Fault &other) const {
    return kind == other.kind && signal == other.signal && step == other.step &&
           (signal == 0 || rank == other.rank);
  }
  /// "rank 1 was killed by signal 9 (Killed) in step 12".
  std::string words() const;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_FAULTS_H
