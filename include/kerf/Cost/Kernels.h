//===- Kernels.h - how long a kernel runs ---------------------------------===//
//
// Roofs: a kernel takes as long as its arithmetic or its memory traffic, what
// is longer. Launches are not in these times; they are counted by who knows how
// many kernels there are.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_COST_KERNELS_H
#define KERF_COST_KERNELS_H

#include "kerf/Cost/Profile.h"
#include "kerf/Machine/Machine.h"

namespace kerf {

/// `batch` matmuls of m x k by k x n.
struct MatmulShape {
  double batch = 1, m = 1, n = 1, k = 1;
  /// Of routed tokens: data decides how many rows each expert has, so kernels
  /// reach `Efficiency::groupedMatmul`.
  bool isGrouped = false;
  double flops() const { return 2 * batch * m * n * k; }
};

/// Peak flop/s of number type `type` ("bf16"). A type that the device does not
/// state runs as the next one that can hold it: fp8 as bf16, bf16 and f16 as
/// each other (f16 not on a CPU), both and tf32 as f32 (an f32 matmul is never
/// taken for tf32), f64 at half of f32. Else the lowest peak stated; 0 when
/// there is none.
double peakOf(const Device &device, llvm::StringRef type);
/// The type whose stated peak that is; "" when there is none.
llvm::StringRef ratedAs(const Device &device, llvm::StringRef type);

/// Streaming multiprocessors of a GPU; 0 when unknown.
double multiprocessors(const Device &device);

/// Part of the device's best matmul rate that a shape reaches, in (0, 1]:
/// whole tiles (128 x 128 and others, the best is taken), whole waves of tiles
/// over the multiprocessors, and the start of each tile's loop over k. 1 on
/// devices without a known number of multiprocessors. 4096^3 on an H100: 0.96.
double shapeEfficiency(const Device &device, const MatmulShape &shape);

/// Seconds of a matmul of `elementBytes`-wide numbers of type `type` ("bf16"):
/// max(flops / (peak x efficiency x shapeEfficiency), bytes / bandwidth), where
/// each operand moves once. What is stated of the type
/// (`Efficiency::types`, else `Efficiency::rows` and `depth`) is one more
/// factor: part of its `rows` for m, and of k what its `depth` leaves. A shared
/// device must be what one rank has of it
/// (`Machine::perRank`).
double matmulSec(const Device &device, const Profile &profile,
                 const MatmulShape &shape, llvm::StringRef type,
                 double elementBytes);

/// What fused attention with heads of 128 or more reaches.
struct AttentionRates {
  double forward = 0;       ///< part of the type's peak
  double backwardRatio = 0; ///< rate of the gradient / that of the forward
  double keysStart = 0;     ///< as `TypeEfficiency::attentionKeys`
};
/// As measured of the type, else as the device states; the profile's part of
/// the gradient on GPUs (`Profile::attentionBackward`) is in what the device
/// states, not in what was measured, which was so with Kerf's. Without
/// `Profile::attention`.
AttentionRates attentionRatesOf(const Device &device, const Profile &profile,
                                llvm::StringRef type);

/// An attention, or its gradient, on one rank.
struct AttentionWork {
  /// Of matmuls of scores, a causal half counted as half; backward with the
  /// scores recomputed: 2.5 times the forward.
  double flops = 0;
  double bytes = 0;     ///< that it moves
  double headSize = 0;  ///< channels; below 128 it is slower by (n/128)^0.35
  double scores = 0;    ///< batch x heads x queries x keys
  llvm::StringRef type; ///< "bf16"
  bool backward = false;
  /// Seen per query: of the rate they leave what was measured
  /// (`TypeEfficiency::attentionKeys`); 0: all of it.
  double keys = 0;
  /// Kerf's own kernels compute it on a GPU, since its library does not
  /// (`Profile::ownAttention`).
  bool isOwn = false;
};

/// Bytes that kernels beside the library move for keys and values that lie in
/// the zigzag order of ranks, per byte of these: a copy by position; backward,
/// two gradients, of which one has half of the positions, and their sum, too.
constexpr double kSortedForward = 2, kSortedBackward = 4.5;

/// Seconds of it. Unfused attention (`Profile::flash` false) makes all scores
/// in plain matmuls and pays bytes per score.
double attentionSec(const Device &device, const Profile &profile,
                    const AttentionWork &work);

/// Seconds of an element-wise or row kernel that moves `bytes` and does
/// `vectorFlops` (at the f32 peak).
double rowSec(const Device &device, const Profile &profile, double bytes,
              double vectorFlops);

} // namespace kerf

#endif // KERF_COST_KERNELS_H
