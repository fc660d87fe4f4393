//===- SearchBounds.h - what no plan of a shape can go below --------------===//

#ifndef KERF_LIB_SEARCH_SEARCHBOUNDS_H
#define KERF_LIB_SEARCH_SEARCHBOUNDS_H

#include "SearchDetail.h"

#include <cmath>
#include <map>

namespace kerf::search_detail {

/// Bounds before any table is solved: every open decision at its best case,
/// each group where its links carry most. Times and bytes of layers are
/// remembered by degrees.
class ShapeBounds {
public:
  ShapeBounds(const SearchProblem &problem, GroupMemo &memo);
  /// By the closed form.
  LowerBound boundOf(const Shape &shape);
  double secondsOf(const Shape &shape) { return boundOf(shape).sec; }
  /// The same for one order of the axes.
  double secondsOf(const Shape &shape, const std::vector<MeshAxis> &order);
  /// What a shape (with an order of its axes) will probably take: the layers'
  /// tables of one rank, divided evenly, with Megatron's collectives. No bound:
  /// it decides what is looked at first.
  double estimateOf(const Shape &shape, const std::vector<MeshAxis> &order);
  /// Whether the layers could fit the stages, all else aside.
  bool mayFit(const Shape &shape);
  /// Bytes that the most loaded rank needs at least.
  double bytesOf(const Shape &shape);
  /// The same by what layers keep and hold alone, whatever programs need.
  double layerBytesOf(const Shape &shape);
  /// Elements and bytes per element of a kind, as the points of its tables have
  /// them.
  KindSize sizeOf(int kind) const;
  /// Of all layers, one sequence on one rank: seconds besides weight gradients,
  /// at least.
  double restSec() const { return otherSec; }
  /// The least boundary of a layer, one sequence on one rank: bytes.
  double leastBoundary() const { return boundaryBytes; }

private:
  struct Layers {
    double sec = 0;          ///< of all of them, one micro-batch
    double layerSec = 0;     ///< least of one
    double savedBytes = 0;   ///< least of one
    double programBytes = 0; ///< least of a program with any of them
  };
  const SearchProblem &problem;
  GroupMemo &memo;
  llvm::DenseMap<uint64_t, Layers> known;

  /// The fastest point of each kind for one sequence on one rank; absent where
  /// there is none.
  std::vector<std::optional<LayerPoint>> alone;
  /// Of all layers alone, one sequence: their weight gradients. The least
  /// boundary of a layer; a message on the fastest links.
  double weightSec = 0, boundaryBytes = HUGE_VAL, otherSec = 0;
  AlphaBeta message;
  /// Per sequence, by kind, ranks of experts, sequences of a micro-batch and
  /// whether no other ranks share the layer: seconds of its kernels.
  std::map<std::tuple<int, int64_t, int64_t, bool>, double> pooled;

  /// By size: the groups of which none has links that carry more of all kinds
  /// of collectives.
  std::map<int64_t, llvm::SmallVector<Group, 1>> fastest;

  llvm::ArrayRef<Group> fastestGroups(int64_t size);
  double layerSecOf(TableKey key, const Shape &shape);
  const Layers &layersOfShape(const Shape &shape);
  double kernelsEstimate(const OuterChoice &outer, int kind);
  double layerEstimate(const OuterChoice &outer, int kind);
  bool wants(ScheduleKind kind) const;
  double scheduleSec(const Shape &shape, double slowestSec, double sumSec,
                     double tailSec) const;
  double scheduleEstimate(const Shape &shape, const OuterChoice &outer,
                          double slowestSec, double sumSec) const;
  double stateOf(const Shape &shape, int kind) const;
  double trafficSec(const Shape &shape);
  double dataEstimate(const OuterChoice &outer);
  /// All layers take `sumSec`, one at least `layerSec`, the mean stage at the
  /// end `tailSec`.
  LowerBound pipelineBound(const Shape &shape, double sumSec, double layerSec,
                           double tailSec) const;
};

} // namespace kerf::search_detail

#endif // KERF_LIB_SEARCH_SEARCHBOUNDS_H
