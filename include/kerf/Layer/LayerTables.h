//===- LayerTables.h - what a layer costs under its best layouts ----------===//
//
// Between the layer solver and the outer search. For one kind of layer at one
// size of micro-batch on given inner axes: the few layouts and recomputation
// points worth knowing, as numbers.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LAYER_LAYERTABLES_H
#define KERF_LAYER_LAYERTABLES_H

#include "kerf/Machine/Machine.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kerf {

/// Axes inside a layer, over which the layer solver shards. `Tensor` may split
/// anything but the batch (so also the sequence and the experts); `Context` the
/// sequence everywhere; `Expert` the batch of dense ops and the experts of
/// others.
enum class InnerAxis { Tensor, Context, Expert };
constexpr int kInnerAxes = 3;
/// Their places in arrays that have an entry per axis.
constexpr int kInnerTensor = static_cast<int>(InnerAxis::Tensor);
constexpr int kInnerContext = static_cast<int>(InnerAxis::Context);
constexpr int kInnerExpert = static_cast<int>(InnerAxis::Expert);
/// In meshes and pins: "tp", "cp", "ep".
llvm::StringRef axisName(InnerAxis axis);

/// Seconds by what they are spent on; of one layer and micro-batch.
struct TimeParts {
  double matmulSec = 0, attentionSec = 0, rowSec = 0;
  double groupedSec = 0; ///< part of `matmulSec`: matmuls of routed tokens
  std::array<double, kInnerAxes> commSec = {}; ///< collectives of each axis
  /// Part of them that runs beside ops of the layer that need nothing of it:
  /// of the expert axis beside the expert that all tokens have and recomputed
  /// matmuls of the others, of the tensor axis beside matmuls of the backward
  /// pass.
  std::array<double, kInnerAxes> hiddenSec = {};
  double computeSec() const { return matmulSec + attentionSec + rowSec; }
  /// All collectives, as long as they take on their links.
  double linkSec() const { return commSec[0] + commSec[1] + commSec[2]; }
  /// Collectives that are waited for.
  double allCommSec() const {
    return linkSec() - (hiddenSec[0] + hiddenSec[1] + hiddenSec[2]);
  }
  TimeParts &operator+=(const TimeParts &other);
};

/// One layout and one recomputation point of a layer, per rank.
struct LayerPoint {
  TimeParts forward, backward, recompute; ///< recompute is part of no other
  double weightGradientSec = 0; ///< part of `backward` that can be deferred
  /// Collectives besides where it is: what is deferred brings values into the
  /// states that it needs by itself.
  std::array<double, kInnerAxes> deferredCommSec = {};
  /// And copies of the gradient that the next layer hands over, which waits.
  double deferredCopySec = 0;
  /// Part of `backward` that a larger workspace of the library would spare:
  /// gradients of attention that are too large for it are own kernels'. On more
  /// ranks they may not be.
  double workspaceSec = 0;
  /// Part of the backward's `hiddenSec` that only what can be deferred hides.
  std::array<double, kInnerAxes> deferredHiddenSec = {};
  double savedBytes = 0; ///< kept from forward to backward, per micro-batch
  double workBytes = 0;  ///< most that lives at once inside, saved ones aside
  double boundaryBytes = 0;         ///< handed to the next layer
  double boundaryGradientBytes = 0; ///< handed to the layer before
  /// Numbers of which data ranks share the largest: maxima of tensors that
  /// micro-batches split. Those of what is recomputed count backward.
  int forwardMaxima = 0, backwardMaxima = 0;
  int kernels = 0;      ///< launches, forward and backward
  int kernelsAgain = 0; ///< launches of what is recomputed
  /// Local elements of parameters by what they are replicated over: dense ones
  /// over data, context and expert ranks; experts over data and context only.
  /// Experts that all expert ranks hold whole are dense.
  double denseElements = 0, expertElements = 0;
  /// What matmuls of gradients take longer where they add to earlier
  /// micro-batches: all but the first.
  double addingSec = 0;
  /// Parameters of either kind; data ranks exchange each by itself. And of
  /// these, trained ones.
  int denseTensors = 0, expertTensors = 0;
  int denseTrained = 0, expertTrained = 0;
  /// Context ranks have all rows of the experts, so each makes their gradients
  /// whole: these are no sums over context ranks.
  bool expertsWhole = false;
  /// Of the dense ones: parameters that an earlier kind holds too (tied
  /// embeddings); on the same stage they count once.
  double sharedElements = 0;
  /// Of gradients that are sums over tensor ranks (norms, embeddings, what lies
  /// as it is made) and of matmuls in updates: once per step.
  double tensorSyncSec = 0;
  /// Matmuls in updates of parameters (`LayerParam::gramSteps`), once per
  /// step.
  double updateSec = 0;
  /// Of `tensorSyncSec`, what grows with bytes of sums that stay whole: where
  /// state is sharded over data ranks, tensor ranks sum the pieces alone.
  double denseSumSec = 0, expertSumSec = 0;
  /// Bytes per local element: weight as used, master, gradient, state; the mean
  /// where parameters differ (frozen ones, adapters).
  double weightBytes = 2, masterBytes = 4, gradientBytes = 4, stateBytes = 8;
  /// Bytes by which sums of gradients over micro-batches, which lie as ops make
  /// them, are larger than elements x gradientBytes. A sum over ranks that is
  /// still to be made is whole on each of them.
  double denseExcessBytes = 0, expertExcessBytes = 0;
  double trainedShare = 1;       ///< of the local elements: others are frozen
  double trainedWeightBytes = 2; ///< as `weightBytes`, of the trained alone
  bool exchangesRows = false;    ///< of experts, between ranks
  bool isSelective = false;      ///< attention is recomputed, and nothing else
  int layout = -1;               ///< number of the layout in its table
  int point = -1; ///< number of the recomputation point of that layout
  int list = -1;  ///< of ops to recompute, that a given plan has; -1: none
  std::string recomputed; ///< in words: "nothing", "all", "norms, swiglu"
  /// Of a message between stages, the mean of both ways.
  double messageBytes() const {
    return (boundaryBytes + boundaryGradientBytes) / 2;
  }
};

