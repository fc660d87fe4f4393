//===- AttentionArguments.h - what kernels of attention are given ---------===//
//
// Shared by the host and the kernels; passed by value. Sizes and strides count
// elements. As KERF_OP_ATTENTION and KERF_OP_ATTENTION_BACKWARD (Format.h).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_ATTENTIONARGUMENTS_H
#define KERF_DEVICES_CUDA_KERNELS_ATTENTIONARGUMENTS_H

#include <stdint.h>

namespace kerf::cuda {

/// A tensor [B, positions, heads, channels] whose channels have stride 1.
struct HeadTensor {
  void *data;
  int64_t batch, position, head; ///< strides
};

struct AttentionArguments {
  HeadTensor q, k, v, y, dy, dq, dk, dv; ///< the last four of backward only
  float *lse;                            ///< [B,H,Sq]; may be null forward
  float *delta;                          ///< [B,H,Sq], backward: sum(dy y)
  /// Device memory; null: seed, step and offsets 0, layer -1.
  const int32_t *seed, *step, *layer, *offsetB, *offsetH, *offsetQ, *offsetK;
  const int32_t *segmentsQ, *segmentsK; ///< [B,Sq], [B,Sk]; null: none
  int32_t b, h, g, sq, sk, d, dvWidth;
  int32_t causal, window; ///< window 0: none
  int32_t wide;           ///< rows of y and dy lie in whole 16 bytes
  int32_t zigzag, chunk;  ///< ranks of kerf_zigzag or 0; rows of a chunk
  uint32_t threshold;     ///< of 2^24: random numbers below drop; 0: none
  float scale;
  /// Under a soft cap (0: none) scores are cap tanh(capScale q k), else q k;
  /// weights are 2^(unit score - ...).
  float cap, capScale, unit;
  float capInverse; ///< 1 / cap, or 0
  float keep;       ///< what is kept is multiplied by: 1 / (1 - rate)
  uint64_t nameHash;
  int64_t global[4]; ///< whole [B,H,Sq,Sk] that random indices count in
};

/// Of the plain kernels: edges of tiles, and channels of a block's results.
constexpr int plainTile = 64, plainChannels = 64, plainThreads = 256;
/// Rows of a block that computes delta.
constexpr int deltaRows = 32;

/// Of the kernels on tensor cores: threads, and queries of a block's tile in
/// the forward pass.
constexpr int mmaThreads = 128, mmaQueries = 128;

/// How kernels on tensor cores split heads of up to `depth` channels. Chosen so
/// that everything stays in registers, and two blocks share a processor.
struct MmaPlan {
  int depth, width; ///< channels in shared memory; of a block's results
  int keys;         ///< keys of a tile in the forward pass, two tiles at a time
  /// For dq: queries of a block's tile; keys of a tile, and tiles at a time.
  int dqQueries, dqKeys, dqBuffers;
  /// For dk and dv: keys of a block's tile; queries of a tile, and tiles.
  int dkvKeys, dkvQueries, dkvBuffers;

  /// Bytes of shared memory.
  constexpr int forwardBytes() const {
    return 2 * (mmaQueries * depth + 2 * keys * (depth + width));
  }
  constexpr int dqBytes() const {
    return 4 * depth * (dqQueries + dqBuffers * dqKeys);
  }
  constexpr int dkvBytes() const { // with lse and delta of the queries
    return 4 * depth * (dkvKeys + dkvBuffers * dkvQueries) +
           8 * dkvBuffers * dkvQueries;
  }
};

constexpr MmaPlan mmaPlans[] = {{64, 64, 64, 128, 32, 2, 128, 32, 2},
                                {128, 128, 32, 64, 64, 2, 64, 32, 2},
                                {256, 128, 32, 64, 32, 1, 64, 32, 1}};

/// The plan for heads of up to so many channels, or null.
constexpr const MmaPlan *mmaPlanOf(int64_t channels) {
  for (const MmaPlan &plan : mmaPlans)
    if (channels <= plan.depth)
      return &plan;
  return nullptr;
}

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_ATTENTIONARGUMENTS_H
