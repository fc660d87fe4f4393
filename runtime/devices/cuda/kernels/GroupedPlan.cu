//===- GroupedPlan.cu - where the rows of experts lie ---------------------===//
//
// How many rows an expert has is known on the device only. One block per group
// checks the sizes and writes, for the kernels that multiply, the first row of
// each expert or the tiles that the rows are split into. Sizes that do not fit
// are reported, and the group is left out.
//
//===----------------------------------------------------------------------===//

#include "Cuda.h"
#include "GroupedArguments.h"

#pragma clang force_cuda_host_device begin
#include "kerf/Artifact/CudaWorkspace.h"
#pragma clang force_cuda_host_device end

using namespace kerf::cuda;

namespace {

struct PlanShared {
  int64_t sums[groupedPlanThreads];
  int bad;
};

/// Sum of the values of all threads before this one; `all`: of all threads.
KERF_DEVICE int64_t sumBefore(PlanShared &shared, int64_t value, int64_t &all) {
  int thread = threadIndex();
  shared.sums[thread] = value;
  barrier();
  for (int step = 1; step < groupedPlanThreads; step *= 2) {
    int64_t other = thread >= step ? shared.sums[thread - step] : 0;
    barrier();
    shared.sums[thread] += other;
    barrier();
  }
  all = shared.sums[groupedPlanThreads - 1];
  int64_t before = shared.sums[thread] - value;
  barrier();
  return before;
}

/// The expert that a thread looks at.
struct Expert {
  int index;
  int64_t size, start; ///< rows, the first one
};

/// An expert's rows; a wrong number of them counts as more than there are.
KERF_DEVICE int64_t sizeOf(const GroupedArguments &a, int group, int expert) {
  if (expert >= a.experts)
    return 0;
  int size = a.sizes[(int64_t)group * a.experts + expert];
  bool fits =
      size >= 0 && size <= a.rows && (!a.capacity || size <= a.capacity);
  return fits ? size : (int64_t)a.rows + 1;
}

KERF_DEVICE void report(const GroupedArguments &a, int group, int expert) {
  if (__nvvm_atom_cas_gen_i(a.fault, 0, a.step) != 0)
    return; // an earlier fault is told
  a.fault[1] = expert;
  a.fault[2] = group;
  a.fault[3] = a.sizes[(int64_t)group * a.experts + expert];
}

/// Calls `use` with each expert of the group, one per thread at a time.
/// Returns all rows that they have.
template <class Use>
KERF_DEVICE int64_t forExperts(const GroupedArguments &a, PlanShared &shared,
                               int group, Use use) {
  int64_t used = 0;
  for (int first = 0; first < a.experts; first += groupedPlanThreads) {
    int expert = first + threadIndex();
    int64_t size = sizeOf(a, group, expert), all;
    int64_t before = used + sumBefore(shared, size, all);
    use(Expert{expert, size,
               a.capacity ? (int64_t)expert * a.capacity : before},
        before);
    used += all;
  }
  return used;
}

/// Do all sizes of the group fit? Reports the first expert that does not.
KERF_DEVICE bool sizesFit(const GroupedArguments &a, PlanShared &shared,
                          int group) {
  shared.bad = 0;
  barrier();
  forExperts(a, shared, group, [&](const Expert &e, int64_t before) {
    // Of several in a row only the first has all before it within the rows.
    if (before <= a.rows && before + e.size > a.rows) {
      shared.bad = 1;
      report(a, group, e.index);
    }
  });
  barrier();
  return !shared.bad;
}

KERF_DEVICE int tilesOf(int64_t rows) {
  return (rows + KERF_CUDA_GROUPED_ROWS - 1) / KERF_CUDA_GROUPED_ROWS;
}

/// Writes tiles of `rows` rows from `start`, `used` of which the expert has.
KERF_DEVICE void writeTiles(kerf_cuda_grouped_tile *to, int expert,
                            int64_t start, int64_t used, int64_t rows) {
  constexpr int side = KERF_CUDA_GROUPED_ROWS;
  for (int64_t row = 0; row < rows; row += side, ++to) {
    int64_t left = used > row ? used - row : 0;
    *to = {left ? expert : -1, (int)(start + row),
           (int)(left < side ? left : side),
           (int)(rows - row < side ? rows - row : side)};
  }
}

/// All tiles of a group: of its experts, of the rest, and empty ones.
KERF_DEVICE void planGroup(const GroupedArguments &a, PlanShared &shared,
                           int group, bool fits) {
  auto *tiles =
      static_cast<kerf_cuda_grouped_tile *>(a.plan) + (int64_t)group * a.tiles;
  int64_t count = 0, used = 0;
  for (int first = 0; fits && first < a.experts; first += groupedPlanThreads) {
    int expert = first + threadIndex();
    int64_t size = sizeOf(a, group, expert), sizes, all;
    int64_t before = used + sumBefore(shared, size, sizes);
    int64_t room = !a.capacity ? size : expert < a.experts ? a.capacity : 0;
    int64_t tile = count + sumBefore(shared, tilesOf(room), all);
    writeTiles(tiles + tile, expert,
               a.capacity ? (int64_t)expert * a.capacity : before, size, room);
    used += sizes;
    count += all;
  }
  if (threadIndex() != 0)
    return;
  int64_t end = a.capacity ? (int64_t)a.experts * a.capacity : used;
  if (fits) {
    writeTiles(tiles + count, -1, end, 0, a.rows - end);
    count += tilesOf(a.rows - end);
  }
  for (; count < a.tiles; ++count)
    tiles[count] = {-1, 0, 0, 0};
}

} // namespace

/// Kind 0: tiles. A block per group.
KERF_KERNEL(groupedPlanThreads, 1)
void grouped_plan_tiles(const GroupedArguments a) {
  __shared__ PlanShared shared;
  bool fits = sizesFit(a, shared, blockX());
  planGroup(a, shared, blockX(), fits);
}

/// Kind 1: first rows [groups, experts], -1 where sizes do not fit.
KERF_KERNEL(groupedPlanThreads, 1)
void grouped_plan_starts(const GroupedArguments a) {
  __shared__ PlanShared shared;
  int group = blockX();
  bool fits = sizesFit(a, shared, group);
  int32_t *starts = static_cast<int32_t *>(a.plan) + (int64_t)group * a.experts;
  forExperts(a, shared, group, [&](const Expert &e, int64_t) {
    if (e.index < a.experts)
      starts[e.index] = fits ? (int32_t)e.start : -1;
  });
}
