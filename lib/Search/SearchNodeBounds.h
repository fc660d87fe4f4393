//===- SearchNodeBounds.h - what no plan of a node can go below -----------===//

#ifndef KERF_LIB_SEARCH_SEARCHNODEBOUNDS_H
#define KERF_LIB_SEARCH_SEARCHNODEBOUNDS_H

#include "SearchBounds.h"

namespace kerf::search_detail {

/// Bounds of nodes whose tables are not solved, memory included.
class NodeBounds {
public:
  NodeBounds(const SearchProblem &problem, GroupMemo &memo, ShapeBounds &layers)
      : problem(problem), memo(memo), layers(layers) {}
  /// Seconds that no candidate plan of a node can go below; infinite
  /// when none fits. From `enough` on any smaller bound may come back, though
  /// not below `enough`.
  double secondsOf(const OuterChoice &node, double enough);
  /// The same of one candidate plan whose tables are solved: what its layouts'
  /// points can not go below, memory included.
  double secondsOf(const OuterChoice &outer, const TableList &tables,
                   const LayoutChoice &layouts);

private:
  /// Seconds by bytes, convex: from the fewest bytes that are possible, slower,
  /// to the most that help, fastest.
  struct Curve {
    llvm::SmallVector<std::pair<double, double>, 18> points;
    double fewest() const { return points.front().first; }
    double fastest() const { return points.back().second; }
    double at(double bytes) const;
  };
  /// The best-case layer of a kind under one way to shard state. A micro-batch
  /// takes max(seconds by state + what is recomputed, linkSec).
  struct Bound {
    Curve state; ///< seconds by bytes of state
    Curve kept;  ///< seconds recomputed by bytes kept of a micro-batch
    double linkSec = 0, bufferBytes = 0;
    /// Bytes that are kept besides where weight gradients are deferred.
    double deferredBytes = 0;
    /// Seconds per step that a byte of state beyond the fewest costs besides.
    double onceSec = 0;
    double least() const {
      return std::max(state.fastest() + kept.fastest(), linkSec);
    }
    double each(const OuterChoice &outer, double held) const;
    Curve together(const OuterChoice &outer, double held) const;
  };
  /// What the tables know of a kind before they are solved.
  struct Known {
    StateBound state;
    KeptCurve kept;
    double least = 0; ///< seconds
    KindSize size;
    double deferredBytes = 0;
    int gathers = 2; ///< of weights that are sharded, per micro-batch
  };
  /// All layers under one outer choice but the schedule.
  struct Relaxed {
    /// Of unlike layers the kind that takes most, and how many it has; the
    /// others need neither room nor, but for `sumSec`, time.
    Bound layer;
    int64_t layers = 0;
    /// Other layers in front of these and behind them (`besidesOf`).
    int64_t before = 0, behind = 0;
    Bound first, last;
    double sumSec = 0;  ///< of all layers, the first and the last kind too
    double restSec = 0; ///< of these, what is no weight gradient
    /// Of data traffic and the update on the first stage: the embedding alone,
    /// and with as many layers as the mean stage has.
    double firstOnceSec = 0, onceSec = 0;
    std::vector<double> sendSec; ///< as in `StepWork`
    int64_t allLayers = 0;       ///< of all kinds
    /// Of the slowest kind at its fastest; of any.
    double slowLayerSec = 0, fastLayerSec = HUGE_VAL;
    /// What fast layers cost on top per step, over the mean of the stages: more
    /// state to keep up.
    double extraSec = 0;
  };
  const SearchProblem &problem;
  GroupMemo &memo;
  ShapeBounds &layers;
  std::map<Pipelining, std::vector<double>> knownHeld; ///< `heldOf`
  /// Micro-batches that each chunk of each stage holds more of than the one
  /// that is held least, where programs have slots.
  std::map<Pipelining, std::vector<std::vector<double>>> knownMore;
  /// Layers of a stage: their curve, and what the stage has besides.
  struct Stage {
    Curve layer;
    double bytes = 0, sec = 0;
    int64_t own = 0; ///< layers that it surely has
  };
  std::vector<Stage> stages; ///< of `slowestSec`

  double cheapest(const Groups &groups, double bytes, double calls,
                  bool allReduce);
  double leastBeta(const Groups &groups, bool allReduce);
  double onceEach(const Pricing &pricing, const KindSize &size, bool isExpert);
  Known knownOf(const OuterChoice &node, int kind);
  Known knownOf(int kind, const LayerTable &table, int layout) const;
  Bound boundOf(const Pricing &pricing, const Known &known, LayerPrice &once);
  Relaxed relax(const Pricing &pricing, llvm::ArrayRef<Known> known);
  double onceSec(const Pricing &pricing, const LayerPrice &sum);
  llvm::ArrayRef<double> heldOf(const OuterChoice &outer);
  void holdSlots(const OuterChoice &outer, std::vector<double> &held);
  static void keepToPrograms(Relaxed &relaxed);
  void fillChunks(const OuterChoice &outer, const Relaxed &relaxed);
  bool mayFit(const OuterChoice &outer, const Relaxed &relaxed,
              llvm::ArrayRef<double> held);
  double slowestSec(const OuterChoice &outer, const Relaxed &relaxed,
                    double limit);
  PipelineFacts factsOf(const OuterChoice &outer, const Relaxed &relaxed) const;
  double stepSec(const PipelineFacts &facts, const Relaxed &relaxed,
                 double slowest) const;
  double candidateSec(const OuterChoice &outer, const Relaxed &relaxed,
                      double enough);
};

} // namespace kerf::search_detail

#endif // KERF_LIB_SEARCH_SEARCHNODEBOUNDS_H
