//===- Checksum.h - tells damaged bytes -------------------------*- C++ -*-===//

#ifndef KERF_TRAIN_CHECKSUM_H
#define KERF_TRAIN_CHECKSUM_H

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace kerf::runtime {

/// A checksum over 64-bit words that is fed piece by piece. Eight independent
/// lanes, as one chain of multiplications would be slower than the disk.
class Checksum {
public:
  /// Pieces have any size; each is padded with zeros to whole words.
  void add(const void *data, uint64_t bytes) {
    const char *p = static_cast<const char *>(data);
    uint64_t i = 0;
    for (; i + 64 <= bytes; i += 64)
      for (size_t lane = 0; lane < 8; ++lane)
        mix(lane, p + i + 8 * lane, 8);
    for (; i < bytes; i += 8)
      mix(i / 8 % 8, p + i, std::min<uint64_t>(8, bytes - i));
    total += bytes;
  }
  void add(std::string_view text) {
    uint64_t length = text.size();
    add(&length, sizeof length);
    add(text.data(), length);
  }
  uint64_t value() const {
    uint64_t sum = kerf_mix(total);
    for (uint64_t lane : lanes)
      sum = kerf_mix(sum ^ lane);
    return sum;
  }
  /// 16 hexadecimal digits.
  std::string text() const {
    return format("%016llx", static_cast<unsigned long long>(value()));
  }

private:
  void mix(size_t lane, const char *p, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, p, bytes);
    uint64_t x = (lanes[lane] ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    lanes[lane] = x ^ x >> 32;
  }

  uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint64_t total = 0;
};

/// The checksum of some bytes alone.
inline uint64_t checksumOf(const void *data, uint64_t bytes) {
  Checksum sum;
  sum.add(data, bytes);
  return sum.value();
}

} // namespace kerf::runtime

#endif // KERF_TRAIN_CHECKSUM_H
