//===- Snapshot.h - a copy of the state beside a step ---------------------===//

#ifndef KERF_RUNTIME_CORE_SNAPSHOT_H
#define KERF_RUNTIME_CORE_SNAPSHOT_H

#include "Artifact.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace kerf::runtime {

/// When a training step writes what.
class WriteOrder {
public:
  explicit WriteOrder(const artifact::View &view);

  /// The place of a command in the order in which a step comes to its commands
  /// for the first time; KERF_NONE: it does not.
  uint32_t placeOf(uint32_t command) const { return first[command]; }
  /// The place of the command that first writes any of these bytes of the
  /// arena; KERF_NONE: none does.
  uint32_t firstWrite(int64_t offset, uint64_t bytes) const;

private:
  /// Bytes [begin, end) of the arena that the command at `place` may write.
  struct Written {
    int64_t begin, end;
    uint32_t place;
  };
  struct Iterations;
  void add(const artifact::View &view, const kerf_command &command,
           const Iterations &iterations, uint32_t place);

  std::vector<uint32_t> first; ///< by command
  std::vector<Written> written;
};

/// Memory that is copied in the order in which a step writes it first. On a
/// host several threads may take part, each a chunk at a time; a device copies
/// by itself.
class Snapshot {
public:
  struct Part {
    int64_t offset; ///< in the arena
    uint64_t bytes;
    char *to;
    uint32_t due = 0; ///< its `firstWrite`
  };

  /// Puts parts in order.
  Snapshot(const WriteOrder &order, std::vector<Part> parts);

  /// All parts, those that are written first in front.
  const std::vector<Part> &all() const { return parts; }

  /// For the thread that runs the steps: must something be there before the
  /// command at this place runs?
  bool isDue(uint32_t place) const {
    return place != KERF_NONE && place >= dueNext;
  }
  /// What was due up to `place` is there.
  void passed(uint32_t place);
  void passedAll() { dueNext = KERF_NONE; }

  /// On a host: returns when all parts that are due up to `place` are copied,
  /// by this thread or others. False when it was dropped.
  bool copy(const char *arena, uint32_t place);
  /// Copies nothing more.
  void drop() { isDropped = true; }

  bool isOnDevice = false; ///< a device copies
  double waitedSec = 0;    ///< by steps, for parts that were due

private:
  size_t dueChunks(uint32_t place) const;

  std::vector<Part> parts;
  std::vector<Part> chunks;                      ///< of them, small ones
  std::unique_ptr<std::atomic<bool>[]> isCopied; ///< by chunk
  std::atomic<size_t> next{0};
  std::atomic<bool> isDropped{false};
  uint32_t dueNext = KERF_NONE;
};

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_SNAPSHOT_H
