//===- PutOff.h - weight gradients that may run at another time -----------===//
//
// Zero-bubble schedules fill their bubbles with weight gradients. What is put
// off keeps all that it reads until then, so only products are worth it, and
// what reads nothing but their factors: a norm's weight gradient reads two
// tensors of its own to save hardly any time.
//
//   dw = einsum dy, x              put off: dy and x are kept
//   db = reduce dy                 put off, too: dy is there
//   dg = rms_norm_weight_gradient h, dn    stays
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_KERF_PUTOFF_H
#define KERF_DIALECT_KERF_PUTOFF_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/SetVector.h"

namespace kerf {

/// What of a reverse repeat may run in another one, later.
struct PutOff {
  llvm::SetVector<mlir::Operation *> ops; ///< of the body, the last one first
  /// Carried values, by number: those that serve other ops, and those that only
  /// put-off ops read (accumulators).
  llvm::SmallVector<unsigned> stayCarried, moveCarried;
};

/// The products of weight gradients that no other op of the body waits for,
/// with what follows them, what reads nothing but their factors, and views that
/// they alone read. Results of the repeat apart, no op reads an op of these
/// that is none of these.
PutOff findPutOff(RepeatOp reverse);

/// The slice argument that a chain of views (reshape, slice, broadcast) shows;
/// null where there is no such chain. Such a view costs nothing where it is
/// recomputed.
mlir::Value shownSlice(RepeatOp repeat, mlir::Value value);

} // namespace kerf

#endif // KERF_DIALECT_KERF_PUTOFF_H
