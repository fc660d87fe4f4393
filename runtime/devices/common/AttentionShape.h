//===- AttentionShape.h - the checked attributes of attention -------------===//

#ifndef KERF_DEVICES_COMMON_ATTENTIONSHAPE_H
#define KERF_DEVICES_COMMON_ATTENTIONSHAPE_H

#include "Checks.h"

namespace kerf::device {

/// Strides of batch, position and head, in elements.
struct HeadStrides {
  int64_t batch, position, head;
  int64_t at(int64_t b, int64_t i, int64_t h) const {
    return b * batch + i * position + h * head;
  }
};

/// As kerf_attention_attr (Format.h) says.
struct AttentionShape {
  uint32_t dtype; ///< f32, bf16 or f16
  int64_t b, h, g, sq, sk, d, dv;
  HeadStrides q, k, v, y, dy, dq, dk, dvs; ///< dvs: of the gradient of v
  bool causal;
  int64_t window;
  double scale, dropout;
  double softcap; ///< 0: none
  uint64_t nameHash;
  int64_t global[4];
  int64_t zigzag; ///< ranks of the order of queries and keys, or 0
  bool segments;  ///< of queries and keys are given

  int64_t bytes() const { return kerf_dtype_bytes(dtype); }
};

/// First operand after the tensors: KERF_ATTN_SEED.
inline uint32_t attentionScalars(bool backward) {
  return kerf_attention_scalars(backward);
}

/// Checks attributes and operands of either direction, but not the workspace.
/// False after writing a message.
bool readAttention(Checks &checks, bool backward, AttentionShape &shape);

/// Random numbers of 24 bits below this are dropped; 0: none.
uint32_t dropoutThreshold(double rate);

} // namespace kerf::device

#endif // KERF_DEVICES_COMMON_ATTENTIONSHAPE_H
