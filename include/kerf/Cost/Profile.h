//===- Profile.h - what a runtime does differently ------------------------===//
//
// Published measurements come from runtimes with other kernels, overlap and
// launch costs than ours. The differences are these named numbers, and nothing
// else of the cost model knows about runtimes.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_COST_PROFILE_H
#define KERF_COST_PROFILE_H

#include <string>

namespace kerf {

/// Defaults are Kerf's own runtime.
struct Profile {
  std::string name = "kerf";
  double matmul = 1;    ///< rate of matmuls / the device's best rate
  double attention = 1; ///< rate of attention / the device's rate
  /// Rate of attention's gradient on GPUs / the device's, which is that of sums
  /// in any order: Kerf's are in a fixed one. Measured on an H200: 0.78 at
  /// 4,096 and 8,192 positions, 0.86 to 0.93 below.
  double attentionBackward = 0.8;
  /// Rate of attention by Kerf's own kernels on GPUs / that of the library, and
  /// of its gradient. Measured on an H200 (docs/hardware.md): 0.31 to 0.39, and
  /// 0.18 to 0.49.
  double ownAttention = 0.37;
  double ownAttentionBackward = 0.42;
  double memory = 1; ///< multiplier of bytes of row kernels
  bool flash = true; ///< attention without a buffer of scores
  /// Row kernels are joined as the stage `fuse` does, matmuls end in what
  /// follows them and add up gradients. Else only chains of row ops are joined.
  bool fused = true;
  double scoreBytesForward = 14;  ///< unfused: bytes moved per score
  double scoreBytesBackward = 19; ///< unfused: bytes moved per score
  double leastForwardSec = 0;     ///< a layer takes at least this long
  double leastBackwardSec = 0;    ///< (launches from the host)
  double tensorOverlap = 0;     ///< part of layer collectives hidden by compute
  double gradientOverlap = 0.5; ///< part of sums of gradients hidden
  double weightOverlap = 0.5;   ///< part of ZeRO-3's gathers of weights hidden
  /// Part of gathers after the update that the next step's first forward hides:
  /// Kerf's programs wait for them.
  double updatedOverlap = 0;
  double bubble = 1; ///< measured bubble / analytic bubble
  /// The library knows flat rings and pairwise exchange (and trees for
  /// all-reduce) only, as NCCL; else collectives also run tier by tier.
  bool flatCollectives = false;
  /// Seconds per call of a collective besides its steps. NCCL's own model of
  /// itself has 8.4e-6 (ring, large messages; `baseLatencies` of its tuner).
  double collectiveSec = 0;
  double stepSec = 0;     ///< constant per step
  double bucketBytes = 0; ///< gradients leave in buckets of this; 0: one
  /// Bytes moved per local parameter and micro-batch to add up gradients; where
  /// matmuls do it (`fused`), of those that kernels add: two f32 are read and
  /// one is written.
  double accumulateBytes = 12;
  /// Bytes moved per local parameter by the update.
  double updateBytes = 34;
  // Memory.
  double gradientBytes = 4; ///< bytes per parameter of an accumulated gradient
  double logitBytes = 0; ///< extra bytes per local logit held on the last stage
  bool logitsWhole = false; ///< those logits are whole on tensor ranks
  double reservedBytes = 0; ///< on top of the device's
};

} // namespace kerf

#endif // KERF_COST_PROFILE_H
