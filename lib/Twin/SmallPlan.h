//===- SmallPlan.h - the plan of a twin -----------------------------------===//

#ifndef KERF_LIB_TWIN_SMALLPLAN_H
#define KERF_LIB_TWIN_SMALLPLAN_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// A plan on few ranks, and the layers that it is for.
struct SmallPlan {
  PlanAttr plan; ///< null for more chunks than there are layers
  /// Layers of each forward repeat, in order.
  llvm::SmallVector<int64_t> layers;
  /// Decisions that it does not have as the plan does, for people.
  std::vector<std::string> differs;
};

/// The plan with each axis at the smallest prime factor of its size, at most
/// three stages, and as many micro-batches as make every function and slot
/// occur. `layers` are those of each forward repeat of the model.
///
/// Chunks of the pipeline stand for those of the plan: the first and the last,
/// and between them those with other layers than the ones before. A run of
/// layers becomes one layer, the first longer one two.
SmallPlan shrinkPlan(PlanAttr plan, llvm::ArrayRef<int64_t> layers);

} // namespace kerf

#endif // KERF_LIB_TWIN_SMALLPLAN_H
