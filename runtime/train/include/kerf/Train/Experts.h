//===- Experts.h - how evenly experts are loaded ----------------*- C++ -*-===//
//
// A step of a mixture of experts counts how often each expert was chosen, over
// all ranks and micro-batches (kerf_output). The load of an expert is that
// number over the mean of its layer's experts: 1 everywhere is an even load.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_EXPERTS_H
#define KERF_TRAIN_EXPERTS_H

#include "kerf/Runtime/Runtime.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Outputs that count the same layers.
struct ExpertPort {
  uint32_t load = KERF_NONE, rows = KERF_NONE; ///< rows: with a capacity
};

/// The outputs of an artifact that count experts, in its order.
std::vector<ExpertPort> findExperts(const kerf_artifact *artifact);

/// A layer, or all of them.
struct ExpertLoad {
  std::string layer;
  double choices = 0;         ///< of all experts
  double most = 0, least = 0; ///< over the mean; of all layers the extremes
  /// Part of the choices that got no row; none where all always get one.
  std::optional<double> dropped;
};

struct ExpertRecord {
  std::vector<ExpertLoad> layers;
  ExpertLoad all;
};

/// From the choices of each expert of a layer, and those that got a row (empty:
/// all). Of no choices at all every figure is 0.
ExpertLoad measureLoad(std::string layer, const std::vector<double> &choices,
                       const std::vector<double> &rows);

/// Reads what a step counted.
[[nodiscard]] kerf_status readExperts(kerf_session *session,
                                      const kerf_artifact *artifact,
                                      const std::vector<ExpertPort> &ports,
                                      std::optional<ExpertRecord> &record,
                                      kerf_error *error);

/// "expert load (max/mean): 1.31", "dropped rows: 0.40%".
std::vector<std::string> expertFields(const ExpertRecord &record);
/// `"expert_load": {"max": ..., "min": ..., "layers": [...]}`.
std::string formatExpertsJson(const ExpertRecord &record);

} // namespace kerf::runtime

#endif // KERF_TRAIN_EXPERTS_H
