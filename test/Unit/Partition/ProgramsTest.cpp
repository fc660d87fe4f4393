//===- ProgramsTest.cpp - a step and its partition mean the same ----------===//
//
// The tiny models are partitioned by several plans, run on virtual ranks in f64
// and compared with the step on global tensors: losses, gradients (accumulated,
// before clipping) and parameters after three steps. Then programs are broken,
// one op at a time, and each time the comparison must see it.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Evaluation.h"
#include "kerf/Ingest/Import.h"
#include "kerf/Interpreter/SpmdInterpreter.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Plan/PlanFile.h"
#include "kerf/Schedule/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {
/// What three steps give.
struct Training {
  bool ran = false;
  std::vector<double> losses, norms;
  std::vector<TrainingState::Tensors> gradients; ///< of each step
  TrainingState::Tensors params;
};

class ProgramsTest : public ::testing::Test {
protected:
  void SetUp() override {
    registerDialects(registry);
    context.appendDialectRegistry(registry);
  }

  /// The training step of a tiny model: batch 8, sequences of 8.
  OwningOpRef<ModuleOp> stepOf(llvm::StringRef family,
                               llvm::StringRef optimizer = "sgd");
  /// Its program by a plan in JSON; null after an error.
  OwningOpRef<ModuleOp> programOf(ModuleOp step, llvm::StringRef plan);

  /// Compares a partition with its step; returns the largest error.
  double compare(llvm::StringRef family, llvm::StringRef plan,
                 llvm::StringRef optimizer = "sgd");

  DialectRegistry registry;
  MLIRContext context{MLIRContext::Threading::DISABLED};
};
} // namespace

//===----------------------------------------------------------------------===//
// Steps and programs
//===----------------------------------------------------------------------===//

static std::string readFile(const llvm::Twine &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(buffer) << path.str();
  return buffer ? (*buffer)->getBuffer().str() : "";
}

static std::string examplePlan(llvm::StringRef name) {
  return readFile(KERF_SOURCE_DIR "/examples/plans/" + name + ".json");
}

static LogicalResult runStages(ModuleOp module, llvm::ArrayRef<Stage> stages) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (Stage stage : stages)
    addStage(pm, stage, {});
  return pm.run(module);
}

OwningOpRef<ModuleOp> ProgramsTest::stepOf(llvm::StringRef family,
                                           llvm::StringRef optimizer) {
  std::string path =
      (KERF_SOURCE_DIR "/examples/models/tiny-" + family + "/config.json")
          .str();
  ImportOptions options;
  options.batch = 8;
  options.seq = 8;
  options.optimizer = optimizer;
  auto module = importConfig(readFile(path), path, options, &context);
  EXPECT_TRUE(module);
  EXPECT_TRUE(
      succeeded(runStages(*module, {Stage::Differentiate, Stage::Precision})));
  return module;
}

OwningOpRef<ModuleOp> ProgramsTest::programOf(ModuleOp step,
                                              llvm::StringRef plan) {
  OwningOpRef<ModuleOp> module(step.clone());
  if (failed(loadPlan(*module->getOps<ModelOp>().begin(), plan, "plan.json")) ||
      failed(
          runStages(*module, {Stage::Plan, Stage::Partition, Stage::Schedule})))
    return nullptr;
  return module;
}

/// Ignores a part of the targets that is unlike in every row.
static void ignoreTargets(llvm::StringRef role, HostTensor &input) {
  if (role != "targets")
    return;
  for (int64_t i = 0; i < input.size(); ++i)
    if (i % 7 == 3 || i < 11)
      input.data[i] = -100;
}

static Training train(ModelOp model, int steps = 3) {
  Training training;
  Interpreter interpreter(model, {/*f64=*/true, 0});
  TrainingState state;
  for (int step = 1; step <= steps; ++step) {
    auto inputs = makeInputs(model, 0, step, 0.01);
    for (auto [role, input] :
         llvm::zip(model.getRoles().getAsValueRange<StringAttr>(), inputs))
      ignoreTargets(role, input);
    auto values = interpreter.run(inputs, state);
    if (failed(values))
      return training;
    training.losses.push_back(values->front().data[0]);
    training.norms.push_back(values->back().data[0]);
    training.gradients.push_back(state.gradients);
  }
  training.params = state.params;
  training.ran = true;
  return training;
}

static spmd::ProgramOp programIn(ModuleOp module) {
  return *module.getOps<spmd::ProgramOp>().begin();
}

static std::vector<HostTensor> inputsOf(spmd::ProgramOp program, int64_t step) {
  auto inputs = makeInputs(program, 0, step, 0.01);
  for (auto [declared, input] :
       llvm::zip(program.getBody().getOps<spmd::InputOp>(), inputs))
    ignoreTargets(declared.getRole(), input);
  return inputs;
}

