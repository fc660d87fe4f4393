//===- Evaluation.h - the model without training --------------------------===//

#ifndef KERF_DIALECT_KERF_EVALUATION_H
#define KERF_DIALECT_KERF_EVALUATION_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"

namespace kerf {

/// A detached copy of a model or training step that returns its loss alone:
/// without gradients and updates, without dropout, and without values that were
/// kept for the backward pass. `mapping` leads from values of `model` to those
/// of the copy that are still there (inputs, and ops that were not rewritten).
mlir::OwningOpRef<ModelOp> makeEvaluation(ModelOp model,
                                          mlir::IRMapping &mapping);

} // namespace kerf

#endif // KERF_DIALECT_KERF_EVALUATION_H
