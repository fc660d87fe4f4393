//===- Metrics.h - what values of a step count ------------------*- C++ -*-===//

#ifndef KERF_DIALECT_KERF_METRICS_H
#define KERF_DIALECT_KERF_METRICS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kerf {

/// A name of `kerf.return` that says which layers a value counts something of:
/// "expert_load model.layers.{i}.mlp 0 to 4".
struct LayerMetric {
  llvm::StringRef kind;   ///< expert_load or expert_rows
  llvm::StringRef layers; ///< pattern of their names, as of parameters
  int64_t start = 0, end = 1;

  std::string print() const;
};

inline constexpr llvm::StringLiteral kExpertLoad = "expert_load";
inline constexpr llvm::StringLiteral kExpertRows = "expert_rows";

/// The parts of such a name, which point into it; none of another text.
std::optional<LayerMetric> parseLayerMetric(llvm::StringRef name);

} // namespace kerf

#endif // KERF_DIALECT_KERF_METRICS_H
