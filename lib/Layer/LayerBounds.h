//===- LayerBounds.h - what no layout of a layer can go below -------------===//

#ifndef KERF_LIB_LAYER_LAYERBOUNDS_H
#define KERF_LIB_LAYER_LAYERBOUNDS_H

#include "kerf/Layer/LayerTerms.h"

namespace kerf {

/// The best rate of matmuls is taken at a large shape, where the last wave of
/// tiles is not full: up to 148 of 524288 / 148 waves' tiles may be missing. No
/// shape is faster than this makes it.
constexpr double kBestRate = 1 - 3e-4;

/// Seconds of a solution without what rounding its tables to picoseconds may
/// have added: up to a half each, and an op has a few.
inline double leastSecOf(const LayerSolution &solution, const LayerKind &kind) {
  constexpr double kTablesOfAnOp = 8;
  double rounded = kTablesOfAnOp / 2 * double(kind.ops.size());
  return std::max(0.0, double(solution.picoseconds) - rounded) * 1e-12;
}

/// The kind with ops beside routed tokens that take no time. Collectives hide
/// beside these alone, for no longer than they last, so no layout takes less
/// than its other ops and all its collectives.
LayerKind withoutBeside(LayerKind kind, const LayerFacts &facts);

/// Seconds of a micro-batch for a second per sequence of an axis alone.
double scaleOf(const TableKey &key, int axis);
/// Axes of more than one rank.
llvm::SmallVector<int, 3> axesOf(const TableKey &key);

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
  /// Bytes of gradients that weight gradients read: where these are deferred,
  /// programs keep them besides what is saved.
  double deferredBytes(const TableKey &key);
  /// Elements of parameters, and seconds by elements; unless `priced`, the
  /// seconds of any number of them, which is cheaper.
  StateBound parameters(const TableKey &key, bool priced);

  /// value <= seconds + price x elements, of one sequence.
  struct Line {
    double price = 0, value = 0;
  };

private:
  /// What no layout can beat, per whole batch on one device.
  struct Bound {
    double seconds = 0;    ///< forward and backward
    double inputBytes = 0; ///< of the layer's input
  };
  const LayerContext &context;
  const OptionFilter &filter;
  const std::vector<LayerFacts> &facts;
  std::vector<Bound> bounds; ///< by kind
  /// All seconds, or those that are no weight gradient's.
  enum class Part { All, Rest };
  /// Seconds per sequence that no layout on one axis can beat: by part, kind,
  /// axis, group and shares.
  std::map<std::array<int64_t, 6>, double> idealSec;

  /// Of one sequence on one rank, by kind and whether rows travel to experts.
  std::map<std::pair<int, bool>, KeptCurve> curves;
  std::map<int, double> deferred; ///< of the whole batch, by kind

  /// Parameters on a rank, lines of the tensor axis alone and of all axes.
  struct State {
    double denseElements = 0, expertElements = 0;
    std::vector<Line> lines;
  };
  /// By kind and groups.
  std::map<std::array<int64_t, 7>, State> states;
  /// By kind, group and shares, and what an element of each parameter costs:
  /// `tensorLines`.
  std::map<std::pair<std::array<int64_t, 4>, std::vector<double>>,
           std::vector<Line>>
      tensors;
  /// By kind, group and shares: `expertLines`.
  std::map<std::array<int64_t, 4>, std::vector<Line>> experts;

  /// What the shapes of matmuls cost at least beyond the best rate, seconds.
  struct Shapes {
    double allSec = 0;
    double restSec = 0; ///< of matmuls that are no weight gradient's
  };
  /// By kind, micro-batch and ranks of each axis.
  std::map<std::array<int64_t, 5>, Shapes> shapes;

  Bound boundOf(int kind) const;
  std::vector<double> weightsOf(const TableKey &key, double part) const;
  LayerKind weighted(int number, llvm::ArrayRef<double> weights) const;
  std::vector<Line> linesOf(int axis, Group group, const LayerKind &kind,
                            int number, int shares) const;
  static double valueAt(llvm::ArrayRef<Line> lines, double price);
  const std::vector<Line> &tensorLines(const TableKey &key, int shares,
                                       double part);
  const std::vector<Line> &expertLines(const TableKey &key, int shares);
  std::vector<Line> together(const TableKey &key, const State &state);
  double contextSec(const TableKey &key);
  State &stateOf(const TableKey &key, bool priced);
  KeptCurve curveOf(int kind, bool travels) const;
  const Shapes &shapesOf(const TableKey &key);
  LayerQuery idealQuery(int kind, int axis, Group group) const;
  double ideal(Part part, int kind, int axis, Group group, int shares);
  double bound(Part part, const TableKey &key);
};

} // namespace kerf

#endif // KERF_LIB_LAYER_LAYERBOUNDS_H
