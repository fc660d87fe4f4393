//===- Permutation.h - a shuffle that is a function -------------*- C++ -*-===//
//
// Problem: visit n samples in random order, so that the sample at any place is
// known without the places before it and without a table.
// Idea: a Feistel network is a bijection of 2k-bit numbers for any round
// function (Luby and Rackoff 1988). Take the smallest k with 2^(2k) >= n and
// walk the cycle until the value is below n (Black and Rogaway 2002): fewer
// than four evaluations are expected, as 2^(2k) < 4n.
// Cost: about 6 multiplications per round, 6 rounds.
// Example: n = 5 uses 4-bit numbers; at(i) for i = 0..4 are 0..4 in some order.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_PERMUTATION_H
#define KERF_TRAIN_PERMUTATION_H

#include <cstdint>

namespace kerf::runtime {

/// A permutation of [0, size), chosen by a key.
class Permutation {
public:
  /// `size` >= 1.
  Permutation(int64_t size, uint64_t key);

  /// Where `index` in [0, size) goes.
  int64_t at(int64_t index) const;

private:
  uint64_t encrypt(uint64_t value) const;

  int64_t size;
  uint64_t key;
  int halfBits = 0;
};

/// The sample that place `place` (>= 0) of an endless run shows: each epoch of
/// `samples` places is a permutation of its own, by (seed, epoch, source).
int64_t shuffledSample(int64_t samples, int64_t seed, int64_t place,
                       int64_t source = 0);

} // namespace kerf::runtime

#endif // KERF_TRAIN_PERMUTATION_H
