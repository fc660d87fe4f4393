//===- Lives.h - when buffers hold something --------------------*- C++ -*-===//
//
// Given functions whose commands use buffers, and the order in which they are
// called, finds when each buffer is alive: the input of placement.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_MEMORY_LIVES_H
#define KERF_MEMORY_LIVES_H

#include "kerf/Memory/Place.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace kerf {

/// From where to where the contents of a buffer matter.
enum class LifeScope {
  Call,       ///< within each call of a function
  MicroBatch, ///< from the first to the last call of one micro-batch
  Step,       ///< from the first to the last call of a schedule
};

/// Who uses which buffer when. Micro-batches of different schedules have
/// nothing to do with each other.
struct LifeProblem {
  /// A function uses `buffer` in its commands [first, last].
  struct Use {
    unsigned buffer;
    int64_t first, last;
  };
  struct Func {
    int64_t commands = 0;
    std::vector<Use> uses; ///< each buffer at most once
  };
  struct Call {
    unsigned func;
    int64_t micro;
    unsigned schedule;
  };

  std::vector<LifeScope> buffers;
  std::vector<Func> funcs;
  std::vector<Call> calls; ///< in order
};

/// The lives of all buffers, each ascending and apart; none of a buffer that no
/// call uses. All copies of a buffer of a micro-batch count as one. Time counts
/// the commands of the calls; of calls of one function in which the same
/// buffers are alive at the same commands, only the first takes time. So which
/// buffers are alive together, and how many bytes, are those of the whole
/// schedule, while the number of intervals does not grow with the
/// micro-batches.
std::vector<llvm::SmallVector<LifeInterval>>
findLives(const LifeProblem &problem);

/// Two micro-batches that would share a copy of a buffer.
struct Crowd {
  unsigned buffer;
  int64_t first, second; ///< micro-batches
};

/// With `copies[b]` copies of buffer b of a micro-batch, where micro-batch m
/// has copy m mod `copies[b]`: a pair that is alive in one copy at one time, if
/// any.
std::optional<Crowd> findCrowd(const LifeProblem &problem,
                               llvm::ArrayRef<int64_t> copies);

} // namespace kerf

#endif // KERF_MEMORY_LIVES_H
