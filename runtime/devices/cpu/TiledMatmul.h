//===- TiledMatmul.h - matmuls by tiles -----------------------------------===//
//
// c[m,n] = a[m,k] b[k,n], split as kerf_cpu_plan_matmul says: a slice of b is
// packed by all workers, then tiles of c are handed out; a tile packs its rows
// of a into a buffer that stays in the cache of its processor. Neither order
// nor number of workers changes a sum.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CPU_TILEDMATMUL_H
#define KERF_DEVICES_CPU_TILEDMATMUL_H

#include "Kernels.h"
#include "ThreadPool.h"
#include "kerf/Artifact/CpuWorkspace.h"

#include <vector>

namespace kerf::cpu {

/// Consecutive rows of a and c; offsets in elements.
struct RowPart {
  int64_t a, c, rows;
};

/// A part of k, at most the plan's depth; offsets in elements.
struct DepthPart {
  int64_t a, b, depth;
};

struct TiledMatmul {
  View a, b; ///< at the parts' origin
  int64_t n;
  void *c;
  Number cNumber;
  int64_t cRow;
  bool accumulate;  ///< add to c
  float scale = 1;  ///< of the products, a power of two
  const void *bias; ///< [n] or null, added to every row
  Number biasNumber;
  const RowPart *rowParts;
  int64_t rowPartCount;
  const DepthPart *depthParts; ///< none: all sums are 0
  int64_t depthPartCount;
};

/// One of several matmuls that are computed together.
struct Job {
  TiledMatmul matmul;
  int64_t firstTile = 0; ///< its number among the tiles of all
  // Its b: rows of all depth parts after each other.
  int64_t depth = 0, panelBytes = 0;
  char *packed = nullptr;
};

/// Pieces of a workspace, by kerf_cpu_plan_matmul.
struct MatmulSpace {
  MatmulSpace(const kerf_cpu_matmul &plan, void *workspace)
      : plan(plan), memory(static_cast<char *>(workspace)) {}
  char *sharedB() const { return memory; }
  float *sharedSums() const {
    return reinterpret_cast<float *>(memory + plan.shared_b);
  }
  char *ownA(int worker) const { return own(worker); }
  float *ownSums(int worker) const {
    return reinterpret_cast<float *>(own(worker) + plan.own_a);
  }
  /// For sums of blocks (BlockLoops).
  float *ownBlocks(int worker) const {
    return reinterpret_cast<float *>(own(worker) + plan.own_a + plan.own_sums -
                                     plan.own_blocks);
  }
  char *ownB(int worker) const {
    return own(worker) + plan.own_a + plan.own_sums;
  }

private:
  char *own(int worker) const {
    return memory + plan.shared_b + plan.shared_sums +
           worker * (plan.own_a + plan.own_sums + plan.own_b);
  }
  const kerf_cpu_matmul &plan;
  char *memory;
};

/// Computes one matmul with all workers.
void multiply(ThreadPool &pool, const Kernels &kernels, const Engine &engine,
              const TiledMatmul &matmul, const kerf_cpu_matmul &plan,
              void *workspace);

/// Computes matmuls of as many columns with all workers, which pack each b
/// whole (plan.together > 1) and then share the tiles of all.
void multiplyTogether(ThreadPool &pool, const Kernels &kernels,
                      const Engine &engine, std::vector<Job> &jobs,
                      const kerf_cpu_matmul &plan, void *workspace);

/// Computes `count` small matmuls (plan.own_b > 0), each by one worker;
/// `at(i)` is matmul i, of one depth part.
template <typename At>
void multiplyBatch(ThreadPool &pool, const Kernels &kernels,
                   const Engine &engine, int64_t count, const At &at,
                   const kerf_cpu_matmul &plan, void *workspace);

/// One tile: rows [row, row + rows) of a part times columns [column, column +
/// columns) of b, whose packed panels for them start at `packedB`, over one
/// depth part. `panelBytes`: from one panel to the next.
void multiplyTile(const Kernels &kernels, const Engine &engine,
                  const TiledMatmul &matmul, const kerf_cpu_matmul &plan,
                  const MatmulSpace &space, int worker, const RowPart &part,
                  int64_t row, int64_t column, int64_t columns,
                  const char *packedB, int64_t panelBytes, int64_t depthPart);

template <typename At>
void multiplyBatch(ThreadPool &pool, const Kernels &kernels,
                   const Engine &engine, int64_t count, const At &at,
                   const kerf_cpu_matmul &plan, void *workspace) {
  MatmulSpace space(plan, workspace);
  pool.parallelFor(count, 1, [&](int64_t begin, int64_t end, int worker) {
    kernels.enter();
    for (int64_t i = begin; i < end; ++i) {
      const TiledMatmul matmul = at(i);
      char *packed = space.ownB(worker);
      int64_t depth = matmul.depthPartCount ? matmul.depthParts->depth : 0;
      if (depth)
        engine.packB(packed, matmul.b, depth, matmul.n);
      const RowPart &part = *matmul.rowParts;
      for (int64_t column = 0; column < matmul.n; column += plan.columns)
        for (int64_t row = 0; row < part.rows; row += plan.rows)
          multiplyTile(kernels, engine, matmul, plan, space, worker, part, row,
                       column, kerf_cpu_min(plan.columns, matmul.n - column),
                       packed +
                           column / engine.panel * engine.panelBytes(depth),
                       engine.panelBytes(depth), 0);
    }
    kernels.leave();
  });
}

} // namespace kerf::cpu

#endif // KERF_DEVICES_CPU_TILEDMATMUL_H
