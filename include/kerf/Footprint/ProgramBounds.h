//===- ProgramBounds.h - what programs need at least, by layer ------------===//
//
// `ProgramMemory` simulates a whole stage. The search asks the other way round:
// which layers can a stage have at all? Sums of these bytes are never above
// what is simulated, so they may prune and bound what was not simulated.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_FOOTPRINT_PROGRAMBOUNDS_H
#define KERF_FOOTPRINT_PROGRAMBOUNDS_H

#include "kerf/Layer/LayerProblem.h"
#include "kerf/Search/Search.h"

#include <memory>

namespace kerf {

/// Points of a kind and the layouts behind them, in the same order.
struct KindPoints {
  int kind = 0;
  TableKey key; ///< of the table that the points are of
  std::vector<const LayerPoint *> points;
  std::vector<const LayerLayout *> layouts;
};

/// Least bytes of layers; what was asked before is remembered.
class ProgramBounds {
public:
  /// As of `ProgramMemory`.
  ProgramBounds(LayerContext context, int64_t workers);
  ~ProgramBounds();

  /// By kind (empty for others) and point: bytes that a program cannot go
  /// below; see `LayerBytes`. `kinds`: all that a plan has, with every point
  /// that it may take. Without `withWork` nothing is simulated, and `work` is
  /// 0.
  std::vector<std::vector<LayerBytes>> of(const OuterChoice &outer,
                                          llvm::ArrayRef<KindPoints> kinds,
                                          bool withWork = true);

private:
  struct State;
  class Asker;
  std::unique_ptr<State> state;
};

} // namespace kerf

#endif // KERF_FOOTPRINT_PROGRAMBOUNDS_H
