#include "CheckTwin.h"

#include "kerf/Dialect/Spmd/Pipelines.h"
#include "kerf/Interpreter/CompareTraining.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// The stages that write the programs, as the step itself goes through them.
static LogicalResult writePrograms(ModuleOp module,
                                   const StageOptions &options) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (Stage stage : {Stage::Recompute, Stage::Partition, Stage::Schedule})
    addStage(pm, stage, options);
  return pm.run(module);
}

/// Puts a copy of the step, as it is on one rank, before its programs.
static LogicalResult addPrograms(ModuleOp module, const StageOptions &options) {
  ModelOp model = *module.getOps<ModelOp>().begin();
  auto step = cast<ModelOp>(model->clone());
  step->removeAttr(kPlanAttrName);
  step.getBody().walk([](Operation *op) { op->removeAttr(kAssignAttrName); });
  step.setSymName((step.getSymName() + ".step").str()); // programs have it
  LogicalResult written = writePrograms(module, options);
  module.getBody()->push_front(step);
  return written;
}

FailureOr<OwningOpRef<ModuleOp>>
kerf::makeTwinPrograms(ModelOp planned, const StageOptions &options) {
  FailureOr<Twin> twin = makeTwin(planned);
  if (failed(twin) || failed(addPrograms(*twin->module, options)))
    return failure();
  return std::move(twin->module);
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// Compares two steps of training; `module` as `addPrograms` leaves it.
static LogicalResult compare(ModuleOp module, CheckedPlan &checked) {
  ModelOp step = *module.getOps<ModelOp>().begin();
  auto pipelines = getPipelines(module);
  TrainingData data;
  TrainingRun expected = trainStep(step, data);
  if (!expected.ran)
    return failure();
  TrainingRun actual = trainPrograms(pipelines.front(), data);
  if (!actual.ran)
    return failure();
  TrainingComparison comparison = compareTraining(actual, expected);
  checked.largestError = comparison.largest.error;
  if (comparison.wrong.empty() ||
      isNoise(comparison.largest.error, step, data))
    return success();
  const TrainingDifference &first = comparison.wrong.front();
  return step.emitError() << "the programs train another model: " << first.what
                          << " differs by " << first.error;
}

FailureOr<CheckedPlan> kerf::checkPlan(ModuleOp planned,
                                       const StageOptions &options,
                                       PlanCheck check) {
  CheckedPlan checked;
  FailureOr<Twin> twin = makeTwin(*planned.getOps<ModelOp>().begin());
  if (failed(twin))
    return failure();
  checked.twin = twin->description;
  checked.differs = twin->differs;
  if (failed(addPrograms(*twin->module, options)) ||
      failed(compare(*twin->module, checked)))
    return failure();
  return checked;
}
