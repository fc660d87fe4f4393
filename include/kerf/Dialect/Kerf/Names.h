//===- Names.h - names that can be printed --------------------------------===//

#ifndef KERF_DIALECT_KERF_NAMES_H
#define KERF_DIALECT_KERF_NAMES_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// Fails with a diagnostic at the first op in `root`, or at `root` itself, of
/// which a name or another string has control characters. The text of a plan
/// may have lines.
mlir::LogicalResult verifyNames(mlir::Operation *root);

} // namespace kerf

#endif // KERF_DIALECT_KERF_NAMES_H
