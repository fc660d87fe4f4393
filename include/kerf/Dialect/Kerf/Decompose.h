//===- Decompose.h - high-level ops into plain ones -----------------------===//

#ifndef KERF_DIALECT_KERF_DECOMPOSE_H
#define KERF_DIALECT_KERF_DECOMPOSE_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Replaces `op` by its decomposition and erases it. The new ops keep its
/// location and phase.
void decomposeOp(DecomposeOpInterface op);

/// Decomposes every op below `root` until only plain ops are left.
void decomposeAll(mlir::Operation *root);

} // namespace kerf

#endif // KERF_DIALECT_KERF_DECOMPOSE_H
