//===- Passes.h - order of calls --------------------------------------===//

#ifndef KERF_SCHEDULE_PASSES_H
#define KERF_SCHEDULE_PASSES_H

#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Schedule/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Schedule/Passes.h.inc"

} // namespace kerf

#endif // KERF_SCHEDULE_PASSES_H
