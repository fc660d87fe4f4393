//===- Passes.h - running models ------------------------------------------===//

#ifndef KERF_INTERPRETER_PASSES_H
#define KERF_INTERPRETER_PASSES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Interpreter/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Interpreter/Passes.h.inc"

} // namespace kerf

#endif // KERF_INTERPRETER_PASSES_H
