//===- RuntimeCosts.h - what published runtimes do to a layer -------------===//
//
// The planner costs a layer as its own programs run it. Published runtimes keep
// dropout masks and scores, make whole layers again, compute norms and losses
// in several kernels. What of that is in no profile is added here, from what a
// row says about itself; a switch per effect, each with its source.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_RUNTIMECOSTS_H
#define KERF_TEST_COST_VALIDATION_RUNTIMECOSTS_H

#include "Rows.h"

#include "kerf/Layer/LayerProblem.h"

namespace kerf::validate {

/// What a run recomputes in the backward pass.
enum class Again {
  Nothing,
  Attention,  ///< Megatron's "selective": the core of attention
  EveryOther, ///< torchtitan's "op": every other matmul, and all row kernels
  HalfLayers, ///< torchtitan's "layer": every other layer
  All,        ///< the whole layer, also what nobody reads
};
Again againOf(const Row &row);

/// A kind of layer of a row in its layout.
struct LayerCase {
  const LayerContext &context;
  const Row &row;
  const TableKey &key;
  const LayerLayout &layout;
};

/// Changes the planner's costs of a layer to those of the row's runtime.
void addRuntimeCosts(const LayerCase &layer, LayerPoint &point);

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_RUNTIMECOSTS_H
