//===- Place.h - offsets of buffers in one arena ----------------*- C++ -*-===//
//
// Given buffers with sizes and the times at which they are alive, finds an
// offset for each, such that buffers alive at one time do not overlap and the
// arena is small (dynamic storage allocation; strongly NP-hard).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_MEMORY_PLACE_H
#define KERF_MEMORY_PLACE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kerf {

/// Closed interval of time, in any unit (numbers of commands): `first` and
/// `second` are both alive.
using LifeInterval = std::pair<int64_t, int64_t>;

/// What has to be placed in one arena.
struct PlaceProblem {
  struct Buffer {
    std::string name; ///< for people; need not be unique
    int64_t sizeBytes = 0;
    /// When the contents matter, ascending and disjoint; at least one.
    llvm::SmallVector<LifeInterval> lives;
    /// The offset that the buffer must get, or -1 for any.
    int64_t fixedOffset = -1;

    bool operator==(const Buffer &other) const = default;
  };

  std::vector<Buffer> buffers;
  /// Every offset is a multiple of it, and every buffer takes up a multiple of
  /// it; a power of two.
  int64_t alignment = 64;

  bool operator==(const PlaceProblem &other) const = default;

  /// Fails, with a message in `error`, on what no placement can satisfy: sizes
  /// or times below zero, lives that are missing or not in order, fixed offsets
  /// that are unaligned or overlap, sizes that sum up beyond 2^60 bytes.
  llvm::LogicalResult check(std::string &error) const;
};

/// Where the buffers are: `offsets[i]` is that of `problem.buffers[i]`.
struct Placement {
  std::vector<int64_t> offsets;
  /// Of the arena, a multiple of the alignment.
  int64_t sizeBytes = 0;

  bool operator==(const Placement &other) const = default;

  /// Fails, with a message in `error`, where an offset is missing, unaligned,
  /// outside of the arena or not the fixed one, or where two buffers overlap
  /// while both are alive. Looks at all pairs, not at how `place` works.
  llvm::LogicalResult verify(const PlaceProblem &problem,
                             std::string &error) const;
};

/// `sizeBytes` rounded up to the alignment.
int64_t placedBytes(const PlaceProblem &problem, int64_t sizeBytes);

/// Whether some time belongs to a life of both.
bool aliveTogether(const PlaceProblem::Buffer &a,
                   const PlaceProblem::Buffer &b);

/// A size that no placement is below: the largest sum of sizes, rounded up to
/// the alignment, of buffers alive at one time; or the end of a fixed buffer.
int64_t lowerBound(const PlaceProblem &problem);

/// A good placement; the same problem always gets the same one. The problem
/// must pass `check`. Unless some buffer is fixed, those that live at every
/// time get the lowest offsets, in the order of the problem. Needs n^2 / 8
/// bytes of memory for n buffers, and about n^2 steps.
Placement place(const PlaceProblem &problem);

/// Text form, one line per buffer, `#` starts a comment:
///
///     align 64
///     "h.{i}.attn.q" 4096 3-5 9-12
///     "tokens" 512 0-20 at 0
void print(llvm::raw_ostream &os, const PlaceProblem &problem);

/// Reads what `print` writes, and checks it; nothing, with "line N: ..." in
/// `error`, when it is wrong.
llvm::FailureOr<PlaceProblem> parsePlaceProblem(llvm::StringRef text,
                                                std::string &error);

} // namespace kerf

#endif // KERF_MEMORY_PLACE_H
