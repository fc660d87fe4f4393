//===- Interfaces.h - what a stage may ask of an op -----------------------===//

#ifndef KERF_INTERFACES_INTERFACES_H
#define KERF_INTERFACES_INTERFACES_H

#include "kerf/Interfaces/Factors.h"
#include "kerf/Interfaces/HostTensor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace kerf {

/// One flop per result element, every operand read and result written once.
OpCost pointwiseCost(mlir::Operation *op);

/// `pointwiseCost` bytes with the given flops.
OpCost costWithFlops(mlir::Operation *op, double matmulFlops,
                     double vectorFlops);

/// How an op hands its gradient to differentiation. Implemented by
/// `lib/Differentiate`; ops see only this.
class GradientBuilder {
public:
  virtual ~GradientBuilder() = default;

  /// Builder at the place where gradient ops go.
  virtual mlir::OpBuilder &builder() = 0;

  /// Gradient of the loss with respect to `result`, of the result's type; zeros
  /// when the loss does not depend on it.
  virtual mlir::Value of(mlir::Value result) = 0;

  /// True when a gradient was handed over for `result`.
  virtual bool has(mlir::Value result) = 0;

  /// True when the loss depends on `operand` through a trainable parameter, so
  /// that `add` for it has an effect.
  virtual bool needs(mlir::Value operand) = 0;

  /// Adds `gradient` (shaped like `operand`) to the gradient of `operand`.
  virtual void add(mlir::Value operand, mlir::Value gradient) = 0;

  /// Replaces the forward op by one that returns more (values the gradient
  /// needs); the first results of `replacement` stand for those of `op`.
  virtual void replaceForward(mlir::Operation *op,
                              mlir::Operation *replacement) = 0;
};

} // namespace kerf

#include "kerf/Interfaces/KerfOpInterfaces.h.inc"

#include "kerf/Interfaces/KerfAttrInterfaces.h.inc"

#endif // KERF_INTERFACES_INTERFACES_H
