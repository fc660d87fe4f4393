//===- Passes.h - number types --------------------------------------------===//

#ifndef KERF_PRECISION_PASSES_H
#define KERF_PRECISION_PASSES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Precision/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Precision/Passes.h.inc"

} // namespace kerf

#endif // KERF_PRECISION_PASSES_H