/// How two kinds have a parameter that both read (a tied embedding), by inner
/// axis: the state of the first and of the second (`AxisState`: above 0 where
/// it is sharded). Equal where it lies alike.
using TiedShards = std::array<std::pair<int32_t, int32_t>, kInnerAxes>;

/// What a table is made for.
struct TableKey {
  int kind = 0;
  int64_t microBatch = 1; ///< sequences per data rank (expert ranks inside)
  /// Groups of the inner axes; size 1 where there is none.
  std::array<Group, kInnerAxes> groups;
  auto operator<=>(const TableKey &) const = default;
};

/// Points, the fastest first; no point is both slower and larger than another
/// of the same layout. Empty: no layout is possible (sizes do not divide).
struct LayerTable {
  std::vector<LayerPoint> points;
  int layouts = 0;
};

/// What keeping fewer bytes costs at least: (bytes kept, seconds that making
/// the rest again takes) of a layer and micro-batch, bytes ascending, convex.
/// Fewer bytes than the first point's are not possible, more than the last
/// one's cost no less than it.
using KeptCurve = std::vector<std::pair<double, double>>;

/// What is known of a layer's parameters before its table is solved; per rank,
/// tied parameters that an earlier kind holds left out.
struct StateBound {
  double denseElements = 0, expertElements = 0; ///< at least; 0: unknown
  /// What holding fewer elements costs at least: (elements, dense and expert
  /// ones together; seconds of a micro-batch, forward and backward), elements
  /// ascending, convex.
  std::vector<std::pair<double, double>> seconds;
  double restSec = 0; ///< at least so much is no weight gradient
};

/// Where the outer search gets its tables. Solved once, then remembered.
class LayerTables {
public:
  virtual ~LayerTables() = default;
  /// A key of the same table: groups of other strides may cost the same.
  virtual TableKey alike(const TableKey &key) { return key; }
  virtual const LayerTable &get(const TableKey &key) = 0;
  /// Seconds, forward and backward, that no layout of this key can beat; cheap.
  virtual double lowerBoundSec(const TableKey &key) = 0;
  /// Bytes of saved activations that no layout of this key can go below; cheap.
  virtual double lowerBoundSavedBytes(const TableKey &key) = 0;
  /// A curve that all points of this key lie above, with the seconds of their
  /// `recompute`; cheap. By default nothing is known but the bytes.
  virtual KeptCurve lowerBoundKept(const TableKey &key) {
    return {{lowerBoundSavedBytes(key), 0}};
  }
  /// What no point of this key can go below in elements and seconds; cheap. By
  /// default nothing is known but the seconds.
  virtual StateBound lowerBoundState(const TableKey &key) {
    return {0, 0, {{0, lowerBoundSec(key)}}};
  }
  virtual int64_t solved() const = 0; ///< tables made so far
  /// Bytes besides that programs keep of a micro-batch where weight gradients
  /// are deferred, at least: gradients that these read. By default unknown.
  virtual double lowerBoundDeferredBytes(const TableKey &) { return 0; }
};

} // namespace kerf

#endif // KERF_LAYER_LAYERTABLES_H
