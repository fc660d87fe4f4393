//===- Passes.h - machine code --------------------------------------------===//

#ifndef KERF_CODEGEN_PASSES_H
#define KERF_CODEGEN_PASSES_H

#include "kerf/Dialect/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Codegen/Passes.h.inc"

} // namespace kerf

#endif // KERF_CODEGEN_PASSES_H
