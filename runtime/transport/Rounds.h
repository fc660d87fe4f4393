//===- Rounds.h - exchanges in rounds -------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_ROUNDS_H
#define KERF_RUNTIME_TRANSPORT_ROUNDS_H

#include "Transport.h"

namespace kerf::runtime {

/// Both ends of an exchange as bytes.
inline const char *sourceOf(const Exchange &exchange) {
  return static_cast<const char *>(exchange.source);
}

inline char *destinationOf(const Exchange &exchange) {
  return static_cast<char *>(exchange.destination);
}

/// An exchange of much data is made of rounds, which bounds the memory: in each
/// a member gives a piece to the others and takes theirs.
struct Rounds {
  uint64_t count = 0;
  /// Gives the piece of a round; does not need the others' pieces of this
  /// round.
  std::function<Status(uint64_t)> give = {};
  /// Waits for the others' pieces.
  std::function<Status(uint64_t)> take = {};
  /// True when a piece may be given before those of the round before are taken.
  bool isAhead = false;

  /// The first half of an exchange.
  Status start() const { return count == 0 ? Status() : give(0); }
  /// The second half.
  Status finish() const {
    for (uint64_t n = 0; n < count; ++n) {
      bool hasNext = n + 1 < count;
      Status status;
      if (hasNext && isAhead)
        status = give(n + 1);
      if (!status.failed())
        status = take(n);
      if (!status.failed() && hasNext && !isAhead)
        status = give(n + 1);
      if (status.failed())
        return status;
    }
    return {};
  }
};

/// Rounds for `total` bytes, of at most `most` each. `give` and `take` are
/// called with the first byte of a piece and its bytes.
template <typename Give, typename Take>
Rounds roundsOfPieces(uint64_t total, uint64_t most, Give give, Take take) {
  auto sized = [total, most](auto body) {
    return [=](uint64_t round) {
      uint64_t at = round * most;
      return body(at, total - at < most ? total - at : most);
    };
  };
  return {(total + most - 1) / most, sized(give), sized(take)};
}

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_ROUNDS_H
