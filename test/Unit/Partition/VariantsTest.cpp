//===- VariantsTest.cpp - ops that communicate inside ---------------------===//
//
// Steps of tiny models are partitioned by plans that use variants of ops,
// routed rows and cuts in blocks, run on virtual ranks in f64, and compared
// with the step on one rank: losses, gradients and parameters of two steps.
//
//===----------------------------------------------------------------------===//

#include "PartitionTesting.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace kerf;

namespace {
class VariantsTest : public PartitionTest {
protected:
  /// The first error that partitioning gives, with its notes.
  std::string refusal(llvm::StringRef model, const std::string &plan);
};
} // namespace

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
  EXPECT_NE(
      text.find("the variant 'ring' splits factors 'q' and 'k' by the same "
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
  EXPECT_NE(
      text.find("factor 'n' is split by micro-batches, which are not there "
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

/// Tokens stay with their ranks, and their rows are exchanged.
static std::string exchangePlan(llvm::StringRef head, llvm::StringRef batch) {
  constexpr llvm::StringLiteral variant = R"("variant": ["all_to_all"]})";
  size_t comma = batch.rfind(", ");
  llvm::StringRef outer =
      comma == llvm::StringRef::npos ? "" : batch.take_front(comma);
  std::string rules =
      llvm::formatv(R"({{"op": "embedding", "factors": {{"b": [{0}]}})", batch);
  for (llvm::StringRef op : {"dispatch", "combine", "combine_weight_gradient"})
    rules += llvm::formatv(
        R"(, {{"op": "{0}", "factors": {{"g": [{1}], "r": ["ep"]}, {2})", op,
        batch, variant);
  for (llvm::StringRef op : {"grouped_matmul", "grouped_weight_gradient"})
    rules += llvm::formatv(
        R"(, {{"op": "{0}", "factors": {{"g": [{1}], "r": ["ep"], )"
        R"("e": ["ep"]}, {2})",
        op, outer, variant);
  return planWith(head, rules);
}

/// Rows travel in rooms of one size. Of four groups, two choices of four
/// experts: with room for all a table has the rows of all ranks, with half as
/// much as that half of them.
TEST_F(VariantsTest, ExchangedRows) {
  options.batch = 4;
  struct Layout {
    llvm::StringRef head, batch;
    int64_t rows; ///< of a table
  };
  int64_t choices = options.batch * options.seq * 2;
  for (const Layout &layout :
       {Layout{R"("mesh": {"ep": 2})", "\"ep\"", choices},
        Layout{R"("mesh": {"ep": 2}, "moe_buffer": 1.75)", "\"ep\"",
               choices * 7 / 8},
        Layout{R"("mesh": {"ep": 4}, "moe_buffer": 2)", "\"ep\"", choices / 2},
        Layout{R"("mesh": {"dp": 2, "ep": 2}, "moe_buffer": 1.75)",
               "\"dp\", \"ep\"", choices * 7 / 16},
        Layout{R"("mesh": {"ep": 2}, "micro_batches": 2)", "\"micro\", \"ep\"",
               choices / 2}}) {
    EXPECT_LE(compare("mixtral", exchangePlan(layout.head, layout.batch)),
              kTolerance)
        << layout.head.str();
    ASSERT_TRUE(last);
    last->walk([&](GroupedMatmulOp op) {
      EXPECT_EQ(typeOf(op.getX()).getDimSize(1), layout.rows);
    });
    // Out and back in the step and in the evaluation; in the backward pass
    // gradients out and back, and what experts made once more.
    int64_t exchanges = 0;
    last->walk([&](spmd::AllToAllOp op) {
      exchanges += isa<FloatType>(typeOf(op.getX()).getElementType());
    });
    EXPECT_EQ(exchanges, 7);
  }
}

TEST_F(VariantsTest, ExchangedRowsRefused) {
  std::string text = refusal("mixtral", planWith(R"("mesh": {"ep": 2})", R"(
      {"op": "embedding", "factors": {"b": ["ep"]}},
      {"op": "dispatch", "factors": {"r": ["ep"]},
       "variant": ["all_to_all"]})"));
  EXPECT_NE(text.find("the variant 'all_to_all' moves rows from parts of 'g' "
                      "to those of 'r', whose axes are the last of the former"),
            std::string::npos)
      << text;
  // Exchanged rows lie in another order than gathered ones.
  text = refusal("mixtral", planWith(R"("mesh": {"ep": 2})", R"(
      {"op": "embedding", "factors": {"b": ["ep"]}},
      {"op": "dispatch", "factors": {"g": ["ep"], "r": ["ep"]},
       "variant": ["all_to_all"]},
      {"op": "grouped_matmul", "factors": {"r": ["ep"], "e": ["ep"]},
       "routed": true})"));
  EXPECT_NE(text.find("rows that lie with their experts are needed elsewhere, "
                      "or others with experts"),
            std::string::npos)
      << text;
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
  EXPECT_NE(text.find("so 'r' is split by the same axes"), std::string::npos)
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

/// The thirds of a fused query-key-value matmul: each rank has its heads' part
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

/// The op's value is its operand.
template <typename Op> static bool leaveOut(Operation *op) {
  auto found = dyn_cast<Op>(op);
  if (!found)
    return false;
  found.getResult().replaceAllUsesWith(found.getX());
  op->erase();
  return true;
}

/// Every rank keeps what it should send.
static bool keepOwn(Operation *op) {
  auto exchange = dyn_cast<spmd::AllToAllOp>(op);
  if (!exchange)
    return false;
  OpBuilder builder(op);
  Value own = ReshapeOp::create(
      builder, op->getLoc(), exchange.getResult().getType(), exchange.getX());
  exchange.getResult().replaceAllUsesWith(own);
  op->erase();
  return true;
}

/// Rows, and the counts that say whose they are, that do not travel are seen.
TEST_F(VariantsTest, KeptRowsAreSeen) {
  options.batch = 4;
  auto step = stepOf("mixtral");
  TrainingRun expected = trainStep(modelIn(*step), data);
  auto programs =
      programOf(*step, exchangePlan(R"("mesh": {"ep": 2}, "moe_buffer": 1.75)",
                                    "\"ep\""));
  ASSERT_TRUE(programs);
  // Rows five times, and in each pass the counts, for places and for matmuls.
  EXPECT_EQ(breakEach(*programs, expected, keepOwn), 9);
}

/// A ring that stands still and rows that are not combined are seen.
TEST_F(VariantsTest, MistakesAreSeen) {
  options.batch = 2;
  auto step = stepOf("gpt2");
  TrainingRun expected = trainStep(modelIn(*step), data);
  auto ring = programOf(*step, sequencePlan(2, "*wte*"));
  auto vocabulary = programOf(*step, vocabularyPlan(2, "*wte*"));
  ASSERT_TRUE(ring && vocabulary);
  EXPECT_EQ(breakEach(*ring, expected, leaveOut<spmd::RotateOp>), 8);
  EXPECT_GE(breakEach(*vocabulary, expected, leaveOut<spmd::AllReduceOp>), 4);
}
