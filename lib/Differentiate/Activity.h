//===- Activity.h - which values have a gradient --------------------------===//

#ifndef KERF_LIB_DIFFERENTIATE_ACTIVITY_H
#define KERF_LIB_DIFFERENTIATE_ACTIVITY_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/DenseSet.h"

namespace kerf {

/// Values of a model that depend on a trainable parameter through floats, and
/// those that depend on nothing else.
class Activity {
public:
  explicit Activity(ModelOp model);

  bool isActive(mlir::Value value) const { return active.contains(value); }

  /// True for a value made from parameters and constants alone: its gradient
  /// is a weight gradient.
  bool isWeight(mlir::Value value) const { return weights.contains(value); }

  /// Lets `to` be what `from` is (an op was replaced).
  void copy(mlir::Value from, mlir::Value to);

private:
  /// Marks what depends on active values; returns true when it marked any.
  bool propagate(mlir::Block &block);
  bool propagateRepeat(RepeatOp repeat);
  bool mark(mlir::Value value);
  void collectWeights(ModelOp model);

  llvm::DenseSet<mlir::Value> active, weights;
};

} // namespace kerf

#endif // KERF_LIB_DIFFERENTIATE_ACTIVITY_H
