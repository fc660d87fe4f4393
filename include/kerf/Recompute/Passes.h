//===- Passes.h - what the backward pass computes again -------------------===//

#ifndef KERF_RECOMPUTE_PASSES_H
#define KERF_RECOMPUTE_PASSES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Recompute/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Recompute/Passes.h.inc"

} // namespace kerf

#endif // KERF_RECOMPUTE_PASSES_H
