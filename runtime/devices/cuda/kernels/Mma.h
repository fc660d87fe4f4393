//===- Mma.h - matmuls of 16-bit tiles on tensor cores --------------------===//
//
// mma.sync m16n8k16 on fragments that ldmatrix takes from shared memory. Lane l
// of a warp has of a 16 x 8 tile of sums c the rows l/4 and l/4 + 8 at columns
// 2 (l%4) and the next: c[0] c[1], c[2] c[3]. Sums of scores are laid out as
// the left factor of the next matmul wants them, so they never leave
// registers (Dao 2023, "FlashAttention-2").
//
// Tiles in shared memory have rows of a power of two of channels; the 16-byte
// chunks of a row are exchanged by the row's number, so that the eight rows
// that ldmatrix reads lie in different banks.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_MMA_H
#define KERF_DEVICES_CUDA_KERNELS_MMA_H

#include "Number.h"

namespace kerf::cuda {

constexpr int chunkChannels = 8; ///< 16 bytes

/// Four 8 x 8 matrices of 16-bit numbers whose rows start at the lanes'
/// addresses, 8 lanes for each.
KERF_DEVICE void loadMatrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
KERF_DEVICE void loadTransposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(address)
      : "memory");
}

/// c += a b for a 16 x 16 and b 16 x 8.
template <class T>
KERF_DEVICE void multiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                             uint32_t b1) {
  if constexpr (sizeof(T) == 2 && __is_same(T, Bf16))
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Copies 16 bytes to shared memory without waiting, or zeros.
KERF_DEVICE void startCopy(uint32_t to, const void *from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"((__attribute__((address_space(1))) const void *)from),
               "r"(exists ? 16 : 0)
               : "memory");
}
/// The same of 4 bytes.
KERF_DEVICE void startSmallCopy(uint32_t to, const void *from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to),
               "l"((__attribute__((address_space(1))) const void *)from),
               "r"(exists ? 4 : 0)
               : "memory");
}
KERF_DEVICE void endCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits for this thread's copies, but for those of the last `pending` groups.
template <int pending> KERF_DEVICE void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Two numbers from or to shared memory.
KERF_DEVICE void loadPair(float (&to)[2], uint32_t address) {
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];"
               : "=f"(to[0]), "=f"(to[1])
               : "r"(address)
               : "memory");
}

KERF_DEVICE void storePair(uint32_t address, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(first),
               "f"(second)
               : "memory");
}
/// Four numbers from shared memory.
KERF_DEVICE void loadFour(float *to, uint32_t address) {
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(address)
               : "memory");
}

KERF_DEVICE int laneIndex() { return threadIndex() % warpThreads; }

/// Rows of `channels` 16-bit numbers in shared memory, from an address that a
/// row's bytes divide.
template <int channels> struct SharedTile {
  static_assert(channels >= 8 * chunkChannels);
  uint32_t base;

  static constexpr int rowBytes = channels * 2;
  static constexpr int bytes(int rows) { return rows * rowBytes; }

  KERF_MEMBER uint32_t at(int row, int chunk) const {
    return base + row * rowBytes + (chunk ^ row % 8) * 16;
  }
  /// What a lane reads of a 16 x 16 part at row 0 and chunk 0, as four 8 x 8
  /// matrices: down first, or across first.
  KERF_MEMBER uint32_t downLane() const {
    return opaque(at(laneIndex() % 16, laneIndex() / 16));
  }
  KERF_MEMBER uint32_t acrossLane() const {
    return opaque(
        at(laneIndex() % 8 + laneIndex() / 16 * 8, laneIndex() / 8 % 2));
  }
  /// The same of another part: `row` a multiple of 8, `chunk` of 2.
  static KERF_MEMBER uint32_t moved(uint32_t lane, int row, int chunk) {
    return (lane ^ (uint32_t)(chunk * 16)) + row * rowBytes;
  }
};

/// Starts copies of `rows` rows of a matrix; what does not exist becomes zero.
/// `exists` counts rows, `width` channels, a multiple of 8.
template <int rows, int threads, class T, int channels>
KERF_DEVICE void copyTile(const SharedTile<channels> &to, const T *from,
                          int64_t stride, int exists, int width) {
  constexpr int chunks = channels / chunkChannels, step = threads / chunks;
  static_assert(threads % chunks == 0 && rows % step == 0);
  int chunk = opaque(threadIndex()) % chunks;
  int row = opaque(threadIndex()) / chunks;
  bool inside = chunk * chunkChannels < width;
  const T *at = from + row * stride + chunk * chunkChannels;
#pragma unroll
  for (int i = 0; i < rows / step; ++i, row += step, at += step * stride) {
    bool there = inside && row < exists;
    startCopy(to.at(row, chunk), there ? at : from, there);
  }
}

