//===- VariantsTest.cpp - ops that communicate inside ---------------------===//
//
// Steps of tiny models are partitioned by plans that use variants of ops,
// routed rows and cuts in blocks, run on virtual ranks in f64, and compared
// with the step on one rank: losses, gradients and parameters of two steps.
//
//===----------------------------------------------------------------------===//

#include "kerf/Ingest/Import.h"
#include "kerf/Interpreter/SpmdInterpreter.h"
#include "kerf/Pipeline/Stages.h"
#include "kerf/Plan/PlanFile.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

namespace {
/// What two steps give.
struct Training {
  std::vector<double> losses;
  std::vector<TrainingState::Tensors> gradients; ///< of each step
  TrainingState::Tensors params;
};

class VariantsTest : public ::testing::Test {
protected:
  void SetUp() override {
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    options.batch = 4;
    options.seq = 8;
    options.optimizer = "sgd";
  }

  /// The training step of a tiny model, or of one in text.
  OwningOpRef<ModuleOp> stepOf(llvm::StringRef model);
  /// Its program by a plan in JSON; null after an error.
  OwningOpRef<ModuleOp> programOf(ModuleOp step, llvm::StringRef plan);
  /// The largest error of a partition of a model.
  double compare(llvm::StringRef model, const std::string &plan);
  /// The first error that partitioning gives, with its notes.
  std::string refusal(llvm::StringRef model, const std::string &plan);

  ImportOptions options;
  DialectRegistry registry;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> last; ///< the program that was compared
};

constexpr double kTolerance = 1e-12;
} // namespace

//===----------------------------------------------------------------------===//
// Steps and programs
//===----------------------------------------------------------------------===//

static LogicalResult runStages(ModuleOp module, llvm::ArrayRef<Stage> stages) {
  auto pm = PassManager::on<ModuleOp>(module.getContext());
  for (Stage stage : stages)
    addStage(pm, stage, {});
  return pm.run(module);
}

OwningOpRef<ModuleOp> VariantsTest::stepOf(llvm::StringRef model) {
  OwningOpRef<ModuleOp> module;
  if (model.starts_with("kerf.model")) {
    module = parseSourceString<ModuleOp>(model, &context);
  } else {
    std::string path =
        (KERF_SOURCE_DIR "/examples/models/tiny-" + model + "/config.json")
            .str();
    auto config = llvm::MemoryBuffer::getFile(path);
    EXPECT_TRUE(config) << path;
    module = importConfig((*config)->getBuffer(), path, options, &context);
  }
  EXPECT_TRUE(module);
  EXPECT_TRUE(
      succeeded(runStages(*module, {Stage::Differentiate, Stage::Precision})));
  return module;
}

OwningOpRef<ModuleOp> VariantsTest::programOf(ModuleOp step,
                                              llvm::StringRef plan) {
  OwningOpRef<ModuleOp> module(step.clone());
  if (failed(loadPlan(*module->getOps<ModelOp>().begin(), plan, "plan.json")) ||
      failed(
          runStages(*module, {Stage::Plan, Stage::Partition, Stage::Schedule})))
    return nullptr;
  return module;
}

/// Ignores some targets, unlike in every row.
static void ignoreTargets(llvm::StringRef role, HostTensor &input) {
  if (role != "targets")
    return;
  for (int64_t i = 0; i < input.size(); ++i)
    if (i % 7 == 3)
      input.data[i] = -100;
}

/// Runs two steps; `run` is told the step's number.
static Training train(
    llvm::function_ref<FailureOr<std::vector<HostTensor>>(int, TrainingState &)>
        run) {
  Training training;
  TrainingState state;
  for (int step = 1; step <= 2; ++step) {
    auto values = run(step, state);
    if (failed(values))
      return {};
    training.losses.push_back(values->front().data[0]);
    training.gradients.push_back(state.gradients);
  }
  training.params = state.params;
  return training;
}

static Training trainModel(ModelOp model) {
  Interpreter interpreter(model, {/*f64=*/true, 0});
  return train([&](int step, TrainingState &state) {
    auto inputs = makeInputs(model, 0, step, 0.01);
    for (auto [role, input] :
         llvm::zip(model.getRoles().getAsValueRange<StringAttr>(), inputs))
      ignoreTargets(role, input);
    return interpreter.run(inputs, state);
  });
}

