//===- FactorGraphRows.cpp - the innermost loop of elimination ------------===//
//
// The running minimum of a few entries stays in registers while the states are
// walked. The last vectors of a row overlap the ones before: an entry that is
// computed twice gets the same value twice.
//
//===----------------------------------------------------------------------===//

#include "FactorGraphMinimise.h"

#include "kerf/FactorGraph/FactorGraph.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace kerf;

// One function for each instruction set; the fastest that the machine has is
// chosen when the library is loaded.
#if defined(__x86_64__) && defined(__linux__) && defined(__clang__)
#define KERF_VECTOR_CLONES                                                     \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KERF_VECTOR_CLONES
#endif

namespace {
constexpr int kLanes = 8;
typedef int64_t Lanes __attribute__((vector_size(kLanes * sizeof(int64_t))));
} // namespace

/// `count` vectors of entries from `at`.
template <int kRows, int kVectors>
[[gnu::always_inline]] static inline void
minimiseVectors(const Row *rows, llvm::ArrayRef<StateCost> states, int64_t at,
                int64_t *best) {
  Lanes least[kVectors];
  for (Lanes &lanes : least)
    lanes = Lanes{} + kInfiniteCost;
  for (const StateCost &state : states)
    for (int v = 0; v < kVectors; ++v) {
      Lanes sum = Lanes{} + state.cost;
      for (int r = 0; r < kRows; ++r) {
        Lanes costs;
        std::memcpy(&costs,
                    rows[r].costs + state.state * rows[r].stride + at +
                        v * kLanes,
                    sizeof(costs));
        sum += costs;
      }
      least[v] = sum < least[v] ? sum : least[v];
    }
  std::memcpy(best + at, least, sizeof(least));
}

/// All entries, in steps of `kVectors` vectors; there are as many at least.
template <int kRows, int kVectors>
[[gnu::always_inline]] static inline void
minimiseAll(const Row *rows, llvm::ArrayRef<StateCost> states, int64_t entries,
            int64_t *best) {
  constexpr int64_t kStep = kVectors * kLanes;
  for (int64_t at = 0; at < entries; at += kStep)
    minimiseVectors<kRows, kVectors>(rows, states,
                                     std::min(at, entries - kStep), best);
}

template <int kRows>
[[gnu::always_inline]] static inline void
minimiseFew(const Row *rows, llvm::ArrayRef<StateCost> states, int64_t entries,
            int64_t *best) {
  if (entries >= 4 * kLanes)
    return minimiseAll<kRows, 4>(rows, states, entries, best);
  if (entries >= kLanes)
    return minimiseAll<kRows, 1>(rows, states, entries, best);
  for (int64_t i = 0; i < entries; ++i) {
    int64_t least = kInfiniteCost;
    for (const StateCost &state : states) {
      int64_t sum = state.cost;
      for (int r = 0; r < kRows; ++r)
        sum += rows[r].costs[state.state * rows[r].stride + i];
      least = std::min(least, sum);
    }
    best[i] = least;
  }
}

KERF_VECTOR_CLONES
static void minimiseOne(const Row *rows, llvm::ArrayRef<StateCost> states,
                        int64_t entries, int64_t *best) {
  minimiseFew<1>(rows, states, entries, best);
}

KERF_VECTOR_CLONES
static void minimiseTwo(const Row *rows, llvm::ArrayRef<StateCost> states,
                        int64_t entries, int64_t *best) {
  minimiseFew<2>(rows, states, entries, best);
}

KERF_VECTOR_CLONES
static void minimiseThree(const Row *rows, llvm::ArrayRef<StateCost> states,
                          int64_t entries, int64_t *best) {
  minimiseFew<3>(rows, states, entries, best);
}

KERF_VECTOR_CLONES
static void minimiseFour(const Row *rows, llvm::ArrayRef<StateCost> states,
                         int64_t entries, int64_t *best) {
  minimiseFew<4>(rows, states, entries, best);
}

KERF_VECTOR_CLONES
static void minimiseFive(const Row *rows, llvm::ArrayRef<StateCost> states,
                         int64_t entries, int64_t *best) {
  minimiseFew<5>(rows, states, entries, best);
}

KERF_VECTOR_CLONES
static void minimiseSix(const Row *rows, llvm::ArrayRef<StateCost> states,
                        int64_t entries, int64_t *best) {
  minimiseFew<6>(rows, states, entries, best);
}

void kerf::minimiseRows(llvm::ArrayRef<Row> rows,
                        llvm::ArrayRef<StateCost> states, int64_t entries,
                        int64_t *best) {
  assert(rows.size() <= kMostRows && "more rows than one sum takes");
  switch (rows.size()) {
  case 0:
    return minimiseFew<0>(rows.data(), states, entries, best);
  case 1:
    return minimiseOne(rows.data(), states, entries, best);
  case 2:
    return minimiseTwo(rows.data(), states, entries, best);
  case 3:
    return minimiseThree(rows.data(), states, entries, best);
  case 4:
    return minimiseFour(rows.data(), states, entries, best);
  case 5:
    return minimiseFive(rows.data(), states, entries, best);
  default:
    return minimiseSix(rows.data(), states, entries, best);
  }
}
