//===- Passes.h - from tensors to one arena -------------------------------===//

#ifndef KERF_MEMORY_PASSES_H
#define KERF_MEMORY_PASSES_H

#include "kerf/Dialect/Exec/Exec.h"
#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Memory/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Memory/Passes.h.inc"

} // namespace kerf

#endif // KERF_MEMORY_PASSES_H
