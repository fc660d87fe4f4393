//===- PlainTile.h - matmuls of tiles without tensor cores ----------------===//
//
// 256 threads have a tile of 64 x 64 sums in f32: thread t those of rows
// t/16 + 16 i and columns t%16 + 16 j. Factors go through shared memory, 32 of
// the summed index at a time. Rows and columns that do not exist are zero.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_PLAINTILE_H
#define KERF_DEVICES_CUDA_KERNELS_PLAINTILE_H

#include "Number.h"

namespace kerf::cuda {

constexpr int tileSide = 64, tileDepth = 32, tileThreads = 256;

/// Rows with consecutive channels.
template <class T> struct Rows {
  const T *data;
  int64_t stride; ///< of rows
  int count, channels;

  KERF_MEMBER float at(int row, int channel) const {
    return row < count && channel < channels
               ? toFloat(data[row * stride + channel])
               : 0.0f;
  }
};

/// Shared memory of a block. A column more than needed: neighbours in a column
/// lie in different banks.
struct PlainShared {
  union {
    struct {
      float left[tileSide][tileDepth + 1], right[tileSide][tileDepth + 1];
    };
    float values[tileSide][tileSide + 1];
  };
  float weights[tileSide][tileSide + 1];
};

/// A thread's sums.
struct PlainSums {
  float at[4][4];

  KERF_MEMBER void clear() {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      at[i / 4][i % 4] = 0;
  }
};

KERF_DEVICE int tileRow(int i) { return threadIndex() / 16 + 16 * i; }
KERF_DEVICE int tileColumn(int j) { return threadIndex() % 16 + 16 * j; }

template <class T>
KERF_DEVICE void loadDepth(float (&to)[tileSide][tileDepth + 1],
                           const Rows<T> &rows, int channel) {
  int column = threadIndex() % tileDepth;
#pragma unroll 2
  for (int row = threadIndex() / tileDepth; row < tileSide;
       row += tileThreads / tileDepth)
    to[row][column] = rows.at(row, channel + column);
}

/// sums[i,j] += sum over l of left[i,l] right[j,l], a part of 32.
KERF_DEVICE void multiplyDepth(const PlainShared &shared, PlainSums &sums) {
#pragma unroll 4
  for (int l = 0; l < tileDepth; ++l) {
    float a[4], b[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] = shared.left[tileRow(i)][l];
      b[i] = shared.right[tileColumn(i)][l];
    }
#pragma unroll
    for (int i = 0; i < 16; ++i)
      sums.at[i / 4][i % 4] += a[i / 4] * b[i % 4];
  }
}

/// sums = left right^T over all channels. All threads; they meet at the end.
template <class T>
KERF_DEVICE void multiplyRows(PlainShared &shared, const Rows<T> &left,
                              const Rows<T> &right, PlainSums &sums) {
  sums.clear();
  for (int channel = 0; channel < left.channels; channel += tileDepth) {
    loadDepth(shared.left, left, channel);
    loadDepth(shared.right, right, channel);
    barrier();
    multiplyDepth(shared, sums);
    barrier();
  }
}

KERF_DEVICE void putWeights(PlainShared &shared, const PlainSums &weights) {
#pragma unroll
  for (int i = 0; i < 16; ++i)
    shared.weights[tileRow(i / 4)][tileColumn(i % 4)] =
        weights.at[i / 4][i % 4];
}

/// sums[i,c] += sum over j of weights[i,j] rows[j, channel + c]. All threads;
/// they meet at the end.
template <class T>
KERF_DEVICE void addWeighted(PlainShared &shared, const PlainSums &weights,
                             const Rows<T> &rows, int channel,
                             PlainSums &sums) {
  putWeights(shared, weights);
  int column = threadIndex() % tileSide;
#pragma unroll 4
  for (int row = threadIndex() / tileSide; row < tileSide;
       row += tileThreads / tileSide)
    shared.values[row][column] = rows.at(row, channel + column);
  barrier();
#pragma unroll 4
  for (int l = 0; l < tileSide; ++l) {
    float a[4], b[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] = shared.weights[tileRow(i)][l];
      b[i] = shared.values[l][tileColumn(i)];
    }
#pragma unroll
    for (int i = 0; i < 16; ++i)
      sums.at[i / 4][i % 4] += a[i / 4] * b[i % 4];
  }
  barrier();
}

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_PLAINTILE_H
