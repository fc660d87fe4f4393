//===- AttentionHead.h - a block of threads' part of attention ------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_ATTENTIONHEAD_H
#define KERF_DEVICES_CUDA_KERNELS_ATTENTIONHEAD_H

#include "AttentionMask.h"

namespace kerf::cuda {

/// The head, tile and part of the channels that a block computes. Blocks count
/// channels fastest, then tiles from the last (which sees most under a causal
/// mask: long ones first), then heads.
struct BlockPlace {
  int channel, row, head, b;

  KERF_MEMBER BlockPlace(int rows, int tile, int channels, int part,
                         int heads) {
    int index = blockX(), parts = (channels + part - 1) / part;
    channel = index % parts * part;
    index /= parts;
    int tiles = (rows + tile - 1) / tile;
    row = (tiles - 1 - index % tiles) * tile;
    index /= tiles;
    head = index % heads;
    b = index / heads;
  }
};

/// Address of channel 0 of a head's row.
template <class T>
KERF_DEVICE T *rowOf(const HeadTensor &tensor, int b, int row, int head) {
  return static_cast<T *>(tensor.data) + b * tensor.batch +
         row * tensor.position + head * tensor.head;
}

/// Index of a query's log-sum-exp and delta.
KERF_DEVICE int64_t statIndex(const AttentionArguments &a, int b, int h,
                              int query) {
  return ((int64_t)b * a.h + h) * a.sq + query;
}

/// tanh x, within 2e-7: 1 - 2 / (e^2x + 1), by few registers.
KERF_DEVICE float tanhOf(float x) {
  float power = exp2Of(x * (2 * log2e));
  return 1 - 2 * __nvvm_rcp_approx_ftz_f(power + 1);
}

/// A product of query and key, under the soft cap if there is one.
KERF_DEVICE float capped(const AttentionArguments &a, float product) {
  return a.cap > 0 ? a.cap * tanhOf(product * a.capScale) : product;
}
/// What the cap multiplies the slope of such a score by.
KERF_DEVICE float capSlope(const AttentionArguments &a, float score) {
  float part = score * a.capInverse;
  return 1 - part * part;
}

/// log-sum-exp of a query that sees nothing, as the op's decomposition has it.
constexpr float hiddenLse = -1e30f;

/// State of a row's online softmax, scores in units of log2(e).
struct SoftmaxRow {
  float max = -infinity, sum = 0;

  /// What exponents are taken relative to, never infinite.
  KERF_MEMBER float base() const { return max == -infinity ? 0.0f : max; }
  /// Takes a larger maximum: what earlier sums are to be multiplied by.
  KERF_MEMBER float raise(float found) {
    float before = max;
    max = largest(max, found);
    float correction = exp2Of(before - base());
    sum *= correction;
    return correction;
  }
  KERF_MEMBER bool empty() const { return sum == 0; }
  KERF_MEMBER float lse() const {
    return empty() ? hiddenLse : (max + log2Of(sum)) * ln2;
  }
};

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_ATTENTIONHEAD_H
