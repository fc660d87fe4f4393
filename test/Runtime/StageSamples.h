//===- StageSamples.h - compiled files of pipelines, for tests ------------===//

#ifndef KERF_TEST_RUNTIME_STAGESAMPLES_H
#define KERF_TEST_RUNTIME_STAGESAMPLES_H

#include "Samples.h"

namespace kerf::test {

/// Two stages "first" and "second" along `pp`, each on `dataRanks` ranks along
/// `data`, two micro-batches, and the parameters below. Device "test".
///   train:    first sends 2 x[m] forward; second adds it up in `sum` and sends
///             the double back, which first adds up in `back`. Update: each
///             layer's master grows by its state m, in pieces, and all pieces
///             are gathered into the layer. Outputs, summed over all ranks:
///             `loss` = sum[0] of second, `back` = back[0] of first.
///   evaluate: first sends x of the next rank along `data`; `loss` is its first
///             element on both ends, without a sum.
///
/// Of `n` ranks along `data`:
///   tied     [256, 256] bf16 with f32 master and state m on second; on first
///   only
///            a copy of it
///   h.{i}.w  [3, 5] f32, 0 and 2 on first, 1 and 3 on second; masters and
///   state m
///            in n pieces (with padding, unless n divides 15)
///   z.{i}    [7, 3] bf16, 0 to 1 on second; in n pieces with f32 masters
///   b        [1] f32, as z: ranks but the first have padding only
///   qkv      [36, 2] f32, on first; its thirds are each cut in n
ArtifactData pipelineProgram(uint32_t dataRanks);

/// The same parameters in one piece on one rank, and no calls.
ArtifactData wholeProgram();

/// Elements of `x` of a rank and micro-batch.
constexpr int64_t kPart = 4;

} // namespace kerf::test

#endif // KERF_TEST_RUNTIME_STAGESAMPLES_H
