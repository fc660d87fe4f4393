//===- ReadStep.h - from the IR of a step to the planner's data -----------===//

#ifndef KERF_STEP_READSTEP_H
#define KERF_STEP_READSTEP_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Step/LayerModel.h"

namespace kerf {

/// Reads a step after the stage `precision`. Fails with a diagnostic where the
/// step has no layers that could be told apart (carried values that differ
/// between forward and backward repeats).
mlir::FailureOr<StepModel> readStep(ModelOp model);

} // namespace kerf

#endif // KERF_STEP_READSTEP_H
