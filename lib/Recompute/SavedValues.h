//===- SavedValues.h - where reverse bodies take forward values from ------===//

#ifndef KERF_LIB_RECOMPUTE_SAVEDVALUES_H
#define KERF_LIB_RECOMPUTE_SAVEDVALUES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace kerf::recompute {

/// A forward repeat and the reverse repeats made for it (two after
/// `kerf-split-weight-gradient`).
struct RepeatPair {
  RepeatOp forward;
  llvm::SmallVector<RepeatOp, 2> reverses;
};

/// The pairs of a training step, in order of the text.
llvm::SmallVector<RepeatPair> collectPairs(ModelOp model);

/// A pair that is opened: its reverse bodies read the forward body's values
/// directly, which is no valid IR, until `close` says where they come from.
class SavedValues {
public:
  /// Opens the pair: takes slices of the forward repeat's stacks, and copies of
  /// forward ops that were made before, out of the reverse bodies.
  explicit SavedValues(RepeatPair pair);

  RepeatOp forward() { return pair.forward; }

  /// Values of the forward body that the reverse bodies read.
  const llvm::SetVector<mlir::Value> &needed() const { return read; }
  /// True when others read the value's stack: saving it costs nothing.
  bool isKept(mlir::Value value) const { return kept.contains(value); }

  /// True when a copy of this forward op was taken out of a reverse body.
  bool wasCopied(mlir::Operation *op) const { return copied.contains(op); }

  /// True for values that the reverse body has without a stack: the iteration
  /// number, values from outside, slices that the forward body reads, and
  /// results of ops without operands.
  bool isFree(mlir::Value value);

  /// Closes the pair: `saved` values come from stacks, as do carried values and
  /// results of ops that cannot be copied; all others are computed again from
  /// these.
  void close(const llvm::DenseSet<mlir::Value> &saved);

private:
  void open(RepeatOp reverse);
  void takeSlices(RepeatOp reverse);
  void takeCopies(RepeatOp reverse);

  RepeatPair pair;
  llvm::SetVector<mlir::Value> read;
  llvm::DenseSet<mlir::Value> kept;
  llvm::DenseSet<mlir::Operation *> copied;
};

/// True when a copy of the op computes the same: it has no effect and no body.
bool canCopy(mlir::Operation *op);

/// Drops stacks and slices of repeats that nobody reads, merges stacks of one
/// value, and erases ops in repeats that nobody reads then.
void dropUnread(ModelOp model);

} // namespace kerf::recompute

#endif // KERF_LIB_RECOMPUTE_SAVEDVALUES_H
