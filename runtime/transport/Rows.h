//===- Rows.h - parts of rows as one line ---------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_ROWS_H
#define KERF_RUNTIME_TRANSPORT_ROWS_H

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace kerf::runtime {

/// Rows of `rowBytes`, each `pitchBytes` behind the one before, as one line of
/// bytes.
template <typename Byte> struct Rows {
  Byte *first;
  uint64_t rowBytes, pitchBytes;

  /// Calls `body` with the pieces that make up bytes [begin, begin + count).
  template <typename Body>
  void pieces(uint64_t begin, uint64_t count, Body body) const {
    while (count != 0) {
      uint64_t row = begin / rowBytes, at = begin % rowBytes;
      uint64_t here = std::min(count, rowBytes - at);
      body(first + row * pitchBytes + at, here);
      begin += here;
      count -= here;
    }
  }

  /// Copies bytes [begin, begin + count) of the line out.
  void gather(uint64_t begin, uint64_t count, char *to) const {
    pieces(begin, count, [&](Byte *piece, uint64_t bytes) {
      std::memcpy(to, piece, bytes);
      to += bytes;
    });
  }
  /// Copies them in.
  void scatter(uint64_t begin, uint64_t count, const char *from) const {
    pieces(begin, count, [&](Byte *piece, uint64_t bytes) {
      std::memmove(piece, from, bytes); // a file may let them overlap
      from += bytes;
    });
  }
};

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_ROWS_H
