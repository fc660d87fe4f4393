//===- Relief.h - what a way out of a misfit may cost -----------*- C++ -*-===//

#ifndef KERF_SEARCH_RELIEF_H
#define KERF_SEARCH_RELIEF_H

#include <cstdint>

namespace kerf {

/// Tables that one relief may solve, and nodes that it looks at where none
/// fits.
inline constexpr double kReliefTables = 60;
inline constexpr int64_t kReliefNodes = 5000;

} // namespace kerf

#endif // KERF_SEARCH_RELIEF_H
