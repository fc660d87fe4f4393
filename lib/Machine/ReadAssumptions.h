//===- ReadAssumptions.h - figures that nobody prints on a datasheet ------===//

#ifndef KERF_LIB_MACHINE_READASSUMPTIONS_H
#define KERF_LIB_MACHINE_READASSUMPTIONS_H

#include "MapReader.h"

namespace kerf::cluster {

/// Number types that a description may state figures of.
inline constexpr llvm::StringLiteral kTypes[] = {"bf16", "f16", "tf32",
                                                 "f32",  "fp8", "f64"};
/// Numbers of ranks whose figures a description may have, and rows of a curve.
inline constexpr size_t kMaxPoints = 64;

/// Each reads one field of `map`, if it is there. What is left out keeps the
/// value that it has. A figure is a number, or a map of its `value` and its
/// `source`.
void readEfficiency(MapReader &map, Efficiency &efficiency, Problems &problems);
void readHidden(MapReader &map, HiddenTraffic &hidden, Problems &problems);
void readHeadroom(MapReader &map, Device &device, Problems &problems);

} // namespace kerf::cluster

#endif // KERF_LIB_MACHINE_READASSUMPTIONS_H
