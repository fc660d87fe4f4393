//===- GroupedPlain.cu - grouped products of any numbers ------------------===//
//
// Without tensor cores: for f32, and for what the other kernels do not take. A
// block computes 64 x 64 results; see PlainTile.h.
//
//===----------------------------------------------------------------------===//

#include "AnyNumber.h"
#include "GroupedArguments.h"
#include "PlainTile.h"

#pragma clang force_cuda_host_device begin
#include "kerf/Artifact/CudaWorkspace.h"
#pragma clang force_cuda_host_device end

using namespace kerf::cuda;

namespace {

/// A factor: `count` lines of a matrix by the summed index; all elements are
/// relative to `first`.
struct Factor {
  const void *data;
  int dtype;
  int64_t first, line, depth; ///< strides
  int count;
};

KERF_DEVICE void loadFactor(float (&to)[tileSide][tileDepth + 1],
                            const Factor &f, int64_t at, int64_t depth) {
#pragma unroll 4
  for (int i = threadIndex(); i < tileSide * tileDepth; i += tileThreads) {
    // Neighbours in memory to neighbouring threads.
    int line = f.depth == 1 ? i / tileDepth : i % tileSide;
    int64_t l = f.depth == 1 ? i % tileDepth : i / tileSide;
    bool exists = line < f.count && at + l < depth;
    to[line][l] = exists ? load(f.data, f.dtype,
                                f.first + line * f.line + (at + l) * f.depth)
                         : 0.0f;
  }
}

/// sums += left right^T over `depth` of the summed index.
KERF_DEVICE void addMatmul(PlainShared &shared, const Factor &left,
                           const Factor &right, int64_t depth,
                           PlainSums &sums) {
  for (int64_t at = 0; at < depth; at += tileDepth) {
    loadFactor(shared.left, left, at, depth);
    loadFactor(shared.right, right, at, depth);
    barrier();
    multiplyDepth(shared, sums);
    barrier();
  }
}

/// Writes rows < `rows` and columns < `columns` of a tile to y from `first`.
KERF_DEVICE void storeSums(const GroupedArguments &a, const PlainSums &sums,
                           int64_t first, int64_t stride, int rows,
                           int64_t columns) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    int row = tileRow(i / 4), column = tileColumn(i % 4);
    if (row >= rows || column >= columns)
      continue;
    int64_t at = first + row * stride + column;
    float before = a.accumulate ? load(a.y, a.yDtype, at) : 0.0f;
    store(a.y, a.yDtype, at, sums.at[i / 4][i % 4] + before);
  }
}

} // namespace

/// y[rows of the expert] = x[rows] w[e]. Blocks count columns fastest, then
/// halves of tiles, tiles, groups.
KERF_KERNEL(groupedPlainThreads, 1)
void grouped_plain_rows(const GroupedArguments a) {
  __shared__ PlainShared shared;
  constexpr int side = groupedPlainTile;
  int64_t index = blockX(), columns = (a.n + side - 1) / side;
  int64_t column = index % columns * side;
  index /= columns;
  int half = index % 2 * side;
  int64_t group = index / 2 / a.tiles;
  auto tile = static_cast<const kerf_cuda_grouped_tile *>(a.plan)[index / 2];
  if (half >= tile.rows)
    return;
  int64_t row = group * a.rows + tile.row + half;
  PlainSums sums;
  sums.clear();
  if (half < tile.used) {
    Factor left = {a.x, a.xDtype, row * a.k, a.k, 1, tile.used - half};
    int64_t w = tile.expert * a.n * a.k;
    int count = least(side, a.n - column);
    Factor right = {a.w, a.wDtype, w + column * a.k, a.k, 1, count};
    if (a.transposed)
      right = {a.w, a.wDtype, w + column, 1, a.n, count};
    addMatmul(shared, left, right, a.k, sums);
  }
  storeSums(a, sums, row * a.n + column, a.n, tile.rows - half, a.n - column);
}

/// y[e] (+)= sum over the expert's rows of x^T w, or its transpose. Blocks
/// count columns fastest, then rows, experts.
KERF_KERNEL(groupedPlainThreads, 1)
void grouped_plain_weights(const GroupedArguments a) {
  __shared__ PlainShared shared;
  constexpr int side = groupedPlainTile;
  int64_t height = a.transposed ? a.k : a.n, width = a.transposed ? a.n : a.k;
  int64_t index = blockX(), columns = (width + side - 1) / side;
  int64_t column = index % columns * side;
  index /= columns;
  int64_t down = (height + side - 1) / side;
  int64_t row = index % down * side, expert = index / down;
  Factor left = {a.transposed ? a.w : a.x,
                 a.transposed ? a.wDtype : a.xDtype,
                 0,
                 1,
                 height,
                 least(side, height - row)};
  Factor right = {a.transposed ? a.x : a.w,
                  a.transposed ? a.xDtype : a.wDtype,
                  0,
                  1,
                  width,
                  least(side, width - column)};
  PlainSums sums;
  sums.clear();
  for (int group = 0; group < a.groups; ++group) {
    int64_t at = (int64_t)group * a.experts + expert;
    int start = static_cast<const int32_t *>(a.plan)[at];
    if (start < 0)
      continue;
    int64_t first = (int64_t)group * a.rows + start;
    left.first = first * height + row;
    right.first = first * width + column;
    addMatmul(shared, left, right, a.sizes[at], sums);
  }
  storeSums(a, sums, (expert * height + row) * width + column, width,
            least(side, height - row), width - column);
}
