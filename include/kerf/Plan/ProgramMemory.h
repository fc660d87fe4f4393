//===- ProgramMemory.h - how large the programs of a plan are -------------===//
//
// The search reckons with sums over layers, fast and the same for all runtimes.
// A plan that is about to be written as programs of Kerf can be known better:
// its passes are played as the later stages write them down, with everything
// that lives for a while, workspaces of library calls and inputs.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_PLAN_PROGRAMMEMORY_H
#define KERF_PLAN_PROGRAMMEMORY_H

#include "kerf/Plan/LayerProblem.h"
#include "kerf/Plan/Search.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace kerf {

/// The layout behind a point of a kind; null where nothing is known.
using LayoutOfPoint =
    llvm::function_ref<const LayerLayout *(int kind, const LayerPoint &)>;

/// Bytes of the arena of each stage's program for CPUs, by class at the time at
/// which most lives: `temporaries` has workspaces, made for `workers` threads,
/// and inputs, too. Empty where a layout is not known.
std::vector<StageMemory> programMemory(const LayerContext &context,
                                       const PlanPoint &plan,
                                       LayoutOfPoint layoutOf, int64_t workers);

} // namespace kerf

#endif // KERF_PLAN_PROGRAMMEMORY_H
