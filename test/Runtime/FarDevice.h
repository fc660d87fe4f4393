//===- FarDevice.h - what tests ask the far device ------------------------===//

#ifndef KERF_TEST_RUNTIME_FARDEVICE_H
#define KERF_TEST_RUNTIME_FARDEVICE_H

#include <cstdint>

/// What the device did since the process began.
struct FarCounts {
  uint64_t executed; ///< steps that were enqueued or recorded one by one
  uint64_t recorded; ///< graphs
  uint64_t launched; ///< graphs
  uint64_t waited;   ///< calls of `synchronize`
  uint64_t kept;     ///< graphs that are there now
};

/// The symbol `kerf_far_counts` of the device's library.
using FarCountsFn = const FarCounts *(*)();

#endif // KERF_TEST_RUNTIME_FARDEVICE_H
