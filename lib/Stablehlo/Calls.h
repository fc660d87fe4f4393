//===- Calls.h - calls among the functions of a text ------------*- C++ -*-===//

#ifndef KERF_LIB_STABLEHLO_CALLS_H
#define KERF_LIB_STABLEHLO_CALLS_H

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// The public function of a lowered module; null after an error.
mlir::Operation *findMain(mlir::ModuleOp module);

/// Replaces all calls in `main` by what they call.
mlir::LogicalResult inlineCalls(mlir::ModuleOp module, mlir::Operation *main);

/// What a function says of an integer argument.
struct InputBound {
  /// Rows of the largest table that the argument indexes as it is, -1 for none;
  /// smaller ones are read with their rows clamped.
  int64_t rows = -1;
  /// The function compares it, or brings it into bounds of its own: it may have
  /// any number, and `rows` says nothing.
  bool isAsked = false;
};

/// Of each argument of `main`.
std::vector<InputBound> findBounds(mlir::Operation *main);

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_CALLS_H
