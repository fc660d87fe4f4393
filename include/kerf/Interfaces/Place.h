//===- Place.h - where an op stands in its source -------------------------===//

#ifndef KERF_INTERFACES_PLACE_H
#define KERF_INTERFACES_PLACE_H

#include "mlir/IR/Location.h"

#include <string>

namespace kerf {

/// "model.mlir:17"; "line 17" of a text without a name, "" of no text.
std::string placeOf(mlir::Location location);

} // namespace kerf

#endif // KERF_INTERFACES_PLACE_H