/// Sums of a warp: 16 m rows, 8 n columns.
template <int m, int n> struct MmaSums {
  float at[m][n][4];

  KERF_MEMBER void clear() {
#pragma unroll
    for (int i = 0; i < m * n * 4; ++i)
      at[i / 4 / n][i / 4 % n][i % 4] = 0;
  }
};

/// sums = left right^T over `width` channels; left's rows from `row`.
template <class T, int m, int n, int channels>
KERF_DEVICE void multiplyTiles(MmaSums<m, n> &sums,
                               const SharedTile<channels> &left, int row,
                               const SharedTile<channels> &right, int width) {
  using Tile = SharedTile<channels>;
  uint32_t leftLane = Tile::moved(left.downLane(), row, 0);
  uint32_t rightLane = right.acrossLane();
  sums.clear();
#pragma unroll
  for (int step = 0; step < channels / 16; ++step) {
    if (channels > 128 && step * 16 >= width)
      continue;
    uint32_t a[m][4], b[4];
#pragma unroll
    for (int i = 0; i < m; ++i)
      loadMatrices(a[i], Tile::moved(leftLane, 16 * i, 2 * step));
#pragma unroll
    for (int j = 0; j < n; j += 2) {
      loadMatrices(b, Tile::moved(rightLane, 8 * j, 2 * step));
#pragma unroll
      for (int i = 0; i < m; ++i) {
        multiplyAdd<T>(sums.at[i][j], a[i], b[0], b[1]);
        multiplyAdd<T>(sums.at[i][j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

/// sums += weights rows, over the rows of a tile; channels from 8 `chunk`.
template <class T, int m, int n, int summed, int channels>
KERF_DEVICE void addRows(MmaSums<m, n> &sums, const MmaSums<m, summed> &weights,
                         const SharedTile<channels> &rows, int chunk) {
  using Tile = SharedTile<channels>;
  uint32_t lane = Tile::moved(rows.downLane(), 0, chunk);
#pragma unroll
  for (int step = 0; step < summed / 2; ++step) {
    uint32_t a[m][4], b[4];
#pragma unroll
    for (int i = 0; i < m * 4; ++i) {
      const float (&w)[4] = weights.at[i / 4][2 * step + i % 4 / 2];
      a[i / 4][i % 4] = packed<T>(w[i % 2 * 2], w[i % 2 * 2 + 1]);
    }
#pragma unroll
    for (int j = 0; j < n; j += 2) {
      loadTransposed(b, Tile::moved(lane, 16 * step, j));
#pragma unroll
      for (int i = 0; i < m; ++i) {
        multiplyAdd<T>(sums.at[i][j], a[i], b[0], b[1]);
        multiplyAdd<T>(sums.at[i][j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

/// Row and column of sums.at[i][j][e] in a warp's tile.
KERF_DEVICE int sumRow(int i, int e) {
  return 16 * i + laneIndex() / 4 + e / 2 * 8;
}
KERF_DEVICE int sumColumn(int j, int e) {
  return 8 * j + laneIndex() % 4 * 2 + e % 2;
}

/// The largest or the sum over the 4 lanes that have a row.
KERF_DEVICE float quadLargest(float x) {
  x = largest(x, exchange(x, 1));
  return largest(x, exchange(x, 2));
}
KERF_DEVICE float quadSum(float x) {
  x += exchange(x, 1);
  return x + exchange(x, 2);
}

/// Writes the rows below `rows` and the channels below `width` of a warp's
/// sums.
template <class T, int m, int n>
KERF_DEVICE void storeSums(const MmaSums<m, n> &sums, T *to, int64_t stride,
                           int rows, int width) {
#pragma unroll
  for (int i = 0; i < m * n * 2; ++i) {
    const float (&c)[4] = sums.at[i / 2 / n][i / 2 % n];
    int row = sumRow(i / 2 / n, i % 2 * 2), column = sumColumn(i / 2 % n, 0);
    if (row < rows && column < width)
      *reinterpret_cast<uint32_t *>(to + row * stride + column) =
          packed<T>(c[i % 2 * 2], c[i % 2 * 2 + 1]);
  }
}

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_MMA_H
