//===- Assemble.h - programs as files -------------------------------------===//

#ifndef KERF_ARTIFACT_ASSEMBLE_H
#define KERF_ARTIFACT_ASSEMBLE_H

#include "kerf/Artifact/Artifact.h"
#include "kerf/Dialect/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// The file of the programs of a module, whose kernels have code: one, or one
/// per stage of a pipeline in order. Fails, with a diagnostic, at what the
/// format has no room for. `inputHash` identifies what was compiled.
///
/// Facts of the whole step are attributes of the first program: `mesh`,
/// `micro_batches`, `workers`, `cpu`, `features`, `tokens`, `sequence`,
/// `vocabulary`, `plan_json`. Each has its own `slots`, `matmul_flops` and
/// `model_flops`, which are summed up, and `stage`, if it is not its place.
mlir::FailureOr<ArtifactData> assembleArtifact(mlir::ModuleOp module,
                                               uint64_t inputHash);

} // namespace kerf

#endif // KERF_ARTIFACT_ASSEMBLE_H
