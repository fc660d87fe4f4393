//===- Interleave.h - several sources in one order --------------*- C++ -*-===//
//
// Problem: sources have weights w_1 .. w_k, which add up to 1. Give each
// sequence of an endless run a source, so that after any number n of them
// source i has had w_i n, as nearly as whole numbers allow.
// Idea (Tijdeman 1980, "The chairman assignment problem"): with c_i sequences
// so far, source i may have the n-th when w_i n - c_i >= 1 / (2k - 2), and must
// have one before w_i n - c_i exceeds 1 - 1 / (2k - 2). Of those that may, take
// the one that must soonest. This always works out, so that no source is ever
// a whole sequence before or behind its share; no rule has a better bound.
// Weights are integers a_i with the sum P, so that sums are exact and the order
// repeats after P sequences; those that must at the same time come in an order
// that the seed chooses.
// Cost: k operations per sequence; 2 k P at most to begin anywhere.
// Example: weights 2, 1, 1 give one of A B A C, A B C A, A C A B and A C B A,
// again and again.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_INTERLEAVE_H
#define KERF_TRAIN_INTERLEAVE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerf::runtime {

/// Bounds within which nothing overflows.
inline constexpr size_t maxSources = 1000;
inline constexpr int64_t maxSourceWeight = 1'000'000'000'000;

/// Where a sequence comes from.
struct SourcePlace {
  size_t source = 0;
  /// Sequences that the source has had before.
  int64_t index = 0;
};

/// The order. What it says depends on weights, seed and number only; it
/// remembers where it was, so that to go on is cheap.
class Interleave {
public:
  /// One to maxSources weights, each from 1 to maxSourceWeight.
  Interleave(std::vector<int64_t> weights, int64_t seed);

  /// The place of sequence `number` >= 0.
  SourcePlace at(int64_t number);

private:
  void restart();
  size_t advance();

  std::vector<int64_t> weights;
  /// The sources as the seed orders them.
  std::vector<size_t> order;
  int64_t period = 0;
  int64_t next = 0; ///< within the period
  /// (w_i n - c_i) P, and c_i, after the first `next` sequences of the period.
  std::vector<int64_t> credits, counts;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_INTERLEAVE_H
