//===- GroupedBlock.h - what a block of a grouped matmul multiplies -------===//
//
// Shared by the forms on tensor cores. A kind of matmul, Rows or Weights,
// tells what its blocks are, and which factors lie across the summed index.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_GROUPEDBLOCK_H
#define KERF_DEVICES_CUDA_KERNELS_GROUPEDBLOCK_H

#include "GroupedArguments.h"
#include "Number.h"

#pragma clang force_cuda_host_device begin
#include "kerf/Artifact/CudaWorkspace.h"
#pragma clang force_cuda_host_device end

namespace kerf::cuda {

/// A piece of the summed index: of a part, from `at` of `end`. `row`: what the
/// part adds to the place of the first element of a factor across.
struct Piece {
  int part, at, end;
  int64_t row;
};

/// What of the summed index belongs to a block, in parts. Those of gradients
/// are the groups.
template <bool gradient> struct Segments {
  const GroupedArguments *a;
  int64_t expert; ///< of gradients
  int length;     ///< of the only part otherwise

  KERF_MEMBER int count() const { return gradient ? a->groups : 1; }
  KERF_MEMBER bool has(const Piece &piece) const {
    return piece.part < count();
  }
  KERF_MEMBER Piece part(int index) const {
    if (!gradient)
      return {index, 0, length, 0};
    int64_t at = index * (int64_t)a->experts + expert;
    int start = static_cast<const int32_t *>(a->plan)[at];
    if (start < 0) // sizes do not fit
      return {index, 0, 0, 0};
    return {index, 0, a->sizes[at], index * (int64_t)a->rows + start};
  }
  /// The first piece with something in it, from this one on, if there is one.
  KERF_MEMBER Piece find(Piece piece) const {
    while (piece.at >= piece.end && ++piece.part < count())
      piece = part(piece.part);
    return piece;
  }
  KERF_MEMBER Piece first() const { return find({-1, 0, 0, 0}); }
  KERF_MEMBER Piece after(Piece piece, int depth) const {
    piece.at += depth;
    return find(piece);
  }
};

/// Lines of a factor, which lie along the summed index or across it.
template <class T> struct Lines {
  const T *data;  ///< of the first line, at the start of the summed index
  int64_t stride; ///< of lines, or of the summed index
  int count;

  /// At the start of a piece's part.
  KERF_MEMBER Lines of(const Piece &piece) const {
    return {data + piece.row * stride, stride, count};
  }
};

/// Where results go: those below `rows` and `columns`.
struct Results {
  int64_t first, stride; ///< in y, in elements
  int rows, columns;
};

/// results = left right^T over the segments. No rows of results: nothing to do.
template <class T, bool gradient> struct Block {
  Lines<T> left, right;
  Segments<gradient> segments;
  Results results;
};

/// Lines of a block, of those that are left.
KERF_DEVICE int clamped(int64_t left, int side) {
  return left < side ? (int)left : side;
}

KERF_DEVICE int64_t blocksOf(int64_t lines, int side) {
  return (lines + side - 1) / side;
}

/// Row and column, counted in blocks, of a block. Rows count fastest, inside of
/// bands of 16 rows: blocks that run at once then share what they read of both
/// factors, which so comes from the second cache.
struct BlockPlace {
  int64_t row, column;

  KERF_MEMBER BlockPlace(unsigned index, int64_t rows, int64_t columns) {
    constexpr unsigned band = 16; // n and k are below 2^31
    unsigned all = (unsigned)columns * band;
    unsigned first = index / all * band, left = (unsigned)rows - first;
    unsigned height = left < band ? left : band;
    row = first + index % all % height;
    column = index % all / height;
  }
};

/// y[rows of the expert] = x[rows] w[e]: a block is a tile of rows by columns.
template <class Number, bool transposed, int width> struct Rows {
  using T = Number;
  static constexpr bool leftAcross = false, rightAcross = transposed;
  using Result = Block<T, false>;
  const GroupedArguments &a;

  KERF_MEMBER int64_t down() const { return (int64_t)a.groups * a.tiles; }
  KERF_MEMBER int64_t across() const { return blocksOf(a.n, width); }

  KERF_MEMBER Result at(unsigned block) const {
    BlockPlace place(block, down(), across());
    auto tile = static_cast<const kerf_cuda_grouped_tile *>(a.plan)[place.row];
    int64_t column = place.column * width;
    int64_t row = place.row / a.tiles * a.rows + tile.row;
    const T *w = static_cast<const T *>(a.w) + tile.expert * a.n * a.k;
    return {{static_cast<const T *>(a.x) + row * a.k, a.k, tile.used},
            {w + column * (transposed ? 1 : a.k), transposed ? a.n : a.k,
             clamped(a.n - column, width)},
            {&a, 0, tile.used ? (int)a.k : 0},
            {row * a.n + column, a.n, tile.rows, (int)(a.n - column)}};
  }
};

/// y[e] (+)= sum over the expert's rows of x^T w, or its transpose.
template <class Number, int width> struct Weights {
  using T = Number;
  static constexpr bool leftAcross = true, rightAcross = true;
  using Result = Block<T, true>;
  static constexpr int side = KERF_CUDA_GROUPED_ROWS;
  const GroupedArguments &a;

  KERF_MEMBER int64_t rows() const { return a.transposed ? a.k : a.n; }
  KERF_MEMBER int64_t columns() const { return a.transposed ? a.n : a.k; }
  KERF_MEMBER int64_t down() const {
    return a.experts * blocksOf(rows(), side);
  }
  KERF_MEMBER int64_t across() const { return blocksOf(columns(), width); }

  KERF_MEMBER Result at(unsigned block) const {
    BlockPlace place(block, down(), across());
    int64_t each = blocksOf(rows(), side), expert = place.row / each;
    int64_t row = place.row % each * side, column = place.column * width;
    auto left = static_cast<const T *>(a.transposed ? a.w : a.x);
    auto right = static_cast<const T *>(a.transposed ? a.x : a.w);
    int count = clamped(rows() - row, side);
    return {{left + row, rows(), count},
            {right + column, columns(), clamped(columns() - column, width)},
            {&a, expert, 0},
            {(expert * rows() + row) * columns() + column, columns(), count,
             (int)(columns() - column)}};
  }
};

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_GROUPEDBLOCK_H
