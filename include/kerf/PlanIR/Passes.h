//===- Passes.h - a plan in IR and in a file ------------------------===//

#ifndef KERF_PLANIR_PASSES_H
#define KERF_PLANIR_PASSES_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/PlanIR/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/PlanIR/Passes.h.inc"

/// What `kerf-propagate-plan` does to a model: gives every op of a step that
/// has no assignment one. Fails with a diagnostic when an op cannot follow.
mlir::LogicalResult propagatePlan(ModelOp model);

} // namespace kerf

#endif // KERF_PLANIR_PASSES_H
