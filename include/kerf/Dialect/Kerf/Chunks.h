//===- Chunks.h - the parts of a model that stages of a pipeline run ------===//
//
// A pipeline of p stages with v chunks each passes a micro-batch through p * v
// chunks; chunk g is run by stage g mod p, as its chunk number g / p.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_KERF_CHUNKS_H
#define KERF_DIALECT_KERF_CHUNKS_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// On a repeat: the number of its chunk, in the order in which a micro-batch
/// passes them. Repeats have it once a plan with a pipeline has split them.
inline constexpr llvm::StringLiteral kChunkAttrName = "kerf.chunk";

/// On a forward repeat: the numbers of the forward ops that its reverse
/// computes again, where they are not those of the whole plan.
inline constexpr llvm::StringLiteral kRecomputeAttrName = "kerf.recompute";

/// The chunk of a repeat; 0 where it has none.
inline int64_t getChunk(RepeatOp repeat) {
  auto chunk = repeat->getAttrOfType<mlir::IntegerAttr>(kChunkAttrName);
  return chunk ? chunk.getInt() : 0;
}

/// The repeats of a model that are no reverse of another, in order.
inline llvm::SmallVector<RepeatOp> forwardRepeats(ModelOp model) {
  llvm::SmallVector<RepeatOp> repeats;
  for (RepeatOp repeat : model.getBody().getOps<RepeatOp>()) {
    PhaseAttr phase = getPhase(repeat);
    if (!phase || phase.getKind() == PhaseKind::Forward)
      repeats.push_back(repeat);
  }
  return repeats;
}

/// Chunks of all stages together.
inline int64_t getChunkCount(PlanAttr plan) {
  return plan.getStageCount() * plan.getChunks();
}

} // namespace kerf

#endif // KERF_DIALECT_KERF_CHUNKS_H
