//===- SolveOrder.h - one order of tokens for all layers ------------------===//

#ifndef KERF_LIB_PLAN_SOLVEORDER_H
#define KERF_LIB_PLAN_SOLVEORDER_H

#include "kerf/Layer/LayerProblem.h"

namespace kerf {

/// What the search may not do on an axis where layers of several kinds attend;
/// empty where those are of one kind. It refers to nothing of `step`.
OptionFilter orderOptions(const StepModel &step);

} // namespace kerf

#endif // KERF_LIB_PLAN_SOLVEORDER_H
