//===- PiecesTest.cpp - State in pieces, in blocks, and rings -------------===//
//
// Parameters whose state, or which themselves, rest in pieces on several ranks.
// The same updates of a model on global tensors say what must come out. Then
// results by hand of dimensions cut in blocks and of rings of ranks.
//
//===----------------------------------------------------------------------===//

#include "RanksTesting.h"

using namespace kerf;

namespace {
struct PiecesTest : RanksTest {
  /// Two steps on gradients that sum up to those of `kModel`, into `state`.
  bool trainPieces(const std::string &text);
  /// Two steps of a model with these updates.
  TrainingState trainModel(const std::string &text);
};

/// Gradients of two ranks, one row each.
std::vector<double> gradientsOf(int64_t step, int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(((i * 7 + step * 3) % 11 - 4) * 0.25);
  return values;
}
} // namespace

bool PiecesTest::trainPieces(const std::string &text) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  auto programs = getPipelines(*module).front();
  spmd::InputOp input = getInputs(programs).front();
  auto type = mlir::cast<mlir::RankedTensorType>(input.getGlobal());
  for (int64_t step = 1; step <= 2; ++step)
    if (!run(text, {{"g", gradientsOf(step, type.getNumElements())},
                    {"step", {double(step)}}}))
      return false;
  return true;
}

TrainingState PiecesTest::trainModel(const std::string &text) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ModelOp model = *module->getOps<ModelOp>().begin();
  Interpreter interpreter(model, options);
  TrainingState expected;
  for (int64_t step = 1; step <= 2; ++step) {
    auto inputs = makeInputs(model, 0, step, 0);
    inputs[0].data = gradientsOf(step, inputs[0].size());
    EXPECT_TRUE(succeeded(interpreter.run(inputs, expected)));
  }
  return expected;
}

static void expectSame(const TrainingState &actual,
                       const TrainingState &expected) {
  EXPECT_EQ(valuesOf(actual.params), valuesOf(expected.params));
  EXPECT_EQ(valuesOf(actual.masters), valuesOf(expected.masters));
  EXPECT_EQ(valuesOf(actual.optimizer), valuesOf(expected.optimizer));
  EXPECT_EQ(valuesOf(actual.gradients), valuesOf(expected.gradients));
}

//===----------------------------------------------------------------------===//
// ZeRO
//===----------------------------------------------------------------------===//

namespace {
/// Five elements on two ranks: pieces of three, the last one padded.
const std::string kPieces = R"(
spmd.program @p over <dp = 2> micro_batches 1 slots 1 {
  spmd.input @g global tensor<2x5xf32> sharded [[dp], []] : tensor<1x5xf32>
  spmd.input @step global tensor<i32> sharded [] : tensor<i32>
  spmd.param "w" global tensor<5xbf16> sharded [[]] state over [dp] rule #kerf.adamw<weight_decay = 0.5> init <normal, 1.0> master f32 : tensor<5xbf16>
  spmd.func @update() {
    %g1 = spmd.read @g : tensor<1x5xf32>
    %g2 = kerf.reshape %g1 : tensor<1x5xf32> -> tensor<5xf32>
    %g3 = kerf.pad %g2 low [0] high [1] : tensor<5xf32>
    %g = spmd.reduce_scatter sum %g3 dim 0 over [dp] : tensor<6xf32> -> tensor<3xf32>
    %rate = kerf.constant dense<0.125> : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    kerf.update "w" rule #kerf.adamw<weight_decay = 0.5> by %g rate %rate step %step into bf16 : tensor<3xf32>
    spmd.gather_param "w"
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}
)";

const std::string kPiecesModel = R"(
kerf.model @m(%g: tensor<2x5xf32>, step %step: tensor<i32>) {
  %w = kerf.param "w" init<normal, 1.0> master f32 : tensor<5xbf16>
  %s = kerf.reduce sum %g dims [0] : tensor<2x5xf32>
  %rate = kerf.constant dense<0.125> : tensor<f32>
  kerf.update "w" rule #kerf.adamw<weight_decay = 0.5> by %s rate %rate step %step into bf16 : tensor<5xf32>
  kerf.return %rate : tensor<f32>
}
)";
} // namespace

// Masters and moments in pieces; in rounded arithmetic, so that a master that
// is taken from the parameter would be seen.
TEST_F(PiecesTest, StateInPieces) {
  options.f64 = false;
  ASSERT_TRUE(trainPieces(kPieces)) << messages;
  expectSame(state, trainModel(kPiecesModel));
  EXPECT_EQ(state.optimizer.at("w.m").shape(), llvm::ArrayRef<int64_t>({5}));
}

// Without the gather each rank has updated its own piece alone.
TEST_F(PiecesTest, ForgottenGather) {
  EXPECT_FALSE(trainPieces(replaced(kPieces, "spmd.gather_param \"w\"", "")));
  EXPECT_EQ(
      messages,
      "'spmd.param' op parameter \"w\": rank 0 holds another value than a "
      "rank with the same part, at element 0\n");
}

