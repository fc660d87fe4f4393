//===- Passes.h - from ops to kernels -------------------------------------===//

#ifndef KERF_FUSE_PASSES_H
#define KERF_FUSE_PASSES_H

#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Fuse/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Fuse/Passes.h.inc"

} // namespace kerf

#endif // KERF_FUSE_PASSES_H
