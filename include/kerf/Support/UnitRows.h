//===- UnitRows.h - rows whose largest elements make a unit ---------------===//

#ifndef KERF_SUPPORT_UNITROWS_H
#define KERF_SUPPORT_UNITROWS_H

#include <cstdint>

namespace kerf {

/// The largest element of a tensor is that of its rows' largest ones. From so
/// many elements on a row is the last dimension, so that the kernel that makes
/// the rows finds it, too. Shorter ones are taken together, up to
/// `kMostUnitRow` elements; where that makes fewer than `kShortUnitRow` the
/// tensor is one row.
constexpr int64_t kLeastUnitRow = 512;
constexpr int64_t kMostUnitRow = 32768;
constexpr int64_t kShortUnitRow = 128;

} // namespace kerf

#endif // KERF_SUPPORT_UNITROWS_H
