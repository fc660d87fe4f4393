//===- Permutation.cpp - a shuffle that is a function ---------------------===//

#include "kerf/Train/Permutation.h"

#include "kerf/Artifact/Format.h"

using namespace kerf::runtime;

Permutation::Permutation(int64_t size, uint64_t key) : size(size), key(key) {
  while (halfBits < 31 && (INT64_C(1) << 2 * halfBits) < size)
    ++halfBits;
}

uint64_t Permutation::encrypt(uint64_t value) const {
  uint64_t mask = (UINT64_C(1) << halfBits) - 1;
  uint64_t left = value >> halfBits, right = value & mask;
  for (uint64_t round = 0; round < 6; ++round) {
    uint64_t mixed =
        left ^ (kerf_mix(key ^ kerf_mix(round << 32 ^ right)) & mask);
    left = right;
    right = mixed;
  }
  return left << halfBits | right;
}

int64_t Permutation::at(int64_t index) const {
  uint64_t value = index;
  do
    value = encrypt(value);
  while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

int64_t kerf::runtime::shuffledSample(int64_t samples, int64_t seed,
                                      int64_t place, int64_t source) {
  uint64_t key = kerf_random_stream(seed, place / samples, -1 - source,
                                    kerf_hash_name("sample order"));
  return Permutation(samples, key).at(place % samples);
}
