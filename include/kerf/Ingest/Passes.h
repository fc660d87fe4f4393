//===- Passes.h - reading and checking models -----------------------------===//

#ifndef KERF_INGEST_PASSES_H
#define KERF_INGEST_PASSES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Ingest/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Ingest/Passes.h.inc"

} // namespace kerf

#endif // KERF_INGEST_PASSES_H
