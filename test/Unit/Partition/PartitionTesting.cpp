#include "PartitionTesting.h"

#include "kerf/Pipeline/Stages.h"
#include "kerf/PlanIR/PlanFile.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Steps and programs
//===----------------------------------------------------------------------===//

std::string kerf::readSource(const llvm::Twine &path) {
  auto buffer = llvm::MemoryBuffer::getFile(KERF_SOURCE_DIR "/" + path);
  EXPECT_TRUE(buffer) << path.str();
  return buffer ? (*buffer)->getBuffer().str() : "";
}

static LogicalResult runStages(ModuleOp module, llvm::ArrayRef<Stage> stages) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (Stage stage : stages)
    addStage(pm, stage, {});
  return pm.run(module);
}

PartitionTest::PartitionTest() {
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  options.batch = 4;
  options.seq = 8;
  options.optimizer = "sgd";
}

OwningOpRef<ModuleOp> PartitionTest::stepOf(llvm::StringRef family) {
  std::string path = ("examples/models/tiny-" + family + "/config.json").str();
  auto module = importConfig(readSource(path), path, options, &context);
  EXPECT_TRUE(module);
  EXPECT_TRUE(
      succeeded(runStages(*module, {Stage::Differentiate, Stage::Precision})));
  return module;
}

OwningOpRef<ModuleOp> PartitionTest::programOf(ModuleOp step,
                                               llvm::StringRef plan) {
  OwningOpRef<ModuleOp> module(step.clone());
  if (failed(loadPlan(modelIn(*module), plan, "plan.json")) ||
      failed(
          runStages(*module, {Stage::Plan, Stage::Partition, Stage::Schedule})))
    return nullptr;
  return module;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

ModelOp kerf::modelIn(ModuleOp module) {
  return *module.getOps<ModelOp>().begin();
}

TrainingRun kerf::trainModule(ModuleOp programs, const TrainingData &data) {
  return trainPrograms(llvm::to_vector(programs.getOps<spmd::ProgramOp>()),
                       data);
}

double kerf::errorOf(const TrainingRun &actual, const TrainingRun &expected) {
  return compareTraining(actual, expected).largest.error;
}

double PartitionTest::compare(llvm::StringRef family, const std::string &plan) {
  auto step = stepOf(family);
  last = programOf(*step, plan);
  if (!last)
    return INFINITY;
  TrainingRun expected = trainStep(modelIn(*step), data);
  EXPECT_TRUE(expected.ran);
  return errorOf(trainModule(*last, data), expected);
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

/// The op of this number in the functions of training; or null.
static Operation *findOp(ModuleOp programs, int64_t number) {
  Operation *found = nullptr;
  programs.walk([&](Operation *op) {
    auto func = op->getParentOfType<spmd::FuncOp>();
    if (func && !func.getSymName().contains("evalua") && number-- == 0)
      found = op;
  });
  return found;
}

int64_t kerf::breakEach(ModuleOp programs, const TrainingRun &expected,
                        Mistake mistake) {
  int64_t broken = 0;
  for (int64_t target = 0;; ++target) {
    OwningOpRef<ModuleOp> copy(programs.clone());
    Operation *op = findOp(*copy, target);
    if (!op)
      return broken;
    std::string what;
    llvm::raw_string_ostream(what) << *op;
    if (!mistake(op))
      continue;
    ++broken;
    EXPECT_TRUE(succeeded(mlir::verify(*copy))) << what;
    ScopedDiagnosticHandler quiet(copy->getContext(),
                                  [](Diagnostic &) { return success(); });
    EXPECT_GT(errorOf(trainModule(*copy, {/*steps=*/1}), expected), 1e-9)
        << what;
  }
}
