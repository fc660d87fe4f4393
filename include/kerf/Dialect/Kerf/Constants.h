//===- Constants.h - values that are the same in every step ---------------===//

#ifndef KERF_DIALECT_KERF_CONSTANTS_H
#define KERF_DIALECT_KERF_CONSTANTS_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// True for a value that pure ops make of constants and indices alone, and for
/// these: whoever reads it can make it.
bool isMadeOfConstants(mlir::Value value);

/// What `kerf.compare` of this kind says of two known numbers.
bool holds(CompareKind kind, double a, double b);

} // namespace kerf

#endif // KERF_DIALECT_KERF_CONSTANTS_H
