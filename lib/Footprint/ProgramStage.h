//===- ProgramStage.h - the functions of a stage on one time line ---------===//

#ifndef KERF_LIB_FOOTPRINT_PROGRAMSTAGE_H
#define KERF_LIB_FOOTPRINT_PROGRAMSTAGE_H

#include "ProgramSketch.h"

namespace kerf::program_sketch {

/// Equal layers that follow each other in a chunk: one loop.
struct Run {
  const SketchedLayer *layer = nullptr;
  int64_t count = 1;
  bool isLoop = true;
};

/// Layers of a chunk; embedding and head where it has them.
struct Chunk {
  const SketchedLayer *embedding = nullptr, *head = nullptr;
  std::vector<Run> runs;
  ByKept<int64_t> slots; ///< micro-batches that are held at most
};

/// What a stage's programs are made of.
struct StagePlan {
  const OuterChoice &outer;
  std::vector<Chunk> chunks;
  /// A micro-batch is before its backward pass when weight gradients of another
  /// are made.
  bool staysLong = false;
  /// Backward passes of chunks, not their last ones, come after the last one of
  /// the last chunk.
  bool isStaggered = false;
  /// Gradients are summed over ranks in the last backward pass (of ZeRO 0 and
  /// 1; of others they are in every one).
  bool sumsEarly = false;
};

/// Bytes of the arena of a stage's program, by class at the time at which most
/// lives.
StageMemory memoryOf(const StagePlan &stage);

} // namespace kerf::program_sketch

#endif // KERF_LIB_FOOTPRINT_PROGRAMSTAGE_H
