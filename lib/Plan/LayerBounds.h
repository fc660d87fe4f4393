//===- LayerBounds.h - what no layout of a layer can go below -------------===//

#ifndef KERF_LIB_PLAN_LAYERBOUNDS_H
#define KERF_LIB_PLAN_LAYERBOUNDS_H

#include "LayerTerms.h"

namespace kerf {

/// Bounds of keys whose tables are not solved. They hold for every layout that
/// the filter allows, so for every point of a table.
class LayerBounds {
public:
  /// The arguments are borrowed; one of `facts` per kind of the step.
  LayerBounds(const LayerContext &context, const OptionFilter &filter,
              const std::vector<LayerFacts> &facts);

  /// Seconds of one micro-batch, forward and backward.
  double seconds(const TableKey &key);
  /// Bytes of saved activations.
  double savedBytes(const TableKey &key) const;
  /// Seconds of making again what is not saved.
  KeptCurve kept(const TableKey &key);
  /// Elements of parameters, and seconds by elements; unless `priced`, the
  /// seconds of any number of them, which is cheaper.
  StateFloor parameters(const TableKey &key, bool priced);

private:
  /// What no layout can beat, per whole batch on one device.
  struct Floor {
    double seconds = 0;    ///< forward and backward
    double inputBytes = 0; ///< of the layer's input
  };
  const LayerContext &context;
  const OptionFilter &filter;
  const std::vector<LayerFacts> &facts;
  std::vector<Floor> floors; ///< by kind
  /// All seconds, or those that are no weight gradient's.
  enum class Part { All, Rest };
  /// Seconds per sequence that no layout on one axis can beat: by part, kind,
  /// axis, group and shares.
  std::map<std::array<int64_t, 6>, double> idealSec;

  /// Of one sequence on one rank, by kind.
  std::map<int, KeptCurve> curves;

  /// V <= seconds + price x elements, of one sequence.
  struct Line {
    double price = 0, value = 0;
  };
  /// Parameters on a rank, lines of the tensor axis alone and of all axes.
  struct State {
    double denseElements = 0, expertElements = 0;
    std::vector<Line> lines;
  };
  std::map<std::array<int64_t, 7>, State> states; ///< by kind and groups
  /// By kind, group, what the context and expert axes cut besides, shares, and
  /// halves of what experts cost: `tensorLines`.
  std::map<std::array<int64_t, 7>, std::vector<Line>> tensors;
  /// By kind, group and shares: `expertLines`.
  std::map<std::array<int64_t, 4>, std::vector<Line>> experts;

  std::map<std::array<int64_t, 3>, int64_t> cuts; ///< `cutOf`

  Floor floorOf(int kind) const;
  int64_t cutOf(const TableKey &key, InnerAxis axis, IndexClass index);
  LayerKind weighted(const TableKey &key, double part) const;
  std::vector<Line> linesOf(int axis, Group group, const LayerKind &kind,
                            int number, int shares) const;
  static double valueAt(llvm::ArrayRef<Line> lines, double price);
  const std::vector<Line> &tensorLines(const TableKey &key, int shares,
                                       double part);
  const std::vector<Line> &expertLines(const TableKey &key, int shares);
  std::vector<Line> together(const TableKey &key, const State &state);
  KeptCurve curveOf(int kind) const;
  LayerQuery idealQuery(int kind, int axis, Group group) const;
  double ideal(Part part, int kind, int axis, Group group, int shares);
  double bound(Part part, const TableKey &key);
};

} // namespace kerf

#endif // KERF_LIB_PLAN_LAYERBOUNDS_H
