//===- Random.h - random numbers by counter -------------------------------===//
//
// A number is a function of (seed, step, layer, name, global index) alone, so
// that every layout, run and backend draws the same. The mixing function is
// SplitMix64's finalizer (Steele, Lea and Flood 2014), applied to the stream
// and to the index; 24 bits make a number in [0, 1).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_KERF_RANDOM_H
#define KERF_DIALECT_KERF_RANDOM_H

#include "llvm/ADT/StringRef.h"

#include <cmath>
#include <cstdint>

namespace kerf {

/// A bijection of 64 bits that spreads every input bit over the output.
inline uint64_t mixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// FNV-1a hash of a name: fixed by definition, unlike a library's.
inline uint64_t hashName(llvm::StringRef name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

/// Key of a sequence of numbers. `layer` is -1 outside repeats.
inline uint64_t randomStream(int64_t seed, int64_t step, int64_t layer,
                             llvm::StringRef name) {
  uint64_t key = mixBits(static_cast<uint64_t>(seed));
  key = mixBits(key ^ static_cast<uint64_t>(step));
  key = mixBits(key ^ static_cast<uint64_t>(layer));
  return mixBits(key ^ hashName(name));
}

/// Number `index` of a stream, uniform in [0, 1) with 24 bits: exact in f32,
/// so that comparisons with a rate are the same in every precision.
inline double uniformAt(uint64_t stream, uint64_t index) {
  return static_cast<double>(mixBits(stream ^ mixBits(index)) >> 40) *
         0x1.0p-24;
}

/// Number `index` of a stream, standard normal (Box and Muller 1958).
inline double normalAt(uint64_t stream, uint64_t index) {
  constexpr double twoPi = 6.283185307179586;
  // In (0, 1]: the logarithm is finite.
  double u = 1.0 - uniformAt(stream, 2 * index);
  double v = uniformAt(stream, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(twoPi * v);
}

} // namespace kerf

#endif // KERF_DIALECT_KERF_RANDOM_H
