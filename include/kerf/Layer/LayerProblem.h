//===- LayerProblem.h - how ops of one layer are split on an axis ---------===//
//
// Problem: ops of a differentiated layer, one mesh axis of n ranks; every op
// takes a factor to split (or none), every value follows, and values that do
// not lie as their readers need them are converted by collectives. Find the
// options of ops, the reshards that several readers share, the state in which
// values are kept for the backward pass (or that they are recomputed), and
// where weight, gradient and optimizer state are stored, with the least time
// plus price x bytes.
//
// Idea: all of these are variables with a handful of states, all costs are
// tables over two or three of them, so exact elimination solves it
// (FactorGraph.h). Several axes: one after the other, the rest fixed
// (coordinate descent).
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LAYER_LAYERPROBLEM_H
#define KERF_LAYER_LAYERPROBLEM_H

#include "kerf/Cost/Collectives.h"
#include "kerf/Cost/Profile.h"
#include "kerf/FactorGraph/FactorGraph.h"
#include "kerf/Layer/LayerTables.h"
#include "kerf/Step/LayerModel.h"

#include <functional>
#include <memory>

namespace kerf {

/// Where a tensor is over one axis: one of the numbers below, or `splitAt`.
using AxisState = int32_t;
constexpr AxisState kReplicated = 0;
constexpr AxisState kNotKept = -1;    ///< of a forward value: dropped
constexpr AxisState kRecomputed = -2; ///< recomputed in the backward pass
constexpr AxisState kPending = -3;    ///< a sum still to be made
/// Dimension `dim` is sharded. With `outer` > 1 it is outer x n x inner and n
/// is split: every rank has a part of each of `outer` blocks (the three thirds
/// of a fused query-key-value matmul).
inline AxisState splitAt(int dim, int64_t outer = 1) {
  return static_cast<AxisState>(1 + dim + 16 * (outer - 1));
}
inline bool isSplit(AxisState state) { return state > 0; }
inline int splitDim(AxisState state) { return (state - 1) % 16; }
inline int64_t splitOuter(AxisState state) { return (state - 1) / 16 + 1; }
/// In place of a number of blocks: rows lie with the owners that data gives
/// them (`FactorMap::ragged`). Each rank has room for all of them, its own
/// first, and nothing converts them or makes them.
constexpr int64_t kRaggedOuter = int64_t(1) << 20;
/// The same for rows that were exchanged: there is room for as many as the step
/// says (`StepModel::moeBuffer`).
constexpr int64_t kExchangedOuter = kRaggedOuter + 1;
inline bool isExchanged(AxisState state) {
  return isSplit(state) && splitOuter(state) == kExchangedOuter;
}
inline bool isRagged(AxisState state) {
  return isSplit(state) && splitOuter(state) >= kRaggedOuter;
}
/// True for a state in which layers hand values on as they make them: what the
/// first of them is given is converted once, not what each of them makes
/// (`staysAsMade` of lib/Dialect/Kerf/PlanModel.cpp).
inline bool isHandedOn(AxisState state) {
  return state != kPending && !isRagged(state);
}

/// One way to work on an axis.
struct OpOption {
  int factor = -1;   ///< that is split; -1: none
  int64_t outer = 1; ///< blocks of that factor that are split each (`splitAt`);
                     ///< kRaggedOuter, kExchangedOuter: parts as long as
                     ///< data says
  int passes = -1;   ///< operand whose pending sum passes through; -1: none
  int variant = -1;  ///< with communication of its own (ring attention)
  llvm::SmallVector<AxisState, 4> operands; ///< as they are needed
  llvm::SmallVector<AxisState, 2> results;  ///< as they come
};

/// What all ops and values of a layer do on one axis.
struct AxisLayout {
  std::vector<OpOption> ops; ///< one per op of the kind
  /// Per value: the state that forward (backward) readers share; -1 none.
  std::vector<AxisState> sharedForward, sharedBackward;
  /// Per forward value: the state in which it is kept, kNotKept or kRecomputed.
  std::vector<AxisState> kept;
  struct Rest {
    AxisState weight = kReplicated, gradient = kReplicated,
              optimizer = kReplicated;
  };
  std::vector<Rest> params;
  AxisState input = kReplicated, outputGradient = kReplicated; ///< boundaries
};

/// A whole layout: one per inner axis (empty where the axis has one rank).
struct LayerLayout {
  std::array<AxisLayout, kInnerAxes> axes;
};

/// How two layouts have a parameter that is number `p` of one and `q` of the
/// other.
TiedShards shardsOf(const LayerLayout &first, size_t p,
                    const LayerLayout &second, size_t q);
/// The same of the parameter that both kinds read, the second as `shared`; all
/// alike if there is none.
TiedShards tiedShards(const LayerKind &firstKind, const LayerLayout &first,
                      const LayerKind &secondKind, const LayerLayout &second);

/// What a rule says of an op on an axis: true for options that are allowed.
using OptionFilter =
    std::function<bool(const LayerOp &, InnerAxis, const OpOption &)>;

/// What both filters allow; an empty one allows everything.
OptionFilter allOf(OptionFilter a, OptionFilter b);

/// Whether the ranks of an option's axis pass parts round: its variant's
/// factors are all split by the same axes.
bool isRing(const LayerOp &op, const OpOption &option);

/// Whether ranks of the expert axis hold all experts in an op that routes rows
/// to them.
bool holdsAllExperts(const LayerOp &op, InnerAxis axis, const OpOption &option);

/// How a layer is to be solved.
struct LayerQuery {
  TableKey key;
  int64_t microBatches = 1; ///< over which costs once per step are spread
  double keptPrice = 0;     ///< seconds per byte kept from forward to backward
  double statePrice = 0;    ///< seconds per byte of weights, gradients, state
  /// Whether `statePrice` counts gradients as ops make them, not as the weights
  /// rest: between micro-batches a sum over ranks is whole on each of them.
  bool gradientsAsMade = true;
  double commWeight = 1;  ///< multiplier of communication (overlap)
  bool recompute = false; ///< values may be recomputed
  bool restFree = true;   ///< weight, gradient, optimizer state may be sharded
  bool anyFactor = false; ///< the tensor axis may split the batch too
  /// Matmuls at the best rate, messages without latency: what is found is a
  /// lower bound, linear in the micro-batch.
  bool ideal = false;
  OptionFilter filter; ///< pins; empty: everything
  /// Boundary states that neighbours ask for, on each axis; -1: free.
  std::array<AxisState, kInnerAxes> input = {-1, -1, -1};
  std::array<AxisState, kInnerAxes> outputGradient = {-1, -1, -1};
  int64_t budget = int64_t(1) << 26; ///< table entries per solve
};

/// Costs of a layout, all terms apart; recomputed from the layout alone, so
/// that it judges the solver.
struct LayerCost {
  LayerPoint point;
  double objective = 0; ///< what the solver minimises, in seconds
};

/// A value of one micro-batch that a rank has in memory.
struct LayerBuffer {
  int value = 0;                       ///< of the kind
  llvm::SmallVector<int64_t, 4> shape; ///< on the rank
  double bytes = 0;
  unsigned whole = 0; ///< bit a: each rank of inner axis a has all of it
};

/// A collective that is in the price of a layout.
struct LayerCollective {
  InnerAxis axis = InnerAxis::Tensor; ///< whose time it is
  unsigned others = 0; ///< bit a: ranks of inner axis a take part, too
  CollectiveKind kind = CollectiveKind::AllReduce;
  double bytes = 0; ///< as in kerf/Cost/Collectives.h
  double sec = 0;   ///< with copies that put rows in order
  /// Of a gradient's sum, which pieces of state alone need
  /// (`LayerPoint::denseSumSec`): what grows with bytes; else 0.
  double pieceSec = 0;
  bool ofExperts = false;    ///< that gradient
  bool perStep = false;      ///< else of every micro-batch
  bool whenDeferred = false; ///< of schedules that defer weight gradients alone
  int64_t times = 1; ///< one after the other: bytes of each, seconds of all
};

struct LayerSolution {
  LayerLayout layout;
  LayerCost cost;
  int64_t picoseconds =
      kInfiniteCost; ///< the solver's optimum, last axis solved
  int width = 0;
  int64_t largestTable = 0, work = 0;
  int variables = 0, states = 0;
  bool possible() const { return picoseconds < kInfiniteCost; }
};

/// What layer costs depend on besides the layer.
struct LayerContext {
  const StepModel *step = nullptr;
  const Machine *machine = nullptr;
  Profile profile;
};

/// The graph of one axis, the others fixed as in `layout`, as text for other
/// solvers (FactorGraph::print).
std::string printLayerGraph(const LayerContext &context,
                            const LayerQuery &query, InnerAxis axis,
                            const LayerLayout &layout);

LayerSolution solveLayer(const LayerContext &context, const LayerQuery &query);

/// Two axes of a layer at once.
struct PairSolution {
  LayerSolution solution; ///< the best that was found
  int64_t bound = 0;      ///< picoseconds that no layout can beat
  bool proven() const { return bound >= solution.picoseconds; }
};

/// The best layout on two axes at once, with a proven bound: as good as the
/// budget allows, which is for small layers; judges `solveLayer`. Without
/// recomputation and state that is stored apart.
PairSolution solvePair(const LayerContext &context, const LayerQuery &query,
                       InnerAxis first, InnerAxis second);

LayerCost costOf(const LayerContext &context, const LayerQuery &query,
                 const LayerLayout &layout);

/// What is known of each kind of layer of a step whatever its layout, opaque.
class LayerFacts;
using StepFacts = std::vector<LayerFacts>;
std::shared_ptr<const StepFacts> stepFactsOf(const StepModel &step);
/// The same for who asks often of one step: finding facts takes longer.
LayerCost costOf(const LayerContext &context, const LayerQuery &query,
                 const LayerLayout &layout, const StepFacts &facts);

/// The recomputation points of a layout: from nothing recomputed to everything
/// but the layer's input, the lower convex hull of (time, kept bytes).
std::vector<std::pair<LayerLayout, LayerCost>>
recomputationPoints(const LayerContext &context, const LayerQuery &query,
                    const LayerLayout &layout);

/// Tables for the outer search, with the layouts behind their points. With
/// `given`, options of a plan: only layouts of these. Those that are found
/// without it are taken where they are such: states that no option says (what
/// is kept, which reshards are shared) are then those of the search that made
/// the plan.
class SolvedTables : public LayerTables {
public:
  SolvedTables(LayerContext context, OptionFilter filter = {},
               OptionFilter given = {});
  ~SolvedTables() override;
  /// Tables that are solved from now on have, for each layout, a point that
  /// recomputes attention and nothing else (`LayerPoint::isSelective`), near
  /// the hull of the others or not: what the pin `recompute=selective` means
  /// may not depend on the machine.
  void offerSelective();
  TableKey alike(const TableKey &key) override;
  const LayerTable &get(const TableKey &key) override;
  double lowerBoundSec(const TableKey &key) override;
  double lowerBoundSavedBytes(const TableKey &key) override;
  KeptCurve lowerBoundKept(const TableKey &key) override;
  double lowerBoundDeferredBytes(const TableKey &key) override;
  StateBound lowerBoundState(const TableKey &key) override;
  int64_t solved() const override;
  /// The layout of a point of `get(key)`.
  const LayerLayout &layoutOf(const TableKey &key, const LayerPoint &point);
  /// The point of the layout of a point of `get(key)` that makes the forward
  /// ops of these numbers again and no others; `layoutOf` knows it, too.
  LayerPoint recomputing(const TableKey &key, const LayerPoint &point,
                         llvm::ArrayRef<int64_t> numbers);

  /// The collectives of a point of `get(key)`: their seconds are those of its
  /// parts (`TimeParts::commSec`) and its `tensorSyncSec`.
  std::vector<LayerCollective> collectivesOf(const TableKey &key,
                                             const LayerPoint &point);

  /// The `count` largest values of a point of `get(key)`, the largest first.
  std::vector<LayerBuffer> buffersOf(const TableKey &key,
                                     const LayerPoint &point, size_t count);

private:
  struct State;
  std::unique_ptr<State> state;
};

/// One line per op: what is sharded, in the field's words where there are some.
std::string printLayout(const LayerKind &kind, const LayerLayout &layout);

} // namespace kerf

#endif // KERF_LAYER_LAYERPROBLEM_H
