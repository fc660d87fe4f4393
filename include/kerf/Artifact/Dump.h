//===- Dump.h - compiled files as text for people -------------------------===//

#ifndef KERF_ARTIFACT_DUMP_H
#define KERF_ARTIFACT_DUMP_H

#include "kerf/Artifact/Artifact.h"

namespace kerf {

/// Calls of a step and of an evaluation, then each function's commands with
/// their operands as ranges of the arena: `r f32 [384, 416) + 64 i + 32 m` is
/// read, moves by 64 bytes per iteration and by 32 per micro-batch; of three
/// copies `+ 32 (m mod 3)`.
void dumpProgram(const ArtifactData &data, llvm::raw_ostream &os);

/// Size of the arena against its lower bound, bytes of each class, and all
/// buffers, the largest first.
void dumpMemory(const ArtifactData &data, llvm::raw_ostream &os);

/// Kernels with units, arguments and the number of commands that launch them.
void dumpKernels(const ArtifactData &data, llvm::raw_ostream &os);

/// The PTX text of all kernels; nothing for a CPU.
void dumpPtx(const ArtifactData &data, llvm::raw_ostream &os);

/// Parameters with shapes, axes, types, initial values and optimizer state.
void dumpParams(const ArtifactData &data, llvm::raw_ostream &os);

/// The plan as it was compiled from.
void dumpPlan(const ArtifactData &data, llvm::raw_ostream &os);

} // namespace kerf

#endif // KERF_ARTIFACT_DUMP_H
