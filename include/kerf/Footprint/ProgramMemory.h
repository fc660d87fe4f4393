//===- ProgramMemory.h - how large the programs of a plan are -------------===//
//
// The search reckons with sums over layers, fast and the same for all runtimes.
// A plan that is about to be written as programs of Kerf can be known better:
// its passes are simulated as the later stages write them down, with everything
// that lives for a while, workspaces of library calls and inputs.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_FOOTPRINT_PROGRAMMEMORY_H
#define KERF_FOOTPRINT_PROGRAMMEMORY_H

#include "kerf/Layer/LayerProblem.h"
#include "kerf/Search/Search.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>

namespace kerf {

/// The layout behind a point of a kind; null where nothing is known.
using LayoutOfPoint =
    llvm::function_ref<const LayerLayout *(int kind, const LayerPoint &)>;

/// Simulates plans; layers that were simulated before are remembered.
class ProgramMemory {
public:
  /// Of programs for the machine's target; on CPUs workspaces are made for
  /// `workers` threads. With `sumsEarly` gradients are summed over ranks in the
  /// last backward pass.
  ProgramMemory(LayerContext context, int64_t workers, bool sumsEarly = false);
  ~ProgramMemory();

  /// Bytes of the arena of each stage's program, by class at the time at which
  /// most lives: `temporaries` has workspaces, inputs and `transit`, too. Empty
  /// where a layout is not known.
  std::vector<StageMemory> of(const PlanPoint &plan, LayoutOfPoint layoutOf);

  /// Bytes that no program with a layer of this key can go below, whatever its
  /// layout: the largest workspace among its ops.
  double leastOf(const TableKey &key);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace kerf

#endif // KERF_FOOTPRINT_PROGRAMMEMORY_H