static Training trainProgram(ModuleOp module) {
  auto programs = getPipelines(module).front();
  SpmdInterpreter interpreter(programs, {/*f64=*/true, 0});
  return train([&](int step, TrainingState &state) {
    auto inputs = makeInputs(programs, 0, step, 0.01);
    for (auto [declared, input] : llvm::zip(getInputs(programs), inputs))
      ignoreTargets(declared.getRole(), input);
    return interpreter.run(inputs, state, "train");
  });
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

double VariantsTest::compare(llvm::StringRef model, const std::string &plan) {
  auto step = stepOf(model);
  last = programOf(*step, plan);
  if (!last)
    return INFINITY;
  Training actual = trainProgram(*last);
  Training expected = trainModel(*step->getOps<ModelOp>().begin());
  if (actual.losses.size() != 2 || expected.losses.size() != 2)
    return INFINITY;
  double worst = errorOf(actual.params, expected.params);
  for (size_t i = 0; i < 2; ++i) {
    worst = std::max(worst, std::abs(actual.losses[i] - expected.losses[i]));
    worst =
        std::max(worst, errorOf(actual.gradients[i], expected.gradients[i]));
  }
  return worst;
}

std::string VariantsTest::refusal(llvm::StringRef model,
                                  const std::string &plan) {
  auto step = stepOf(model);
  std::string text;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (text.empty()) {
      text = diagnostic.str();
      for (Diagnostic &note : diagnostic.getNotes())
        text += "; " + note.str();
    }
    return success();
  });
  EXPECT_FALSE(programOf(*step, plan));
  return text;
}

/// Ops of a kind in a program.
template <typename Op> static int64_t count(ModuleOp module) {
  int64_t number = 0;
  module.walk([&](Op) { ++number; });
  return number;
}

/// `[{"op": ...}, ...]` after a mesh.
static std::string planWith(llvm::StringRef head, llvm::StringRef rules) {
  return ("{" + head + ", \"assign\": [" + rules + "]}").str();
}

//===----------------------------------------------------------------------===//
// Vocabularies
//===----------------------------------------------------------------------===//

