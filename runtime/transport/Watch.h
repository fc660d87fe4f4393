//===- Watch.h - noticing that a job stands still -------------------------===//
//
// Every rank notes what it does where the others may see it. Who waits looks
// around whether anything moves in the whole job. Nothing for a long time means
// that a rank hangs, and the notes tell which: the one that does not wait, or
// that waits and does not look around.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_WATCH_H
#define KERF_RUNTIME_TRANSPORT_WATCH_H

#include "Transport.h"

#include <atomic>

namespace kerf::runtime {

/// What a rank tells about itself. Zeros are a rank that has done nothing.
struct alignas(64) RankNote {
  std::atomic<uint64_t> moves;   ///< counts commands, and waits that ended
  std::atomic<uint32_t> looks;   ///< counts looks around while it waits
  std::atomic<uint32_t> command; ///< 1 + its index; 0: outside of a run
  std::atomic<uint32_t> isWaiting;
  std::atomic<uint32_t> process; ///< its number; 0: `host` is not there yet
  char host[40];                 ///< its machine's name, truncated, ends with 0
};
static_assert(sizeof(RankNote) == 64, "ranks send these whole");

class Watch {
public:
  explicit Watch(const Rendezvous &rendezvous);

  /// Where the note of a rank lies. A note that is never set cannot be seen.
  /// That of this rank gets its process and machine.
  void setNote(uint32_t of, RankNote *note);
  /// The ranks that this one is about to deal with.
  void setGroup(const std::vector<uint32_t> &ranks) { group = &ranks; }

  /// This rank begins a command; UINT32_MAX: it is outside of a run.
  void enter(uint32_t command);
  /// Something that this rank does went on.
  void move();
  void beginWait();
  void endWait();
  /// This rank leaves: nobody has anything to do outside of a run any more that
  /// is worth more patience than a command.
  void leave() { isLeaving = true; }

  /// While it waits, a few times per second: did nothing move for too long?
  /// Ten times that long where a rank cannot be seen or is busy outside of a
  /// run (it may write a large file). Time in which this rank itself did not
  /// run (a job that was suspended) does not count.
  bool isStalled();
  /// Whom this rank waits with, and who is late and where.
  std::string describe() const;

private:
  uint64_t totalMoves() const;
  double limit() const;
  void restart();
  bool isLate(uint32_t of) const;
  std::string place(uint32_t rank) const;

  uint32_t rank;
  double limitSec;
  std::function<std::string(uint32_t)> nameCommand;
  std::vector<RankNote *> notes; ///< by rank
  const std::vector<uint32_t> *group = nullptr;
  uint64_t lastTotal = 0;
  std::vector<uint32_t> lastLooks; ///< by rank, when the time began to run
  double since = 0, lastLook = 0;
  bool isLeaving = false;
};

/// Seconds of a clock that only goes forward.
double secondsNow();

/// "rank 3", "ranks 0-3, 7" of rising numbers.
std::string listRanks(const std::vector<uint32_t> &ranks);

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_WATCH_H
