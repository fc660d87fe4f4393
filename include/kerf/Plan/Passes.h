//===- Passes.h - how a step is distributed ---------------------------===//

#ifndef KERF_PLAN_PASSES_H
#define KERF_PLAN_PASSES_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Plan/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Plan/Passes.h.inc"

} // namespace kerf

#endif // KERF_PLAN_PASSES_H
