//===- LayerPlaces.h - ops of the IR and ops of layers --------------------===//

#ifndef KERF_LIB_PLAN_LAYERPLACES_H
#define KERF_LIB_PLAN_LAYERPLACES_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Plan/LayerProblem.h"

#include "llvm/ADT/MapVector.h"

namespace kerf {

/// The op of a kind of layer that an op of the IR is.
struct LayerPlace {
  int kind = -1, op = -1;
};

/// Pairs the ops of a step with those that `readStep` made of it, in program
/// order; phase, number and order name an op in both.
llvm::MapVector<mlir::Operation *, LayerPlace> placesOf(ModelOp model,
                                                        const StepModel &step);

/// Blocks of the dimension that an option cuts; 1 for contiguous parts.
int64_t blocksOf(const OpOption &option);

/// True for an option that sends rows to owners as data decides.
bool isRouted(const LayerOp &op, const OpOption &option);

/// Numbers of the forward ops of a kind whose results the backward pass makes
/// again, ascending; none without a layout. Only repeats have a backward pass
/// apart from the forward one, so others have none.
std::vector<int64_t> recomputedOps(const StepModel &step, int kind,
                                   const LayerLayout *layout);

/// The name of an inner axis in meshes: "tp", "cp", "ep".
llvm::StringRef axisName(InnerAxis axis);

} // namespace kerf

#endif // KERF_LIB_PLAN_LAYERPLACES_H
