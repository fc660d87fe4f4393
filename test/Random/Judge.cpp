#include "Judge.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

LogicalResult kerf::test::runStages(ModuleOp module, Stage first, Stage last,
                                    const StageOptions &options) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (int stage = int(first); stage <= int(last); ++stage)
    addStage(pm, Stage(stage), options);
  return pm.run(module);
}

StageOptions kerf::test::optionsFor(llvm::StringRef plan) {
  StageOptions options;
  if (llvm::xxh3_64bits(plan) % 2)
    options.own = {"schedule:kerf-bucket-gradients{message-bytes=64}"};
  return options;
}

ModelOp kerf::test::modelIn(ModuleOp module) {
  return *module.getOps<ModelOp>().begin();
}

TrainingRun kerf::test::trainModule(ModuleOp programs,
                                    const TrainingData &data) {
  return trainPrograms(llvm::to_vector(programs.getOps<spmd::ProgramOp>()),
                       data);
}

Outcome kerf::test::judge(ModuleOp programs, ModelOp step) {
  TrainingData data;
  TrainingComparison comparison =
      compareTraining(trainModule(programs, data), trainStep(step, data));
  if (comparison.wrong.empty())
    return {Outcome::Same, ""};
  if (isNoise(comparison.largest.error, step, data))
    return {Outcome::Noisy, ""};
  const TrainingDifference &first = comparison.wrong.front();
  return {Outcome::Wrong, llvm::formatv("{0} differs by {1:e} at step {2}",
                                        first.what, first.error, first.step)};
}

void Counter::add(const Outcome &outcome) {
  same += outcome.verdict == Outcome::Same;
  noisy += outcome.verdict == Outcome::Noisy;
  refused += outcome.verdict == Outcome::Refused;
  wrong += outcome.verdict == Outcome::Wrong;
}

int Counter::report(llvm::StringRef how) const {
  llvm::outs() << same << " same, " << noisy
               << " within the noise of an ill-conditioned model, " << wrong
               << " wrong; " << refused << " more " << how << "\n";
  return wrong != 0 || same + noisy < wanted;
}

void kerf::test::writeText(const std::string &path, const std::string &text) {
  std::error_code code;
  llvm::raw_fd_ostream(path, code) << text;
}
