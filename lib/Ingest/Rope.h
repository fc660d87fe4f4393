//===- Rope.h - Rotary frequencies of a config ------------------*- C++ -*-===//

#ifndef KERF_LIB_INGEST_ROPE_H
#define KERF_LIB_INGEST_ROPE_H

#include "ConfigReader.h"

#include "mlir/IR/Attributes.h"

namespace kerf {

struct Rope {
  double theta;
  /// `#kerf.rope_llama3`, `#kerf.rope_linear`, `#kerf.rope_yarn` or null.
  mlir::Attribute scaling;
  /// What deepseek_v3 multiplies scores of attention by, for longer contexts.
  double scoreScale = 1.0;
};

/// Reads `rope_theta` with `rope_scaling` (to version 4) or `rope_parameters`
/// (from version 5). `theta` and `maxPositions` are the config's defaults;
/// heads have `headDim` channels.
Rope readRope(ConfigReader &config, double theta, int64_t maxPositions,
              int64_t headDim);

} // namespace kerf

#endif // KERF_LIB_INGEST_ROPE_H
