//===- BesideArguments.h - what kernels beside attention are given -------===//
//
// Shared by the host and the kernels; passed by value. A word is 16 bytes;
// sizes and strides of channels count words.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_BESIDEARGUMENTS_H
#define KERF_DEVICES_CUDA_KERNELS_BESIDEARGUMENTS_H

#include <stdint.h>

namespace kerf::cuda {

/// A tensor [b, rows, heads, words] whose words have stride 1.
struct WordTensor {
  void *data;
  int64_t batch, row, head; ///< strides
  int32_t b, rows, heads, words;
};

/// Between rows in the zigzag order of ranks and dense ones by position, of
/// which there are the first few.
struct OrderArguments {
  WordTensor tensor; ///< in the order of ranks
  int64_t ranks, chunk;
  void *sorted[2]; ///< the second may be null
  int32_t rows[2]; ///< positions that they have
};

/// Rows [first, first + tensor.rows) become zero.
struct BlankArguments {
  WordTensor tensor;
  int32_t first;
};

/// Queries that see no key: rows [first, first + count) of [heads, rows].
struct UnseenArguments {
  float *lse;
  int64_t heads;
  int32_t rows, first, count;
};

/// What a part adds to the gradient of one key head; `isFirst`: nothing was
/// added before, `isLast`: the sum becomes the target.
struct SumArguments {
  const void *part; ///< [rows, words], dense
  float *sum;       ///< [rows, 8 words], dense
  void *target;
  int64_t row; ///< of the target, from one to the next
  int32_t rows, words;
  int32_t isFirst, isLast;
};

/// Bytes of a word.
constexpr int besideWord = 16;
/// Of a block; each has a word, or a row.
constexpr int besideThreads = 256;

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_BESIDEARGUMENTS_H
