//===- EpilogueArguments.h - what kernels behind a matmul are given -------===//
//
// Shared by the host and the kernels; passed by value. Sizes and strides count
// elements; dtypes are those of Format.h.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_EPILOGUEARGUMENTS_H
#define KERF_DEVICES_CUDA_KERNELS_EPILOGUEARGUMENTS_H

#include <stdint.h>

namespace kerf::cuda {

enum EpilogueKind : int32_t { Linear, Gelu, GeluGradient };

/// c[batch,m,n] becomes kind(c + bias[n]). Gelu writes c + bias to aux[m,n],
/// its gradient reads there; aux is of c's type.
struct EpilogueArguments {
  void *c = nullptr, *aux = nullptr; ///< aux may be null
  const void *bias = nullptr;        ///< may be null
  int64_t batch = 1, m = 1, n = 1;
  int64_t batchStride = 0, row = 0; ///< of c
  int32_t dtype = 0, biasDtype = 0;
  EpilogueKind kind = Linear;
  int32_t blocks = 1;
};

/// to[column] = sum of from[row, column] over the rows; or, of each of `parts`
/// of the rows, to[part, column].
struct RowSumArguments {
  const void *from = nullptr;
  void *to = nullptr;
  int64_t rows = 1, columns = 1;
  int64_t row = 0, column = 1; ///< strides
  int32_t fromDtype = 0, toDtype = 0;
  int32_t parts = 1;
};

constexpr int epilogueThreads = 256;
/// Columns of a block that sums rows; so many threads share a column.
constexpr int rowSumColumns = 32, rowSumParts = epilogueThreads / rowSumColumns;
/// Columns of a thread that reads 16 bytes, of elements of so many bytes.
constexpr int rowSumWidth(int bytes) { return 16 / bytes; }

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_EPILOGUEARGUMENTS_H
