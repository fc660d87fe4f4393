//===- Passes.h - graphs of plain ops to layers in loops --------*- C++ -*-===//

#ifndef KERF_RAISE_PASSES_H
#define KERF_RAISE_PASSES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Raise/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Raise/Passes.h.inc"

} // namespace kerf

#endif // KERF_RAISE_PASSES_H
