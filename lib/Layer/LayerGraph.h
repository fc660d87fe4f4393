//===- LayerGraph.h - one axis of a layer as a factor graph ---------------===//

#ifndef KERF_LIB_LAYER_LAYERGRAPH_H
#define KERF_LIB_LAYER_LAYERGRAPH_H

#include "kerf/Layer/LayerTerms.h"

namespace kerf {

/// A variable whose states are axis states.
struct StateVariable {
  int variable = -1;
  std::vector<AxisState> states;
  /// Of kept values: recomputed in this state, not kept (`states` has the
  /// state).
  std::vector<bool> again;
};

/// What else scales a table of traffic: the state, on the other axes, of a
/// value as it is made or of a parameter's weight. Neither: nothing does, or
/// the table is one of compute or memory.
struct TableSubject {
  int value = -1, param = -1;
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
  std::vector<TableSubject> subjects; ///< of the graph's tables
  bool possible = true;               ///< every op has an option

  AxisLayout decode(llvm::ArrayRef<int> states) const;
};

/// Builds the graph of an axis, the others fixed as in `layout`; of all bytes
/// that travel only `share` counts.
LayerGraph buildLayerGraph(const LayerTerms &terms, int axis,
                           const LayerLayout &layout, double share = 1);

/// Two axes at once: every variable is a pair of theirs. Without recomputation
/// and state that is stored apart.
class PairGraph {
public:
  PairGraph(const LayerTerms &terms, int first, int second);
  FactorGraph graph;
  bool possible = true;
  LayerLayout decode(llvm::ArrayRef<int> states) const;

private:
  using Pair = std::pair<int, int>;
  const LayerTerms &terms;
  std::array<int, 2> axes;
  std::array<LayerGraph, 2> sides;
  /// The graphs of the two axes where the other one shards what travels.
  std::array<LayerGraph, 2> shardedSides;
  /// Per variable the variables of the axes (-1: none) and its states.
  std::vector<Pair> variables;
  std::vector<std::vector<Pair>> states;
  std::array<std::vector<int>, 2> numbers; ///< by variable of a side

  void addVariables();
  void addPair(int first, int second, std::vector<Pair> allowed);
  std::vector<std::vector<Pair>> allowedOptions() const;
  void addOps();
  void addMemory();
  void addExcess(int param);
  void addTraffic(int side);
  int stateOf(int side, int number, int state) const;
};

/// Smallest price of a byte, so that of equal layouts the smaller is taken.
constexpr double kLeastPrice = 1e-17;
/// The same for a query; what is found for a bound has none.
inline double leastPrice(const LayerQuery &query) {
  return query.ideal ? 0 : kLeastPrice;
}

} // namespace kerf

#endif // KERF_LIB_LAYER_LAYERGRAPH_H
