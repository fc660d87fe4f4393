//===- Rope.h - Rotary frequencies of a config ------------------*- C++ -*-===//

#ifndef KERF_LIB_INGEST_ROPE_H
#define KERF_LIB_INGEST_ROPE_H

#include "DecoderForm.h"

#include "mlir/IR/Attributes.h"

namespace kerf {

struct Rope {
  double theta = 0;
  /// `#kerf.rope_llama3`, `_linear`, `_yarn`, `_table` or null.
  mlir::Attribute scaling;
  /// What deepseek_v3 multiplies scores of attention by, for longer contexts.
  double scoreScale = 1.0;
  /// The first channels of a head, that turn.
  int64_t rotated = 0;
};

/// Lengths of sequences that frequencies may depend on.
struct RopeLengths {
  int64_t longest; ///< the config's `max_position_embeddings`
  int64_t seq;     ///< of training
};

/// Reads the base and the rotated part of heads with `rope_scaling` (to version
/// 4) or `rope_parameters` (from version 5); heads have `headDim` channels.
Rope readRope(ConfigReader &config, const DecoderForm &form,
              RopeLengths lengths, int64_t headDim);

/// The rotations of layers that see all tokens, and of those with a window.
struct Ropes {
  Rope full, window;
};

/// Reads both, of a family whose form has a base for the second:
/// `rope_parameters` has an object for each, older configs have `rope_scaling`
/// for the first alone.
Ropes readRopes(ConfigReader &config, const DecoderForm &form,
                RopeLengths lengths, int64_t headDim);

} // namespace kerf

#endif // KERF_LIB_INGEST_ROPE_H
