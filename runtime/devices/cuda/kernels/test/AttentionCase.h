//===- AttentionCase.h - attention by plain loops -------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_TEST_ATTENTIONCASE_H
#define KERF_DEVICES_CUDA_KERNELS_TEST_ATTENTIONCASE_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cudatest {

int64_t pick(std::mt19937 &random, int64_t low, int64_t high);

/// Numbers [b, rows, heads, channels] and where they lie.
struct HeadArray {
  int64_t b, rows, heads, channels;
  int64_t strides[3]; ///< of batch, row, head
  std::vector<double> values;

  double &at(int64_t bi, int64_t row, int64_t head, int64_t channel) {
    return values[((bi * rows + row) * heads + head) * channels + channel];
  }
  /// Elements of memory that hold it.
  int64_t extent() const { return b * strides[0]; }
  int64_t offset(int64_t bi, int64_t row, int64_t head) const {
    return bi * strides[0] + row * strides[1] + head * strides[2];
  }
};

/// A command of attention with its numbers: inputs, then what is expected.
struct AttentionCase {
  uint32_t dtype;
  int64_t b, h, g, sq, sk, d, dv;
  bool causal = false, segments = false;
  int64_t window = 0, zigzag = 0;
  double scale, dropout = 0, softcap = 0;
  int64_t global[4], offsets[4] = {0, 0, 0, 0};
  int64_t seed = 0, step = 0, layer = -1;
  bool repeats = true;    ///< two runs give the same bits
  bool knowsRank = false; ///< offsets are known when a step is made

  HeadArray q, k, v, y, dy, dq, dk, dvs;
  std::vector<double> lse; ///< [b, h, sq]
  std::vector<double> segmentsQ, segmentsK;

  /// As KERF_OP_ATTENTION wants them.
  std::vector<int64_t> attributes() const;
  std::string describe() const;
  /// Draws inputs and lays all tensors out; `wide`: rows in whole 16 bytes.
  void draw(std::mt19937 &random, bool wide);
  /// Computes what is expected.
  void compute();

private:
  int64_t positionOf(int64_t row) const;
  bool visible(int64_t bi, int64_t i, int64_t j) const;
  double dropFactor(int64_t bi, int64_t hi, int64_t i, int64_t j) const;
  double product(int64_t bi, int64_t hi, int64_t i, int64_t j);
  double scoreOf(double product) const;
  double slopeAt(int64_t bi, int64_t hi, int64_t i, int64_t j);
  void computeRow(int64_t bi, int64_t hi, int64_t i);
  void addGradients(int64_t bi, int64_t hi, int64_t i,
                    const std::vector<double> &p);
};

} // namespace cudatest

#endif // KERF_DEVICES_CUDA_KERNELS_TEST_ATTENTIONCASE_H
