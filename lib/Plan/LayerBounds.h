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
  /// Elements of parameters, and seconds by elements.
  StateFloor parameters(const TableKey &key);

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
  /// Seconds per sequence that no layout on one axis can beat.
  std::map<std::tuple<int, int, int64_t, int64_t>, double> idealSec;

  /// Of one sequence on one rank, by kind.
  std::map<int, KeptCurve> curves;

  /// V <= seconds + price x elements, of one sequence.
  struct Line {
    double price = 0, value = 0;
  };
  /// Parameters on a rank and lines of the tensor axis alone.
  struct Tensor {
    double denseElements = 0, expertElements = 0;
    std::vector<Line> lines;
  };
  /// By kind, group, and what the context and expert axes cut besides.
  std::map<std::array<int64_t, 5>, Tensor> tensors;

  std::map<std::array<int64_t, 3>, int64_t> cuts; ///< `cutOf`

  Floor floorOf(int kind) const;
  int64_t cutOf(const TableKey &key, InnerAxis axis, IndexClass index);
  LayerKind weighted(const TableKey &key) const;
  std::vector<Line> linesOf(const TableKey &key, const LayerKind &kind) const;
  KeptCurve curveOf(int kind) const;
  LayerQuery idealQuery(int kind, int axis, Group group) const;
  double ideal(int kind, int axis, Group group);
};

} // namespace kerf

#endif // KERF_LIB_PLAN_LAYERBOUNDS_H