static Training train(spmd::ProgramOp program, int steps = 3) {
  Training training;
  SpmdInterpreter interpreter(program, {/*f64=*/true, 0});
  TrainingState state;
  for (int step = 1; step <= steps; ++step) {
    auto values = interpreter.run(inputsOf(program, step), state, "train");
    if (failed(values))
      return training;
    training.losses.push_back(values->front().data[0]);
    training.norms.push_back(values->back().data[0]);
    training.gradients.push_back(state.gradients);
  }
  training.params = state.params;
  training.ran = true;
  return training;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// The largest of max|a - b| / max|b| over tensors; infinite when they are not
/// the same tensors.
static double errorOf(const TrainingState::Tensors &actual,
                      const TrainingState::Tensors &expected) {
  double worst = actual.size() == expected.size() ? 0 : INFINITY;
  for (const auto &[name, tensor] : expected) {
    auto found = actual.find(name);
    if (found == actual.end() || found->second.shape() != tensor.shape())
      return INFINITY;
    double difference = 0, scale = 1e-30;
    for (auto [a, b] : llvm::zip_equal(found->second.data, tensor.data)) {
      difference =
          std::max(difference, std::isfinite(a) ? std::abs(a - b) : INFINITY);
      scale = std::max(scale, std::abs(b));
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

static double errorOf(const Training &actual, const Training &expected) {
  if (!actual.ran || actual.losses.size() != expected.losses.size())
    return INFINITY;
  double worst = errorOf(actual.params, expected.params);
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    worst = std::max(worst, std::abs(actual.losses[i] - expected.losses[i]));
    worst = std::max(worst, std::abs(actual.norms[i] - expected.norms[i]));
    worst =
        std::max(worst, errorOf(actual.gradients[i], expected.gradients[i]));
  }
  return worst;
}

double ProgramsTest::compare(llvm::StringRef family, llvm::StringRef plan,
                             llvm::StringRef optimizer) {
  auto step = stepOf(family, optimizer);
  auto program = programOf(*step, plan);
  if (!program)
    return INFINITY;
  return errorOf(train(programIn(*program)),
                 train(*step->getOps<ModelOp>().begin()));
}

constexpr double kTolerance = 1e-12;
static constexpr llvm::StringLiteral kFamilies[] = {"gpt2", "llama", "mistral",
                                                    "mixtral"};

/// A plan that cuts the batch by these axes.
static std::string batchPlan(llvm::StringRef head, llvm::StringRef axes) {
  return ("{" + head +
          "\"assign\": [{\"op\": \"embedding\", \"weight\": \"*e*\", "
          "\"factors\": {\"b\": [" +
          axes + "]}}]}")
      .str();
}

/// As `batchPlan`, of the embedding of the tokens.
static std::string batchPlanOf(llvm::StringRef family, llvm::StringRef head,
                               llvm::StringRef axes) {
  std::string plan = batchPlan(head, axes);
  if (family != "gpt2")
    return plan;
  return plan.replace(plan.find("*e*"), 3, "*wte*");
}

TEST_F(ProgramsTest, TrivialPlan) {
  for (llvm::StringRef family : kFamilies)
    EXPECT_LE(compare(family, "{}"), kTolerance) << family.str();
}

TEST_F(ProgramsTest, MicroBatches) {
  for (llvm::StringRef family : kFamilies)
    for (llvm::StringRef count : {"2", "8"})
      EXPECT_LE(
          compare(family,
                  batchPlanOf(family,
                              ("\"micro_batches\": " + count + ", ").str(),
                              "\"micro\"")),
          kTolerance)
          << family.str() << ' ' << count.str();
}

TEST_F(ProgramsTest, MicroBatchesForwardsFirst) {
  EXPECT_LE(compare("gpt2", batchPlanOf("gpt2",
                                        "\"micro_batches\": 4, "
                                        "\"schedule\": \"gpipe\", ",
                                        "\"micro\"")),
            kTolerance);
}

TEST_F(ProgramsTest, DataParallel) {
  EXPECT_LE(compare("gpt2", examplePlan("tiny-gpt2-dp2")), kTolerance);
  EXPECT_LE(compare("mixtral",
                    batchPlan("\"mesh\": {\"dp\": 2}, \"micro_batches\": 2, ",
                              "\"dp\", \"micro\"")),
            kTolerance);
}

TEST_F(ProgramsTest, TensorParallel) {
  EXPECT_LE(compare("gpt2", examplePlan("tiny-gpt2-tp2")), kTolerance);
}

TEST_F(ProgramsTest, SequenceParallel) {
  EXPECT_LE(compare("gpt2", examplePlan("tiny-gpt2-tp2-sp")), kTolerance);
  EXPECT_LE(compare("llama", examplePlan("tiny-llama-tp2-sp")), kTolerance);
}

TEST_F(ProgramsTest, AllTogether) {
  std::string plan = examplePlan("tiny-gpt2-dp2-tp2-micro2");
  EXPECT_LE(compare("gpt2", plan), kTolerance);
  // Adam divides by the gradient's size: noise of gradients that are zero
  // grows.
  EXPECT_LE(compare("gpt2", plan, "adamw"), 10 * kTolerance);
}

TEST_F(ProgramsTest, Evaluation) {
  for (llvm::StringRef name :
       {"tiny-gpt2-tp2-sp", "tiny-gpt2-dp2-tp2-micro2"}) {
    auto step = stepOf("gpt2");
    ModelOp model = *step->getOps<ModelOp>().begin();
    IRMapping mapping;
    OwningOpRef<ModelOp> evaluation = makeEvaluation(model, mapping);
    auto program = programOf(*step, examplePlan(name));
    ASSERT_TRUE(program);
    TrainingState state, other;
    auto inputs = inputsOf(programIn(*program), 1);
    auto expected = Interpreter(*evaluation, {true, 0}).run(inputs, state);
    auto actual = SpmdInterpreter(programIn(*program), {true, 0})
                      .run(inputs, other, "evaluate");
    ASSERT_TRUE(succeeded(expected) && succeeded(actual));
    EXPECT_NEAR(actual->front().data[0], expected->front().data[0], kTolerance);
    // Dropout is off, or the loss would be that of the training step.
    TrainingState training;
    auto dropped = Interpreter(model, {true, 0}).run(inputs, training);
    EXPECT_GT(std::abs(dropped->front().data[0] - expected->front().data[0]),
              1e-6);
  }
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

/// Breaks an op; false when there is no such mistake to make in it.
using Mistake = llvm::function_ref<bool(Operation *)>;

/// Makes the mistake in each op of the training functions, one program each.
/// Returns how many programs were broken; each must be seen.
static int64_t breakEach(spmd::ProgramOp program, const Training &expected,
                         Mistake mistake) {
  int64_t broken = 0;
  for (int64_t target = 0;; ++target) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(program.getLoc());
    auto copy = program.clone();
    module->push_back(copy);
    Operation *op = nullptr;
    int64_t number = 0;
    copy.walk([&](Operation *candidate) {
      auto func = candidate->getParentOfType<spmd::FuncOp>();
      if (func && func.getSymName() != "evaluate" && number++ == target)
        op = candidate;
    });
    if (!op)
      return broken;
    std::string what;
    llvm::raw_string_ostream(what) << *op;
    if (!mistake(op))
      continue;
    ++broken;
    EXPECT_TRUE(succeeded(mlir::verify(copy))) << what;
    ScopedDiagnosticHandler quiet(copy.getContext(),
                                  [](Diagnostic &) { return success(); });
    EXPECT_GT(errorOf(train(copy, 1), expected), 1e-9) << what;
  }
}

/// The op's value is its operand's.
static bool skip(Operation *op) {
  if (!isa<spmd::AllReduceOp>(op))
    return false;
  op->getResult(0).replaceAllUsesWith(op->getOperand(0));
  op->erase();
  return true;
}

/// A part of an own value stands for a part of the sum.
static bool sliceOnly(Operation *op) {
  auto scatter = dyn_cast<spmd::ReduceScatterOp>(op);
  if (!scatter)
    return false;
  OpBuilder builder(op);
  auto slice = spmd::SliceOwnOp::create(
      builder, op->getLoc(), scatter.getResult().getType(), scatter.getX(),
      scatter.getDim(), scatter.getAxes());
  scatter.getResult().replaceAllUsesWith(slice.getResult());
  op->erase();
  return true;
}

/// Another axis of the same size.
static bool swapAxis(Operation *op) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  if (!axes || axes.size() != 1 || isa<spmd::OffsetOp>(op))
    return false;
  // The parts of a vector that is the same in all rows are equal.
  if (isa<spmd::SliceOwnOp>(op) &&
      op->getOperand(0).getDefiningOp<BroadcastOp>())
    return false;
  bool isData = cast<StringAttr>(axes[0]).getValue() == "dp";
  auto other = StringAttr::get(op->getContext(), isData ? "tp" : "dp");
  op->setAttr("axes", ArrayAttr::get(op->getContext(), {other}));
  return true;
}

/// The last micro-batch stands for all.
static bool overwrite(Operation *op) {
  auto accumulate = dyn_cast<spmd::AccumulateOp>(op);
  if (!accumulate)
    return false;
  OpBuilder builder(op);
  spmd::WriteOp::create(builder, op->getLoc(), accumulate.getValue(),
                        accumulate.getTarget());
  op->erase();
  return true;
}

/// Every part is the first one.
static bool forgetOffset(Operation *op) {
  auto offset = dyn_cast<spmd::OffsetOp>(op);
  if (!offset)
    return false;
  llvm::SmallVector<int64_t> zeros(offset.getStrides().size(), 0);
  offset.setStrides(zeros);
  return true;
}

TEST_F(ProgramsTest, MistakesAreSeen) {
  auto step = stepOf("gpt2");
  auto module = programOf(*step, examplePlan("tiny-gpt2-dp2-tp2-micro2"));
  ASSERT_TRUE(module);
  spmd::ProgramOp program = programIn(*module);
  Training expected = train(*step->getOps<ModelOp>().begin(), 1);
  ASSERT_LE(errorOf(train(program, 1), expected), kTolerance);
  EXPECT_GE(breakEach(program, expected, skip), 10);
  EXPECT_GE(breakEach(program, expected, sliceOnly), 4);
  EXPECT_GE(breakEach(program, expected, swapAxis), 20);
  EXPECT_GE(breakEach(program, expected, overwrite), 10);
  EXPECT_GE(breakEach(program, expected, forgetOffset), 4);
}
