//===- LayerGraph.h - one axis of a layer as a factor graph ---------------===//

#ifndef KERF_LIB_PLAN_LAYERGRAPH_H
#define KERF_LIB_PLAN_LAYERGRAPH_H

#include "LayerTerms.h"

namespace kerf {

/// A variable whose states are axis states.
struct StateVariable {
  int variable = -1;
  std::vector<AxisState> states;
  /// Of kept values: made again in this state, not kept (`states` has the
  /// state).
  std::vector<bool> again;
};

/// The graph of one axis, and what its variables mean.
struct LayerGraph {
  FactorGraph graph;
  int axis = 0;
  std::vector<int> opVariables;
  std::vector<std::vector<OpOption>> options;
  StateVariable input, outputGradient;
  std::vector<StateVariable> sharedForward, sharedBackward, kept;
  std::vector<StateVariable> weights, gradients, optimizers;
  bool possible = true; ///< every op has an option

  AxisLayout decode(llvm::ArrayRef<int> states) const;
};

/// Builds the graph of an axis, the others fixed as in `layout`.
LayerGraph buildLayerGraph(const LayerTerms &terms, int axis,
                           const LayerLayout &layout);

/// Smallest price of a byte, so that of equal layouts the smaller is taken.
constexpr double kLeastPrice = 1e-17;

} // namespace kerf

#endif // KERF_LIB_PLAN_LAYERGRAPH_H
