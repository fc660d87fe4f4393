//===- Deferred.h - weight gradients that may run at another time ---------===//
//
// Zero-bubble schedules fill their bubbles with weight gradients. What is
// deferred keeps all that it reads until then. So only matmuls are worth it,
// and what reads nothing but their factors: a norm's weight gradient reads two
// tensors of its own to save hardly any time.
//
//   dw = einsum dy, x              deferred: dy and x are kept
//   db = reduce dy                 deferred, too: dy is there
//   dg = rms_norm_weight_gradient h, dn    stays
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_KERF_DEFERRED_H
#define KERF_DIALECT_KERF_DEFERRED_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/SetVector.h"

namespace kerf {

/// What of a reverse repeat may run in another one, later.
struct Deferred {
  llvm::SetVector<mlir::Operation *> ops; ///< of the body, the last one first
  /// Carried values, by number: those that serve other ops, and those that only
  /// deferred ops read (accumulators).
  llvm::SmallVector<unsigned> stayCarried, moveCarried;
};

/// The matmuls of weight gradients that no other op of the body waits for,
/// with what follows them, what reads nothing but their factors, and views that
/// they alone read. Results of the repeat apart, no op reads an op of these
/// that is none of these.
Deferred findDeferred(RepeatOp reverse);

/// The slice argument that a chain of views (reshape, slice, broadcast) shows;
/// null where there is no such chain. Such a view costs nothing where it is
/// recomputed.
mlir::Value shownSlice(RepeatOp repeat, mlir::Value value);

} // namespace kerf

#endif // KERF_DIALECT_KERF_DEFERRED_H
