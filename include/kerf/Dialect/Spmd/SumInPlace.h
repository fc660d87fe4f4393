//===- SumInPlace.h - gradients that matmuls add up -----------------------===//
//
// Where sums over ranks begin in the last micro-batch
// (`kerf-bucket-gradients`), a layer's gradient is added to what the step has
// summed so far in the body of a repeat:
//
//     %all = spmd.read @gradient
//     kerf.repeat ... slices(%part = %all) {
//       %g = kerf.einsum ...
//       %sum = kerf.add %part, %g       // nothing else reads %part or %g
//       spmd.reduce_scatter %sum ...
//
// The matmul then adds to its place in the buffer, as it does in earlier
// micro-batches: no kernel, and no buffer for %g.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_SPMD_SUMINPLACE_H
#define KERF_DIALECT_SPMD_SUMINPLACE_H

#include "kerf/Dialect/Spmd/Spmd.h"

namespace kerf::spmd {

/// The stack that a repeat reads a value as a slice of, or null.
mlir::Value stackOf(mlir::Value value);

/// The matmul that makes nothing but this value, which it may add to what is
/// in its place; or null.
mlir::Operation *summingMatmul(mlir::Value value);

/// The matmul that makes `%g` of such a sum; null if the op is none. Padding
/// needs a copy of the sum, so one that is padded is left to a kernel.
mlir::Operation *matmulSummedInPlace(mlir::Operation *op);

} // namespace kerf::spmd

#endif // KERF_DIALECT_SPMD_SUMINPLACE_H
