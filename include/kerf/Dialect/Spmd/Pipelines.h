//===- Pipelines.h - programs that belong together ------------------------===//

#ifndef KERF_DIALECT_SPMD_PIPELINES_H
#define KERF_DIALECT_SPMD_PIPELINES_H

#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// The programs of one model, by stage.
using StagePrograms = llvm::SmallVector<spmd::ProgramOp>;

/// The programs of a module by pipeline: each begins with a program of stage 0.
/// A program without an axis `pp` is a pipeline of one stage.
llvm::SmallVector<StagePrograms> getPipelines(mlir::ModuleOp module);

/// Messages that the channels of a pipeline keep before the sender waits:
/// integer attribute of its programs.
inline constexpr llvm::StringLiteral kCapacityAttrName = "channel_capacity";

} // namespace kerf

#endif // KERF_DIALECT_SPMD_PIPELINES_H