/// Logits are cut by the vocabulary and stay so.
static std::string vocabularyPlan(int64_t ranks, llvm::StringRef head) {
  return llvm::formatv(
      R"({{"mesh": {{"tp": {0}}, "assign": [
        {{"op": "linear", "weight": "{1}", "factors": {{"n": ["tp"]}},
        {{"op": "cross_entropy", "factors": {{"v": ["tp"]},
         "variant": ["split_vocabulary"]},
        {{"op": "cross_entropy_backward", "factors": {{"v": ["tp"]},
         "variant": ["split_vocabulary"]}]})",
      ranks, head);
}

/// The loss of a vocabulary on 2 and 4 ranks, with a penalty of large
/// normalizers and without; no rank ever has all logits of a row.
TEST_F(VariantsTest, SplitVocabulary) {
  for (int64_t ranks : {2, 4}) {
    options.zLoss = 0.1;
    EXPECT_LE(compare("gpt2", vocabularyPlan(ranks, "*wte*")), kTolerance);
    options.zLoss = 0;
    EXPECT_LE(compare("llama", vocabularyPlan(ranks, "*lm_head*")), kTolerance);
    ASSERT_TRUE(last);
    EXPECT_EQ(count<CrossEntropyOp>(*last), 0);
    last->walk([&](spmd::AllGatherOp gather) {
      EXPECT_NE(typeOf(gather.getResult()).getShape().back(), 96);
    });
  }
}

/// A vocabulary that does not divide is refused, with the factors.
TEST_F(VariantsTest, SplitVocabularyRefused) {
  std::string text = refusal("llama", vocabularyPlan(5, "*lm_head*"));
  EXPECT_NE(text.find("factor 'n' of size 96 does not divide into 5 parts"),
            std::string::npos)
      << text;
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

/// Sequences are cut everywhere; embeddings are by `table`.
static std::string sequencePlan(int64_t ranks, llvm::StringRef table) {
  return llvm::formatv(
      R"({{"mesh": {{"cp": {0}}, "assign": [
        {{"op": "embedding", "weight": "{1}", "factors": {{"s": ["cp"]}},
        {{"op": "attention", "factors": {{"q": ["cp"], "k": ["cp"]},
         "variant": ["ring"]},
        {{"op": "attention_backward", "factors": {{"q": ["cp"], "k": ["cp"]},
         "variant": ["ring"]}]})",
      ranks, table);
}

/// As many key heads as heads: keys go round. Dropout is drawn by global
/// indices, whoever computes a score.
TEST_F(VariantsTest, Ring) {
  for (int64_t ranks : {2, 4}) {
    EXPECT_LE(compare("gpt2", sequencePlan(ranks, "*wte*")), kTolerance);
    ASSERT_TRUE(last);
    // k and v in the forward pass of the step and of the evaluation, k and v
    // and their gradients in the backward pass.
    EXPECT_EQ(count<spmd::RotateOp>(*last), (ranks - 1) * 6 + ranks * 2);
    EXPECT_EQ(count<AttentionBackwardOp>(*last), ranks);
  }
}

/// Few key heads are gathered while all keys are no more than the queries.
TEST_F(VariantsTest, GatheredKeys) {
  EXPECT_LE(compare("llama", sequencePlan(2, "*embed*")), kTolerance);
  ASSERT_TRUE(last);
  EXPECT_EQ(count<spmd::RotateOp>(*last), 0);
  EXPECT_EQ(count<AttentionBackwardOp>(*last), 1);
  EXPECT_LE(compare("llama", sequencePlan(4, "*embed*")), kTolerance);
  EXPECT_EQ(count<AttentionBackwardOp>(*last), 4);
}

/// A window smaller than a rank's part and one over its border.
TEST_F(VariantsTest, RingWithWindow) {
  for (int64_t ranks : {2, 4})
    EXPECT_LE(compare("mistral", sequencePlan(ranks, "*embed*")), kTolerance);
}

/// Documents: their numbers travel with the keys.
TEST_F(VariantsTest, RingWithSegments) {
  options.packed = true;
  for (int64_t ranks : {2, 4}) {
    EXPECT_LE(compare("gpt2", sequencePlan(ranks, "*wte*")), kTolerance);
    EXPECT_LE(compare("llama", sequencePlan(ranks, "*embed*")), kTolerance);
  }
}

/// Queries and keys that are not cut alike are refused.
TEST_F(VariantsTest, RingRefused) {
  std::string text =
      refusal("llama", planWith(R"("mesh": {"cp": 2})",
                                R"({"op": "attention", "factors": {"q": ["cp"]},
                            "variant": ["ring"]},
                           {"op": "attention_backward", "factors":
                            {"k": ["cp"]}, "variant": ["ring"]})"));
  EXPECT_NE(text.find("the variant 'ring' cuts factors 'k' and 'q' by the same "
                      "axes"),
            std::string::npos)
      << text;
  options.seq = 6;
  text = refusal("llama", sequencePlan(4, "*embed*"));
  EXPECT_NE(text.find("of size 6 does not divide into 4 parts"),
            std::string::npos)
      << text;
}

//===----------------------------------------------------------------------===//
// Load balance
//===----------------------------------------------------------------------===//

/// Choices and probabilities of a sequence whose parts lie on several ranks.
TEST_F(VariantsTest, BalanceOfCutSequences) {
  options.auxLoss = "layer";
  for (int64_t ranks : {2, 4})
    EXPECT_LE(
        compare("mixtral", llvm::formatv(R"({{"mesh": {{"sp": {0}}, "assign": [
        {{"op": "embedding", "factors": {{"s": ["sp"]}},
        {{"op": "load_balance_loss", "factors": {{"s": ["sp"]},
         "variant": ["reduce_group"]},
        {{"op": "load_balance_loss_backward", "factors": {{"s": ["sp"]},
         "variant": ["reduce_group"]}]})",
                                         ranks)),
        kTolerance);
}

/// One group of all sequences, which are cut over one axis, and their tokens
/// over another.
TEST_F(VariantsTest, BalanceOfCutGroups) {
  options.auxLoss = "global";
  EXPECT_LE(compare("mixtral", planWith(R"("mesh": {"dp": 2, "sp": 2})", R"(
      {"op": "embedding", "factors": {"b": ["dp"]}},
      {"op": "load_balance_loss", "factors": {"n": ["dp"], "s": ["sp"]},
       "variant": ["reduce_group"]},
      {"op": "load_balance_loss_backward", "factors": {"n": ["dp"], "s": ["sp"]},
       "variant": ["reduce_group"]})")),
            kTolerance);
}

/// The parts of a group must be there at one time.
TEST_F(VariantsTest, BalanceRefused) {
  options.auxLoss = "global";
  std::string text =
      refusal("mixtral", planWith(R"("mesh": {}, "micro_batches": 2)", R"(
      {"op": "load_balance_loss", "factors": {"n": ["micro"]},
       "variant": ["reduce_group"]})"));
  EXPECT_NE(text.find("factor 'n' is cut by micro-batches, which are not there "
                      "at one time"),
            std::string::npos)
      << text;
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

/// The batch is cut by `batch`; experts by `ep`, with their rows where
/// `ownRows`.
static std::string expertPlan(llvm::StringRef head, llvm::StringRef batch,
                              bool ownRows) {
  constexpr llvm::StringLiteral ragged =
      R"(, "factors": {{"g": [{0}], "r": ["ep"], "e": ["ep"]}, "routed": true)";
  constexpr llvm::StringLiteral equal =
      R"(, "factors": {{"g": [{0}], "e": ["ep"]})";
  constexpr llvm::StringLiteral table =
      R"(, "factors": {{"g": [{0}], "r": ["ep"]}, "routed": true)";
  std::string outer = batch.str();
  size_t comma = outer.rfind(", ");
  outer = comma == std::string::npos ? "" : outer.substr(0, comma);
  std::string rules =
      R"({"op": "embedding", "factors": {"b": [)" + batch.str() + "]}}";
  for (llvm::StringRef op : {"dispatch", "combine", "combine_weight_gradient"})
    rules += ", {\"op\": \"" + op.str() + "\"" +
             llvm::formatv(table.data(), outer).str() + "}";
  for (llvm::StringRef op : {"grouped_matmul", "grouped_weight_gradient"})
    rules +=
        ", {\"op\": \"" + op.str() + "\"" +
        llvm::formatv(ownRows ? ragged.data() : equal.data(), outer).str() +
        "}";
  return planWith(head, rules);
}

/// No token is dropped: each rank has room for all rows and uses those of its
/// experts.
TEST_F(VariantsTest, RaggedExperts) {
  EXPECT_LE(
      compare("mixtral", expertPlan(R"("mesh": {"ep": 2})", "\"ep\"", true)),
      kTolerance);
  ASSERT_TRUE(last);
  // Rows never travel, only tokens and sizes.
  last->walk([&](spmd::AllToAllOp op) {
    EXPECT_TRUE(typeOf(op.getX()).getElementType().isInteger(32));
  });
  last->walk([&](GroupedMatmulOp op) {
    EXPECT_EQ(typeOf(op.getWeight()).getDimSize(0), 2);
    EXPECT_EQ(typeOf(op.getX()).getDimSize(1), options.seq * 2);
  });
  EXPECT_LE(
      compare("mixtral", expertPlan(R"("mesh": {"ep": 4})", "\"ep\"", true)),
      kTolerance);
  EXPECT_LE(compare("mixtral", expertPlan(R"("mesh": {"dp": 2, "ep": 2})",
                                          "\"dp\", \"ep\"", true)),
            kTolerance);
}

/// With a capacity each rank has as many rows.
TEST_F(VariantsTest, ExpertsWithCapacity) {
  options.capacityFactor = 1.0;
  for (llvm::StringRef mesh : {R"("mesh": {"ep": 2})", R"("mesh": {"ep": 4})"})
    EXPECT_LE(compare("mixtral", expertPlan(mesh, "\"ep\"", false)),
              kTolerance);
  EXPECT_LE(compare("mixtral", expertPlan(R"("mesh": {"dp": 2, "ep": 2})",
                                          "\"dp\", \"ep\"", false)),
            kTolerance);
}

/// With a capacity rows may travel instead: cut by groups, then by experts.
TEST_F(VariantsTest, ExpertsByAllToAll) {
  options.capacityFactor = 1.0;
  EXPECT_LE(compare("mixtral", planWith(R"("mesh": {"ep": 2})", R"(
      {"op": "embedding", "factors": {"b": ["ep"]}},
      {"op": "dispatch", "factors": {"g": ["ep"]}},
      {"op": "combine", "factors": {"g": ["ep"]}},
      {"op": "combine_weight_gradient", "factors": {"g": ["ep"]}},
      {"op": "grouped_matmul", "factors": {"e": ["ep"]}},
      {"op": "grouped_weight_gradient", "factors": {"e": ["ep"]}})")),
            kTolerance);
  ASSERT_TRUE(last);
  EXPECT_GT(count<spmd::AllToAllOp>(*last), 0);
}

/// Rows of other ranks' experts are no rows of a group: a table that is cut by
/// groups cannot be one that is cut by experts.
TEST_F(VariantsTest, RaggedExpertsRefused) {
  std::string text = refusal("mixtral", planWith(R"("mesh": {"ep": 2})", R"(
      {"op": "embedding", "factors": {"b": ["ep"]}},
      {"op": "dispatch", "factors": {"g": ["ep"]}},
      {"op": "grouped_matmul", "factors": {"r": ["ep"], "e": ["ep"]},
       "routed": true})"));
  EXPECT_NE(text.find("rows that lie with their experts are needed elsewhere, "
                      "or others with experts"),
            std::string::npos)
      << text;
  text = refusal("mixtral", planWith(R"("mesh": {"ep": 2})", R"(
      {"op": "grouped_matmul", "factors": {"r": ["ep"]}, "routed": true})"));
  EXPECT_NE(text.find("so 'r' is cut by the same axes"), std::string::npos)
      << text;
  options.batch = 8;
  text = refusal("mixtral", expertPlan(R"("mesh": {"ep": 8})", "\"ep\"", true));
  EXPECT_NE(text.find("factor 'e' of size 4 does not divide into 8 parts"),
            std::string::npos)
      << text;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// The thirds of a fused query-key-value product: each rank has its heads' part
/// of each, weights rest so, and nothing is gathered for a slice. The second
/// plan leaves the weight's gradient whole, which is then cut in blocks.
TEST_F(VariantsTest, FusedThirds) {
  constexpr llvm::StringLiteral thirds = R"(
      {"op": "linear", "weight": "*.c_attn.weight", "factors": {"n": ["tp"]},
       "blocks": 3},
      {"op": "slice", "factors": {"x": ["tp"]}, "blocks": 3},
      {"op": "attention", "factors": {"g": ["tp"]}},
      {"op": "pad", "factors": {"x": ["tp"]}, "blocks": 3},
      {"op": "input_gradient 17", "factors": {"x": ["tp"]}, "blocks": 3},
      {"op": "input_gradient 15", "factors": {"x": ["tp"]}, "blocks": 3},
      {"op": "input_gradient 14", "factors": {"n": ["tp"]}, "blocks": 3})";
  constexpr llvm::StringLiteral gradients = R"(,
      {"op": "weight_gradient 14 0", "factors": {"n": ["tp"]}, "blocks": 3},
      {"op": "weight_gradient 14 1", "factors": {"x": ["tp"]}, "blocks": 3})";
  for (llvm::StringRef mesh :
       {R"("mesh": {"tp": 2})", R"("mesh": {"tp": 4})"}) {
    EXPECT_LE(compare("gpt2", planWith(mesh, (thirds + gradients).str())),
              kTolerance);
    ASSERT_TRUE(last);
    last->walk([&](spmd::ParamOp param) {
      if (param.getName().contains("c_attn"))
        EXPECT_EQ(param.getBlocks()->back(), 3);
    });
    last->walk([&](spmd::AllGatherOp op) {
      EXPECT_NE(typeOf(op.getResult()).getShape().back(), 96);
    });
    EXPECT_LE(compare("gpt2", planWith(mesh, thirds)), kTolerance);
  }
}

/// Heads that do not divide among ranks leave no equal parts of the thirds.
TEST_F(VariantsTest, FusedThirdsRefused) {
  std::string text = refusal("gpt2", planWith(R"("mesh": {"tp": 64})", R"(
      {"op": "linear", "weight": "*.c_attn.weight", "factors": {"n": ["tp"]},
       "blocks": 3})"));
  EXPECT_NE(text.find("factor 'n' of size 96 does not divide into"),
            std::string::npos)
      << text;
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

/// Leaves out each op of a kind in the functions of training, one at a time.
/// Returns how many programs were broken; each must be seen.
template <typename Op>
static int64_t leaveOutEach(ModuleOp program, const Training &expected) {
  for (int64_t target = 0;; ++target) {
    OwningOpRef<ModuleOp> copy(program.clone());
    Op op;
    int64_t number = 0;
    copy->walk([&](Op candidate) {
      auto func = candidate->template getParentOfType<spmd::FuncOp>();
      if (func.getSymName() != "evaluate" && number++ == target)
        op = candidate;
    });
    if (!op)
      return target;
    std::string what;
    llvm::raw_string_ostream(what) << *op.getOperation();
    op.getResult().replaceAllUsesWith(op.getX());
    op->erase();
    ScopedDiagnosticHandler quiet(program.getContext(),
                                  [](Diagnostic &) { return success(); });
    Training actual = trainProgram(*copy);
    bool same = !actual.losses.empty() &&
                errorOf(actual.gradients[0], expected.gradients[0]) <= 1e-9;
    EXPECT_FALSE(same) << what;
  }
}

/// A ring that stands still and rows that are not combined are seen.
TEST_F(VariantsTest, MistakesAreSeen) {
  options.batch = 2;
  auto step = stepOf("gpt2");
  Training expected = trainModel(*step->getOps<ModelOp>().begin());
  auto ring = programOf(*step, sequencePlan(2, "*wte*"));
  auto vocabulary = programOf(*step, vocabularyPlan(2, "*wte*"));
  ASSERT_TRUE(ring && vocabulary);
  EXPECT_EQ(leaveOutEach<spmd::RotateOp>(*ring, expected), 8);
  EXPECT_GE(leaveOutEach<spmd::AllReduceOp>(*vocabulary, expected), 4);
}
