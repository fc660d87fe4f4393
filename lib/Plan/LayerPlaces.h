//===- LayerPlaces.h - ops of the IR and ops of layers --------------------===//

#ifndef KERF_LIB_PLAN_LAYERPLACES_H
#define KERF_LIB_PLAN_LAYERPLACES_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Layer/LayerProblem.h"
#include "kerf/Search/Search.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <optional>

namespace kerf {

/// The op of a kind of layer that an op of the IR is.
struct LayerPlace {
  int kind = -1, op = -1;
};

/// Pairs the ops of a step with those that `readStep` made of it, in program
/// order; phase, number and order name an op in both.
llvm::MapVector<mlir::Operation *, LayerPlace> placesOf(ModelOp model,
                                                        const StepModel &step);

/// Those of them that a found plan assigns. The propagation gives the others
/// what it sees and a layer does not: ops of inputs alone (is a sum over the
/// batch one of the whole step?), and ops without a batch (does a sum over data
/// ranks pass through?), but for those that make a weight: how that is made is
/// costed, and decides how it is stored.
llvm::MapVector<mlir::Operation *, LayerPlace>
decidedOps(ModelOp model, const StepModel &step);

/// The point of each kind that its one body in the IR gets. Of layers that
/// differ in their points, the one that keeps least: it fits where the others
/// do.
std::map<int, LayerPoint> pointsOf(const PlanPoint &plan);

/// The run of the step that each run of layers in the stages of a plan is of,
/// entry by entry (`PlanAttr::getStages`); nothing where they are not the runs
/// of this step.
std::optional<std::vector<const LayerRun *>> runsOf(PlanAttr plan,
                                                    const StepModel &step);

/// Blocks of the dimension that an option splits; 1 for contiguous parts.
int64_t blocksOf(const OpOption &option);

/// True for an option that sends rows to owners as data decides.
bool isRouted(const LayerOp &op, const OpOption &option);

/// Factors that an option splits: one, or several of a variant or a map
/// together; it must split one.
llvm::SmallVector<unsigned, 2> shardedBy(const LayerOp &op,
                                         const OpOption &option);

/// Numbers of the forward ops of a kind, in its first run, whose results the
/// backward pass makes again, ascending; none without a layout. Only repeats
/// have a backward pass apart from the forward one, so others have none.
std::vector<int64_t> recomputedOps(const StepModel &step, int kind,
                                   const LayerLayout *layout);

} // namespace kerf

#endif // KERF_LIB_PLAN_LAYERPLACES_H
