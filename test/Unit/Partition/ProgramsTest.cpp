//===- ProgramsTest.cpp - a step and its partition mean the same ----------===//
//
// The tiny models are partitioned by several plans, run on virtual ranks in f64
// and compared with the step on global tensors: losses, gradients (accumulated,
// before clipping) and parameters after three steps. Then programs are broken,
// one op at a time, and each time the comparison must see it.
//
//===----------------------------------------------------------------------===//

#include "PartitionTesting.h"

#include "kerf/Dialect/Kerf/Evaluation.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kerf;

namespace {
class ProgramsTest : public PartitionTest {
protected:
  ProgramsTest() {
    options.batch = 8;
    data.steps = 3;
  }
};
} // namespace

static constexpr llvm::StringLiteral kFamilies[] = {"gpt2", "llama", "mistral",
                                                    "mixtral"};

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

static std::string examplePlan(llvm::StringRef name) {
  return readSource("examples/plans/" + name + ".json");
}

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

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

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
  options.optimizer = "adamw";
  EXPECT_LE(compare("gpt2", plan), 10 * kTolerance);
}

static spmd::ProgramOp programIn(ModuleOp module) {
  return *module.getOps<spmd::ProgramOp>().begin();
}

static std::vector<HostTensor> inputsOf(spmd::ProgramOp program, int64_t step) {
  auto inputs = makeInputs(program, 0, step, 0.01);
  for (auto [declared, input] :
       llvm::zip(program.getBody().getOps<spmd::InputOp>(), inputs))
    ignoreTargets(declared.getRole(), step, input);
  return inputs;
}

TEST_F(ProgramsTest, Evaluation) {
  for (llvm::StringRef name :
       {"tiny-gpt2-tp2-sp", "tiny-gpt2-dp2-tp2-micro2"}) {
    auto step = stepOf("gpt2");
    ModelOp model = modelIn(*step);
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

// One sequence per micro-batch of a rank, and of each kind of mistake all
// places: kerf-mutants makes more kinds, at random places of many programs.
TEST_F(ProgramsTest, MistakesAreSeen) {
  options.batch = 4;
  options.seq = 4;
  data.steps = 1;
  auto step = stepOf("gpt2");
  auto module = programOf(*step, examplePlan("tiny-gpt2-dp2-tp2-micro2"));
  ASSERT_TRUE(module);
  TrainingRun expected = trainStep(modelIn(*step), data);
  ASSERT_LE(errorOf(trainModule(*module, data), expected), kTolerance);
  EXPECT_GE(breakEach(*module, expected, skip), 10);
  EXPECT_GE(breakEach(*module, expected, sliceOnly), 4);
  EXPECT_GE(breakEach(*module, expected, swapAxis), 20);
  EXPECT_GE(breakEach(*module, expected, overwrite), 10);
  EXPECT_GE(breakEach(*module, expected, forgetOffset), 4);
}
