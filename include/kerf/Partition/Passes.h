//===- Passes.h - from a planned step to programs ---------------------===//

#ifndef KERF_PARTITION_PASSES_H
#define KERF_PARTITION_PASSES_H

#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Partition/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Partition/Passes.h.inc"

} // namespace kerf

#endif // KERF_PARTITION_PASSES_H
