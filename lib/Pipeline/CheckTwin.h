//===- CheckTwin.h - a plan is tried before its programs are written ------===//

#ifndef KERF_LIB_PIPELINE_CHECKTWIN_H
#define KERF_LIB_PIPELINE_CHECKTWIN_H

#include "kerf/Pipeline/Stages.h"
#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Twin/Twin.h"

namespace kerf {

/// How much of a plan is tried.
enum class PlanCheck { Off, Twin, Full };

/// Trains the twin of a planned step, or with `Full` the step itself, on one
/// rank and on virtual ranks, in f64, and compares all values of two steps.
/// Fails with a diagnostic that names the first value that differs, the op that
/// makes it, its stage and the collective before it.
mlir::FailureOr<CheckedPlan>
checkPlan(mlir::ModuleOp planned, const StageOptions &options, PlanCheck check);

/// The twin of a planned model and the programs of its ranks, as
/// `kerfc --emit=verify` writes them of a step. Fails with a diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
makeTwinPrograms(ModelOp planned, const StageOptions &options);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_CHECKTWIN_H
