//===- Snapshot.h - a copy of the state beside a step ---------------------===//

#ifndef KERF_RUNTIME_CORE_SNAPSHOT_H
#define KERF_RUNTIME_CORE_SNAPSHOT_H

#include "Artifact.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace kerf::runtime {

/// In which order a training step of `view` comes to its commands for the first
/// time, by command; KERF_NONE: never.
std::vector<uint32_t> firstRuns(const artifact::View &view);

/// Memory that is copied in the order in which a step writes it first. On a
/// host several threads may take part, each a chunk at a time; a device copies
/// by itself.
class Snapshot {
public:
  struct Part {
    int64_t offset; ///< in the arena
    uint64_t bytes;
    char *to;
    uint32_t due = 0; ///< in `firstRuns`, of the command that writes it first
  };

  /// Puts parts in order. `first`: the firstRuns of the step.
  Snapshot(const artifact::View &view, const std::vector<uint32_t> &first,
           std::vector<Part> parts);

  /// All parts, those that are written first in front.
  const std::vector<Part> &all() const { return parts; }

  /// For the thread that runs the steps: must something be there before the
  /// command with this number of `firstRuns` runs?
  bool isDue(uint32_t number) const {
    return number != KERF_NONE && number >= dueNext;
  }
  /// What was due up to `number` is there.
  void passed(uint32_t number);
  void passedAll() { dueNext = KERF_NONE; }
  /// Is anything due in the next step?
  bool isPending() const { return dueNext != KERF_NONE; }

  /// On a host: returns when all parts that are due up to `number` are copied,
  /// by this thread or others. False when it was dropped.
  bool copy(const char *arena, uint32_t number);
  /// Copies nothing more.
  void drop() { isDropped = true; }

  bool isOnDevice = false; ///< a device copies
  double waitedSec = 0;    ///< by steps, for parts that were due

private:
  struct Chunk {
    int64_t offset;
    uint64_t bytes;
    char *to;
    uint32_t due;
  };
  size_t dueChunks(uint32_t number) const;

  std::vector<Part> parts;
  std::vector<Chunk> chunks;
  std::unique_ptr<std::atomic<bool>[]> isCopied; ///< by chunk
  std::atomic<size_t> next{0};
  std::atomic<bool> isDropped{false};
  uint32_t dueNext = KERF_NONE;
};

} // namespace kerf::runtime

#endif // KERF_RUNTIME_CORE_SNAPSHOT_H
