//===- WriteArtifact.h - compiled files and plans -------------------------===//

#ifndef KERF_PIPELINE_WRITEARTIFACT_H
#define KERF_PIPELINE_WRITEARTIFACT_H

#include "kerf/Pipeline/Stages.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace kerf {

/// Writes the compiled file of the programs of a module, with the bytes of a
/// sampler ("": none); returns what it is of: "tiny-gpt2 on 2 ranks (dp 2) of
/// cpu znver4". Fails with a message.
mlir::FailureOr<std::string> writeArtifact(mlir::ModuleOp module,
                                           const std::string &sampler,
                                           llvm::StringRef path);

/// Writes the completed plan of the one model as JSON. Fails with a message.
mlir::LogicalResult writePlan(mlir::ModuleOp module, llvm::StringRef path);

/// The compiled file of the sampler of a module's one model, for one rank on a
/// CPU, whatever the model is compiled for. Fails with a message.
mlir::FailureOr<std::string> compileSampler(mlir::ModuleOp module,
                                            const StageOptions &options);

/// Writes that sampler as a model. Fails with a message.
mlir::LogicalResult writeSampler(mlir::ModuleOp module, llvm::StringRef path);

} // namespace kerf

#endif // KERF_PIPELINE_WRITEARTIFACT_H
