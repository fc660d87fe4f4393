//===- Assemble.h - programs as files -------------------------------------===//

#ifndef KERF_ARTIFACT_ASSEMBLE_H
#define KERF_ARTIFACT_ASSEMBLE_H

#include "kerf/Artifact/Artifact.h"
#include "kerf/Dialect/Exec/Exec.h"

namespace kerf {

/// The file of a program whose kernels have code. Fails, with a diagnostic, at
/// what the format has no room for. `inputHash` identifies what was compiled.
mlir::FailureOr<ArtifactData> assembleArtifact(exec::ProgramOp program,
                                               uint64_t inputHash);

} // namespace kerf

#endif // KERF_ARTIFACT_ASSEMBLE_H
