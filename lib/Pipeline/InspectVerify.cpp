//===- InspectVerify.cpp - the programs of all ranks against the model ----===//

#include "Fail.h"
#include "Inspect.h"

#include "kerf/Interpreter/CompareTraining.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kerf;

static std::string count(size_t number, llvm::StringRef what) {
  return (llvm::Twine(number) + " " + what + (number == 1 ? "" : "s")).str();
}

static void printDifference(const TrainingComparison &comparison) {
  const TrainingDifference &first = comparison.wrong.front();
  llvm::outs() << "[FAILED] " << first.what << " differs by "
               << llvm::format("%.2g", first.error) << " at step "
               << first.step;
  if (comparison.wrong.size() > 1)
    llvm::outs() << " (first of " << comparison.wrong.size() << ")";
  llvm::outs() << '\n';
}

static void printAgreement(const TrainingRun &run,
                           const TrainingComparison &comparison,
                           int64_t ranks) {
  const TrainingDifference &largest = comparison.largest;
  llvm::outs() << "[SUCCESS] " << count(run.outputs.size(), "step") << " on "
               << count(ranks, "rank") << ": loss, "
               << (run.outputs.back().count("grad_norm") ? "norm, " : "")
               << count(run.gradients.back().size(), "gradient") << " and "
               << count(run.params.back().size(), "parameter") << " agree (";
  if (largest.error == 0)
    llvm::outs() << "to the bit";
  else
    llvm::outs() << "largest error " << llvm::format("%.1e", largest.error)
                 << ", of " << largest.what;
  if (!comparison.wrong.empty())
    llvm::outs() << ": rounding, in an ill-conditioned model";
  llvm::outs() << ")\n";
}

LogicalResult kerf::inspectVerify(ModuleOp module,
                                  const InspectOptions &options) {
  auto pipelines = getPipelines(module);
  auto models = module.getOps<ModelOp>();
  if (!llvm::hasSingleElement(models) || pipelines.size() != 1)
    return fail("expected one kerf.model and the programs of its ranks, as "
                "'kerfc --emit=verify' writes them");
  if (options.steps < 1)
    return fail("expected --steps >= 1");
  ModelOp model = *models.begin();
  llvm::ArrayRef<spmd::ProgramOp> programs = pipelines.front();
  if (failed(checkInterpretable(model)) || failed(checkInterpretable(programs)))
    return failure();
  TrainingData data{options.steps, options.seed, options.rate};
  TrainingRun expected = trainStep(model, data);
  if (!expected.ran)
    return failure();
  TrainingRun actual = trainPrograms(programs, data);
  if (!actual.ran) {
    llvm::outs() << "[FAILED] the programs do not run to the end of step "
                 << actual.outputs.size() + 1 << '\n';
    return failure();
  }
  TrainingComparison comparison = compareTraining(actual, expected);
  if (!comparison.wrong.empty() &&
      !isNoise(comparison.largest.error, model, data)) {
    printDifference(comparison);
    return failure();
  }
  spmd::ProgramOp first = programs.front();
  printAgreement(actual, comparison, first.getMesh().getRankCount());
  return success();
}
