//===- SampleOrder.cpp - which sample comes when --------------------------===//

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Interleave.h"
#include "kerf/Train/Permutation.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Several sources in one order
//===----------------------------------------------------------------------===//

Interleave::Interleave(std::vector<int64_t> given, int64_t seed)
    : weights(std::move(given)), order(weights.size()) {
  int64_t divisor = 0;
  for (int64_t weight : weights)
    divisor = std::gcd(divisor, weight);
  for (int64_t &weight : weights)
    period += weight /= divisor;
  auto key = [seed](size_t source) {
    return kerf_random_stream(seed, static_cast<int64_t>(source), -1,
                              kerf_hash_name("source order"));
  };
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(key(a), a) < std::pair(key(b), b);
  });
  restart();
}

void Interleave::restart() {
  next = 0;
  credits.assign(weights.size(), 0);
  counts.assign(weights.size(), 0);
}

/// Chooses the source of sequence `next` of the period.
size_t Interleave::advance() {
  // In units of 1 / (P m): sources may above P and must before P (m - 1).
  int64_t m = 2 * static_cast<int64_t>(weights.size()) - 2;
  size_t chosen = 0;
  int64_t soonest = INT64_MAX;
  for (size_t source : order) {
    int64_t credit = (credits[source] += weights[source]) * m;
    if (credit < period)
      continue;
    // How often it may still be passed over.
    int64_t slack = period * (m - 1) - credit;
    int64_t passes = slack < 0 ? 0 : slack / (weights[source] * m) + 1;
    if (passes < soonest) {
      soonest = passes;
      chosen = source;
    }
  }
  credits[chosen] -= period;
  ++next;
  return chosen;
}

SourcePlace Interleave::at(int64_t number) {
  if (weights.size() == 1)
    return {0, number};
  int64_t round = number / period, place = number % period;
  if (place < next)
    restart();
  while (next < place)
    ++counts[advance()];
  size_t source = advance();
  return {source, round * weights[source] + counts[source]++};
}

//===----------------------------------------------------------------------===//
// A shuffle that is a function
//===----------------------------------------------------------------------===//

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