// Padding that is not zero would count in norms.
TEST_F(PiecesTest, PaddingIsZero) {
  std::string text = replaced(
      kPieces, "%g3 = kerf.pad %g2 low [0] high [1] : tensor<5xf32>",
      "%one = kerf.constant dense<1.0> : tensor<1xf32>\n"
      "%g3 = kerf.concat dim 0 %g2, %one : tensor<5xf32>, tensor<1xf32>");
  EXPECT_FALSE(trainPieces(text));
  EXPECT_EQ(messages,
            "'spmd.param' op master \"w\": rank 1 holds another value than a "
            "rank with the same part, at element 2\n");
}

// A gradient that is not cut in pieces does not fit.
TEST_F(PiecesTest, WholeGradient) {
  std::string text = replaced(kPieces, "by %g rate", "by %g2 rate");
  text =
      replaced(text, "into bf16 : tensor<3xf32>", "into bf16 : tensor<5xf32>");
  EXPECT_FALSE(trainPieces(text));
  EXPECT_NE(messages.find("of \"w\" by 'tensor<5xf32>'"), std::string::npos)
      << messages;
}

// A stack of layers, cut over one axis and in pieces over another. The shard of
// 3 * 5 elements is two pieces of 8. Ranks update whole stacks of pieces.
TEST_F(PiecesTest, LayersInPieces) {
  ASSERT_TRUE(trainPieces(R"(
    spmd.program @p over <tp = 2, dp = 2> micro_batches 1 slots 1 {
      spmd.input @g global tensor<2x2x6x5xf32> sharded [[dp], [], [tp], []] : tensor<1x2x3x5xf32>
      spmd.input @step global tensor<i32> sharded [] : tensor<i32>
      spmd.param "h.{i}.w" [0 to 2] global tensor<6x5xf32> sharded [[tp], []] state over [dp] rule #kerf.sgd<momentum = 0.5> init <normal, 1.0> : tensor<3x5xf32>
      spmd.func @update() {
        %g1 = spmd.read @g : tensor<1x2x3x5xf32>
        %g2 = kerf.reshape %g1 : tensor<1x2x3x5xf32> -> tensor<2x15xf32>
        %g3 = kerf.pad %g2 low [0, 0] high [0, 1] : tensor<2x15xf32>
        %g = spmd.reduce_scatter sum %g3 dim 1 over [dp] : tensor<2x16xf32> -> tensor<2x8xf32>
        %rate = kerf.constant dense<0.125> : tensor<f32>
        %step = spmd.read @step : tensor<i32>
        kerf.update "h.{i}.w" [0 to 2] rule #kerf.sgd<momentum = 0.5> by %g rate %rate step %step : tensor<2x8xf32>
        spmd.gather_param "h.{i}.w" [0 to 2]
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @update
      }
    })"))
      << messages;
  expectSame(state, trainModel(R"(
    kerf.model @m(%g: tensor<2x2x6x5xf32>, step %step: tensor<i32>) {
      %all = kerf.repeat %i = 0 to 2 () {
        %w = kerf.param "h.{i}.w" init<normal, 1.0> : tensor<6x5xf32>
        kerf.yield stack(%w) : tensor<6x5xf32>
      }
      %s = kerf.reduce sum %g dims [0] : tensor<2x2x6x5xf32>
      %rate = kerf.constant dense<0.125> : tensor<f32>
      kerf.update "h.{i}.w" [0 to 2] rule #kerf.sgd<momentum = 0.5> by %s rate %rate step %step : tensor<2x6x5xf32>
      kerf.return %rate : tensor<f32>
    })"));
}

// The weight is stored in pieces too: it is gathered where it is read, and no
// gather follows the update. The gradient of sum(w * w) / 2 is w, here on each
// rank a half of it.
TEST_F(PiecesTest, WeightsInPieces) {
  setParam("w", {5}, {1, 2, 3, 4, 5});
  auto outputs = run(R"(
    spmd.program @p over <dp = 2> micro_batches 1 slots 1 {
      spmd.param "w" global tensor<5xf32> sharded [[]] state over [dp] weights over [dp] rule #kerf.sgd<> init <ones> : tensor<3xf32>
      spmd.output @w last : tensor<5xf32>
      spmd.func @update() {
        %p = kerf.param "w" init<ones> : tensor<3xf32>
        %all = spmd.all_gather %p dim 0 over [dp] : tensor<3xf32> -> tensor<6xf32>
        %w = kerf.slice %all offsets [0] sizes [5] : tensor<6xf32>
        spmd.write %w to @w : tensor<5xf32>
        %half = kerf.constant dense<0.5> : tensor<5xf32>
        %g1 = kerf.mul %w, %half : tensor<5xf32>
        %g2 = kerf.pad %g1 low [0] high [1] : tensor<5xf32>
        %g = spmd.reduce_scatter sum %g2 dim 0 over [dp] : tensor<6xf32> -> tensor<3xf32>
        %rate = kerf.constant dense<0.5> : tensor<f32>
        %step = kerf.constant dense<1> : tensor<i32>
        kerf.update "w" rule #kerf.sgd<> by %g rate %rate step %step : tensor<3xf32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @update
      }
    })");
  ASSERT_TRUE(outputs) << messages;
  EXPECT_EQ(outputs->at("w"), std::vector<double>({1, 2, 3, 4, 5}));
  EXPECT_EQ(valuesOf(state.gradients), (Values{{"w", {1, 2, 3, 4, 5}}}));
  EXPECT_EQ(valuesOf(state.params), (Values{{"w", {0.5, 1, 1.5, 2, 2.5}}}));
}

//===----------------------------------------------------------------------===//
// Blocks and rings
//===----------------------------------------------------------------------===//

// Each third of a fused weight is cut: a rank has its part of the first third,
// of the second, of the third. Halving what it has halves the whole.
TEST_F(PiecesTest, Blocks) {
  setParam("w", {12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  auto outputs = run(R"(
    spmd.program @p over <tp = 2> micro_batches 1 slots 1 {
      spmd.param "w" global tensor<12xf32> sharded [[tp]] blocks [3] rule #kerf.sgd<> init <ones> : tensor<6xf32>
      spmd.output @w last : tensor<12xf32>
      spmd.func @update() {
        %w = kerf.param "w" init<ones> : tensor<6xf32>
        %all = spmd.all_gather %w dim 0 over [tp] : tensor<6xf32> -> tensor<12xf32>
        spmd.write %all to @w : tensor<12xf32>
        %rate = kerf.constant dense<0.5> : tensor<f32>
        %step = kerf.constant dense<1> : tensor<i32>
        kerf.update "w" rule #kerf.sgd<> by %w rate %rate step %step : tensor<6xf32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @update
      }
    })");
  ASSERT_TRUE(outputs) << messages;
  EXPECT_EQ(outputs->at("w"),
            std::vector<double>({0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(valuesOf(state.params),
            (Values{{"w", {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5}}}));
}

// Blocks of a second dimension, over two axes, in pieces: what rests on ranks
// is put together as it was.
TEST_F(PiecesTest, BlocksInPieces) {
  std::vector<double> values;
  for (int i = 0; i < 2 * 8; ++i)
    values.push_back(i);
  setParam("w", {2, 8}, values);
  auto outputs = run(R"(
    spmd.program @p over <tp = 2, dp = 3> micro_batches 1 slots 1 {
      spmd.param "w" global tensor<2x8xf32> sharded [[], [tp]] blocks [1, 2] state over [dp] weights over [dp] rule #kerf.sgd<> init <ones> : tensor<3xf32>
      spmd.output @w last : tensor<2x9xf32>
      spmd.func @update() {
        %p = kerf.param "w" init<ones> : tensor<3xf32>
        %q = spmd.all_gather %p dim 0 over [tp, dp] : tensor<3xf32> -> tensor<18xf32>
        %all = kerf.reshape %q : tensor<18xf32> -> tensor<2x9xf32>
        spmd.write %all to @w : tensor<2x9xf32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @update
      }
    })");
  ASSERT_TRUE(outputs) << messages;
  // The shard of place 0 is columns 0, 1, 4, 5 of both rows, then one zero.
  EXPECT_EQ(outputs->at("w"),
            std::vector<double>({0, 1, 4, 5, 8, 9, 12, 13, 0, //
                                 2, 3, 6, 7, 10, 11, 14, 15, 0}));
  EXPECT_EQ(state.params.at("w").data, values);
}

// Each rank gets the value of the next one of its own group.
TEST_F(PiecesTest, Rotate) {
  auto outputs = run(R"(
    spmd.program @p over <cp = 3, dp = 2> micro_batches 1 slots 1 {
      spmd.input @x global tensor<6xf32> sharded [[dp, cp]] : tensor<1xf32>
      spmd.output @y last : tensor<6xf32>
      spmd.output @z last : tensor<6xf32>
      spmd.func @forward() {
        %x = spmd.read @x : tensor<1xf32>
        %r = spmd.rotate %x over [cp] : tensor<1xf32>
        %y = spmd.all_gather %r dim 0 over [dp, cp] : tensor<1xf32> -> tensor<6xf32>
        spmd.write %y to @y : tensor<6xf32>
        %s = spmd.rotate %x over [dp, cp] : tensor<1xf32>
        %z = spmd.all_gather %s dim 0 over [dp, cp] : tensor<1xf32> -> tensor<6xf32>
        spmd.write %z to @z : tensor<6xf32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @forward
      }
    })",
                     {{"x", {1, 2, 3, 4, 5, 6}}});
  ASSERT_TRUE(outputs) << messages;
  EXPECT_EQ(outputs->at("y"), std::vector<double>({2, 3, 1, 5, 6, 4}));
  EXPECT_EQ(outputs->at("z"), std::vector<double>({2, 3, 4, 5, 6, 1}));
}
