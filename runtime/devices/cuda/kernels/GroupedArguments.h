//===- GroupedArguments.h - what kernels of grouped matmuls are given -----===//
//
// Shared by the host and the kernels; passed by value. As
// KERF_OP_GROUPED_MATMUL (Format.h).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_GROUPEDARGUMENTS_H
#define KERF_DEVICES_CUDA_KERNELS_GROUPEDARGUMENTS_H

#include <stdint.h>

namespace kerf::cuda {

struct GroupedArguments {
  const void *x, *w;
  const int32_t *sizes; ///< [groups, experts]
  void *y;
  void *plan;     ///< the workspace: tiles, or first rows
  int32_t *fault; ///< a Fault (State.h): expert, group, its rows
  int64_t n, k;
  int32_t xDtype, wDtype, yDtype; ///< kerf_dtype
  int32_t groups, rows, experts;
  int32_t gradient, transposed, capacity, accumulate;
  int32_t tiles; ///< of a group, in the plan
  int32_t step;  ///< id of the step, for faults
};

constexpr int groupedPlanThreads = 256;
constexpr int groupedPlainTile = 64, groupedPlainThreads = 256;

/// On tensor cores: edge of a block's results, a piece of the summed index,
/// pieces in shared memory, bytes of it.
constexpr int groupedMmaThreads = 128, groupedMmaSide = 128;
constexpr int groupedMmaDepth = 64, groupedMmaStages = 3;
constexpr int groupedMmaBytes =
    2 * groupedMmaStages * groupedMmaSide * groupedMmaDepth * 2;

/// By warpgroups, of the same pieces: two that multiply and one that copies;
/// columns of a block's results, pieces in shared memory, bytes of it. Each
/// warp that multiplies has a part of its own for its results.
constexpr int groupedWgmmaThreads = 384, groupedWgmmaColumns = 256;
constexpr int groupedWgmmaStages = 4;
constexpr int groupedWgmmaResultBytes = 4480, groupedWgmmaResultWarps = 8;
constexpr int groupedWgmmaBytes =
    groupedWgmmaStages * 2 * groupedMmaDepth *
        (groupedMmaSide + groupedWgmmaColumns) +
    groupedWgmmaResultWarps * groupedWgmmaResultBytes;

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_GROUPEDARGUMENTS_H
