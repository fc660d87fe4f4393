//===- Complexes.h - complex numbers as pairs -------------------*- C++ -*-===//

#ifndef KERF_LIB_STABLEHLO_COMPLEXES_H
#define KERF_LIB_STABLEHLO_COMPLEXES_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// Writes the complex numbers inside `main`, as rotary embeddings use them, as
/// two tensors each: their real and their imaginary parts. Calls are inlined
/// before. Fails with an error for ops of which the parts are not known.
mlir::LogicalResult splitComplexNumbers(mlir::Operation *main);

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_COMPLEXES_H
