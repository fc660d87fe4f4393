//===- ChunkSums.h - sums over many rows as sums of chunks ----------------===//

#ifndef KERF_CODEGEN_CHUNKSUMS_H
#define KERF_CODEGEN_CHUNKSUMS_H

#include "kerf/Dialect/Exec/Exec.h"

namespace kerf::codegen {

/// Replaces large sums over leading rows, or over all elements, by sums of
/// partial sums, one per chunk of rows. How they are split does not depend on
/// the processor's cores. True if anything was replaced.
bool chunkSums(exec::KernelOp kernel, bool forGpu);

} // namespace kerf::codegen

#endif // KERF_CODEGEN_CHUNKSUMS_H
