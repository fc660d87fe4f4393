//===- Passes.h - the training step ---------------------------------------===//

#ifndef KERF_DIFFERENTIATE_PASSES_H
#define KERF_DIFFERENTIATE_PASSES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

/// Appends the backward pass and the updates to `model`; see the pass.
mlir::LogicalResult differentiate(ModelOp model, bool scaleLoss = false);

#define GEN_PASS_DECL
#include "kerf/Differentiate/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Differentiate/Passes.h.inc"

} // namespace kerf

#endif // KERF_DIFFERENTIATE_PASSES_H
