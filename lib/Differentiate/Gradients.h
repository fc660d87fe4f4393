//===- Gradients.h - gradients of parameters, and their updates -----------===//

#ifndef KERF_LIB_DIFFERENTIATE_GRADIENTS_H
#define KERF_LIB_DIFFERENTIATE_GRADIENTS_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Gradient of a parameter, or of the stack of a repeat's parameters.
struct ParamGradient {
  mlir::StringAttr name;
  std::optional<int64_t> start, end; ///< iterations, for a stack
  mlir::Value gradient;
};

/// Gradients by parameter, in the order they were found; several gradients of
/// one parameter are summed.
class ParamGradients {
public:
  /// Adds a gradient; sums are built with `builder`.
  void add(mlir::OpBuilder &builder, ParamGradient gradient);

  llvm::ArrayRef<ParamGradient> get() const { return gradients; }

private:
  llvm::SmallVector<ParamGradient> gradients;
};

/// Fails where two reads name one trainable parameter by different patterns or
/// in overlapping iterations that are not the same: their gradients would be
/// parts of its gradient, each with an update of its own.
mlir::LogicalResult checkNames(ModelOp model);

/// Appends clipping and one `kerf.update` per gradient, and the gradient's norm
/// to the returned values when the model clips. Fails for a trainable
/// parameter without gradient.
mlir::LogicalResult appendUpdates(ModelOp model, const ParamGradients &params,
                                  mlir::Value lossScale);

} // namespace kerf

#endif // KERF_LIB_DIFFERENTIATE_GRADIENTS_H
