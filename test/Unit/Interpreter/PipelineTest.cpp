//===- PipelineTest.cpp - Stages exchange messages and agree --------------===//
//
// Programs of small pipelines with results that follow by hand; then each way
// in which stages can miss each other, and what is said then.
//
//===----------------------------------------------------------------------===//

#include "RanksTesting.h"

using namespace kerf;

namespace {
struct PipelineTest : RanksTest {};

/// The update of either stage, up to that of its weight.
const std::string kUpdate = R"(
  spmd.func @update() {
    %g = spmd.read @gradient : tensor<2xf32>
    %rate = spmd.read @rate : tensor<f32>
    %step = spmd.read @step : tensor<i32>
    %q = kerf.mul %g, %g : tensor<2xf32>
    %s = kerf.reduce sum %q dims [0] : tensor<2xf32>
    %all = spmd.all_reduce sum %s over [pp] : tensor<f32>
    spmd.write %all to @squares : tensor<f32>
)";

/// loss = sum(w1 * w0 * x) over two micro-batches of two numbers; one weight
/// per stage. Stage 0 is one micro-batch ahead.
const std::string kTwoStages =
    R"(
spmd.program @first over <pp = 2> micro_batches 2 slots 2 {
  spmd.input @x global tensor<4xf32> sharded [[micro]] : tensor<2xf32>
  spmd.input @rate global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step global tensor<i32> sharded [] : tensor<i32>
  spmd.param "w0" global tensor<2xf32> sharded [[]] rule #kerf.sgd<> init <ones> : tensor<2xf32>
  spmd.buffer @gradient step : tensor<2xf32>
  spmd.output @squares last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2xf32>
    %w = kerf.param "w0" init<ones> : tensor<2xf32>
    %h = kerf.mul %x, %w : tensor<2xf32>
    spmd.send %h to 1 on "forward" : tensor<2xf32>
    spmd.return
  }
  spmd.func @backward() {
    %x = spmd.read @x : tensor<2xf32>
    %dh = spmd.recv from 1 on "backward" : tensor<2xf32>
    %dw = kerf.mul %x, %dh : tensor<2xf32>
    spmd.accumulate %dw into @gradient : tensor<2xf32>
    spmd.return
  }
)" + kUpdate +
    R"(    kerf.update "w0" rule #kerf.sgd<> by %g rate %rate step %step : tensor<2xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @forward micro 1
    spmd.call @backward micro 0
    spmd.call @backward micro 1
    spmd.call @update
  }
}
spmd.program @second over <pp = 2> stage 1 micro_batches 2 slots 1 {
  spmd.input @rate global tensor<f32> sharded [] : tensor<f32>
  spmd.input @step global tensor<i32> sharded [] : tensor<i32>
  spmd.param "w1" global tensor<2xf32> sharded [[]] rule #kerf.sgd<> init <ones> : tensor<2xf32>
  spmd.buffer @h slot : tensor<2xf32>
  spmd.buffer @gradient step : tensor<2xf32>
  spmd.output @loss sum : tensor<f32>
  spmd.output @squares last : tensor<f32>
  spmd.func @forward() {
    %h = spmd.recv from 0 on "forward" : tensor<2xf32>
    spmd.write %h to @h : tensor<2xf32>
    %w = kerf.param "w1" init<ones> : tensor<2xf32>
    %z = kerf.mul %h, %w : tensor<2xf32>
    %l = kerf.reduce sum %z dims [0] : tensor<2xf32>
    spmd.accumulate %l into @loss : tensor<f32>
    spmd.return
  }
  spmd.func @backward() {
    %w = kerf.param "w1" init<ones> : tensor<2xf32>
    spmd.send %w to 0 on "backward" : tensor<2xf32>
    %h = spmd.read @h : tensor<2xf32>
    spmd.accumulate %h into @gradient : tensor<2xf32>
    spmd.return
  }
)" + kUpdate +
    R"(    kerf.update "w1" rule #kerf.sgd<> by %g rate %rate step %step : tensor<2xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @forward micro 0
    spmd.call @backward micro 0
    spmd.call @forward micro 1
    spmd.call @backward micro 1
    spmd.call @update
  }
}
)";

const Values kInputs = {{"x", {1, 2, 3, 4}}, {"rate", {0.5}}, {"step", {1}}};
} // namespace

// Gradients of both weights are sum(x) over micro-batches, [4, 6]; after a step
// of rate 0.5 the weights are [-1, -2], and the losses of the micro-batches
// 1*1 + 4*2 and 1*3 + 4*4.
TEST_F(PipelineTest, TwoStages) {
  auto first = run(kTwoStages, kInputs);
  ASSERT_TRUE(first) << messages;
  EXPECT_EQ(*first, (Values{{"loss", {10}}, {"squares", {104}}}));
  EXPECT_EQ(valuesOf(state.gradients),
            (Values{{"w0", {4, 6}}, {"w1", {4, 6}}}));
  EXPECT_EQ(valuesOf(state.params),
            (Values{{"w0", {-1, -2}}, {"w1", {-1, -2}}}));
  auto second = run(kTwoStages, kInputs);
  ASSERT_TRUE(second) << messages;
  EXPECT_EQ(second->at("loss"), std::vector<double>({28}));
  EXPECT_EQ(valuesOf(state.params), (Values{{"w0", {1, 4}}, {"w1", {1, 4}}}));
}

// The loss comes first, whichever stage declares it.
TEST_F(PipelineTest, OutputsOfAllStages) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kTwoStages, &context);
  auto programs = getPipelines(*module).front();
  auto outputs = getOutputs(programs);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].getSymName(), "loss");
  EXPECT_EQ(outputs[1].getSymName(), "squares");
  EXPECT_EQ(getInputs(programs).size(), 3u);
}

// Channels that keep one message are enough for this schedule.
TEST_F(PipelineTest, ShortChannels) {
  options.channelHolds = 1;
  auto outputs = run(kTwoStages, kInputs);
  ASSERT_TRUE(outputs) << messages;
  EXPECT_EQ(outputs->at("loss"), std::vector<double>({10}));
}

// Messages go between ranks that differ in `pp` alone, wherever that axis
// stands in the mesh: each rank's own part of x comes back to it, times ten.
TEST_F(PipelineTest, PairsOfRanks) {
  const std::string text = R"(
    spmd.program @a over <MESH> micro_batches 1 slots 1 {
      spmd.input @x global tensor<6xf32> sharded [[dp]] : tensor<2xf32>
      spmd.output @y last : tensor<6xf32>
      spmd.func @forward() {
        %x = spmd.read @x : tensor<2xf32>
        spmd.send %x to 1 on "there" : tensor<2xf32>
        %back = spmd.recv from 1 on "back" : tensor<2xf32>
        %sum = kerf.add %x, %back : tensor<2xf32>
        %y = spmd.all_gather %sum dim 0 over [dp] : tensor<2xf32> -> tensor<6xf32>
        spmd.write %y to @y : tensor<6xf32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @forward
      }
    }
    spmd.program @b over <MESH> stage 1 micro_batches 1 slots 1 {
      spmd.func @forward() {
        %x = spmd.recv from 0 on "there" : tensor<2xf32>
        %ten = kerf.constant dense<10.0> : tensor<2xf32>
        %y = kerf.mul %x, %ten : tensor<2xf32>
        spmd.send %y to 0 on "back" : tensor<2xf32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @forward
      }
    })";
  for (llvm::StringRef mesh : {"dp = 3, pp = 2", "pp = 2, dp = 3"}) {
    std::string here = text;
    for (size_t at; (at = here.find("MESH")) != std::string::npos;)
      here.replace(at, 4, mesh);
    auto outputs = run(here, {{"x", {1, 2, 3, 4, 5, 6}}});
    ASSERT_TRUE(outputs) << messages;
    EXPECT_EQ(outputs->at("y"), std::vector<double>({11, 22, 33, 44, 55, 66}));
  }
}

// Two chunks per stage: layers 0 and 2 on one stage, 1 and 3 on the other, so a
// value passes each stage twice, over channels with one name. The loss is the
// product of weights and input, 2 * 3 * 5 * 7 * x; the gradient of a weight is
// the loss without it.
TEST_F(PipelineTest, Chunks) {
  auto chunk = [](int stage, int chunk, int layer) {
    std::string name = chunk ? "_1" : "";
    bool isFirst = layer == 0, isLast = layer == 3;
    std::string other = std::to_string(1 - stage), l = std::to_string(layer),
                end = std::to_string(layer + 1);
    auto param = R"(
      %w = kerf.repeat %i = )" +
                 l + " to " + end + R"( () {
        %p = kerf.param "h.{i}.w" init<ones> : tensor<1xf32>
        kerf.yield stack(%p) : tensor<1xf32>
      }
      %v = kerf.reshape %w : tensor<1x1xf32> -> tensor<1xf32>)";
    return "spmd.param \"h.{i}.w\" [" + l + " to " + end +
           "] global tensor<1xf32> sharded [[]] rule #kerf.sgd<> init <ones> : "
           "tensor<1xf32>\n"
           "spmd.buffer @in" +
           name +
           " slot : tensor<1xf32>\n"
           "spmd.buffer @gradient" +
           name +
           " step : tensor<1xf32>\n"
           "spmd.func @forward" +
           name + "() {\n" +
           (isFirst ? "%x = spmd.read @x : tensor<1xf32>\n"
                    : "%x = spmd.recv from " + other +
                          " on \"forward\" : tensor<1xf32>\n") +
           "spmd.write %x to @in" + name + " : tensor<1xf32>\n" + param + R"(
      %y = kerf.mul %x, %v : tensor<1xf32>
      )" +
           (isLast ? "spmd.accumulate %y into @loss : tensor<1xf32>\n"
                   : "spmd.send %y to " + other +
                         " on \"forward\" : tensor<1xf32>\n") +
           "spmd.return\n}\nspmd.func @backward" + name + "() {\n" +
           (isLast ? "%dy = kerf.constant dense<1.0> : tensor<1xf32>\n"
                   : "%dy = spmd.recv from " + other +
                         " on \"backward\" : tensor<1xf32>\n") +
           param + "%dx = kerf.mul %dy, %v : tensor<1xf32>\n" +
           (isFirst ? ""
                    : "spmd.send %dx to " + other +
                          " on \"backward\" : tensor<1xf32>\n") +
           "%x = spmd.read @in" + name + R"( : tensor<1xf32>
      %dw = kerf.mul %dy, %x : tensor<1xf32>
      spmd.accumulate %dw into @gradient)" +
           name + R"( : tensor<1xf32>
      spmd.return
    }
    spmd.func @update)" +
           name + "() {\n%g0 = spmd.read @gradient" + name + R"( : tensor<1xf32>
      %g = kerf.reshape %g0 : tensor<1xf32> -> tensor<1x1xf32>
      %rate = kerf.constant dense<1.0> : tensor<f32>
      %step = kerf.constant dense<1> : tensor<i32>
      kerf.update "h.{i}.w" [)" +
           l + " to " + end +
           R"(] rule #kerf.sgd<> by %g rate %rate step %step : tensor<1x1xf32>
      spmd.return
    }
    )";
  };
  std::string schedule = "spmd.schedule \"train\" {\n";
  for (const char *call :
       {"forward micro 0", "forward micro 1", "forward_1 micro 0",
        "forward_1 micro 1", "backward_1 micro 0", "backward_1 micro 1",
        "backward micro 0", "backward micro 1", "update", "update_1"})
    schedule += std::string("spmd.call @") + call + "\n";
  auto text =
      "spmd.program @a over <pp = 2> micro_batches 2 slots 2 {\n"
      "spmd.input @x global tensor<2xf32> sharded [[micro]] : tensor<1xf32>\n" +
      chunk(0, 0, 0) + chunk(0, 1, 2) + schedule +
      "}\n}\n"
      "spmd.program @b over <pp = 2> stage 1 micro_batches 2 slots 2 {\n"
      "spmd.output @loss sum : tensor<1xf32>\n" +
      chunk(1, 0, 1) + chunk(1, 1, 3) + schedule + "}\n}\n";
  const double weights[] = {2, 3, 5, 7};
  for (int i = 0; i < 4; ++i)
    setParam("h." + std::to_string(i) + ".w", {1}, {weights[i]});
  auto outputs = run(text, {{"x", {1, 10}}});
  ASSERT_TRUE(outputs) << messages;
  EXPECT_EQ(outputs->at("loss"), std::vector<double>({2310}));
  for (int i = 0; i < 4; ++i) {
    std::string name = "h." + std::to_string(i) + ".w";
    double gradient = 2310 / weights[i];
    EXPECT_EQ(state.gradients[name].data, std::vector<double>({gradient}));
    EXPECT_EQ(state.params[name].data,
              std::vector<double>({weights[i] - gradient}));
  }
}

// A stage may have to wait within a repeat, and goes on there. The sender
// doubles its value thrice; the receiver adds up what comes, and both add 1 +
// 10 over the stages each time.
TEST_F(PipelineTest, WaitInRepeat) {
  options.channelHolds = 1;
  auto outputs = run(R"(
    spmd.program @a over <pp = 2> micro_batches 1 slots 1 {
      spmd.output @sent last : tensor<3x1xf32>
      spmd.func @forward() {
        %one = kerf.constant dense<1.0> : tensor<1xf32>
        %last, %all = kerf.repeat %i = 0 to 3 (%h = %one : tensor<1xf32>) {
          spmd.send %h to 1 on "forward" : tensor<1xf32>
          %sum = spmd.all_reduce sum %one over [pp] : tensor<1xf32>
          %next = kerf.add %h, %h : tensor<1xf32>
          %stacked = kerf.add %next, %sum : tensor<1xf32>
          kerf.yield %next stack(%stacked) : tensor<1xf32>, tensor<1xf32>
        }
        spmd.write %all to @sent : tensor<3x1xf32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @forward
      }
    }
    spmd.program @b over <pp = 2> stage 1 micro_batches 1 slots 1 {
      spmd.output @received last : tensor<1xf32>
      spmd.func @forward() {
        %ten = kerf.constant dense<10.0> : tensor<1xf32>
        %zero = kerf.constant dense<0.0> : tensor<1xf32>
        %total = kerf.repeat %i = 0 to 3 (%t = %zero : tensor<1xf32>) {
          %h = spmd.recv from 0 on "forward" : tensor<1xf32>
          %sum = spmd.all_reduce sum %ten over [pp] : tensor<1xf32>
          %s = kerf.add %t, %h : tensor<1xf32>
          %next = kerf.add %s, %sum : tensor<1xf32>
          kerf.yield %next : tensor<1xf32>
        }
        spmd.write %total to @received : tensor<1xf32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @forward
      }
    })");
  ASSERT_TRUE(outputs) << messages;
  EXPECT_EQ(outputs->at("sent"), std::vector<double>({13, 15, 19}));
  EXPECT_EQ(outputs->at("received"), std::vector<double>({1 + 2 + 4 + 33}));
}

//===----------------------------------------------------------------------===//
// Parameters of two stages
//===----------------------------------------------------------------------===//

namespace {
/// loss = w * w * 5 + ..., with w on both stages: stage 0 has the gradient 3,
/// stage 1 has 4, and each updates its copy by the sum.
const std::string kTied = R"(
spmd.program @a over <pp = 2> micro_batches 1 slots 1 {
  spmd.param "w" global tensor<1xf32> sharded [[]] rule #kerf.sgd<> init <ones> : tensor<1xf32>
  spmd.func @update() {
    %own = kerf.constant dense<3.0> : tensor<1xf32>
    spmd.send %own to 1 on "update" : tensor<1xf32>
    %other = spmd.recv from 1 on "update" : tensor<1xf32>
    %g = kerf.add %own, %other : tensor<1xf32>
    %rate = kerf.constant dense<1.0> : tensor<f32>
    %step = kerf.constant dense<1> : tensor<i32>
    kerf.update "w" rule #kerf.sgd<> by %g rate %rate step %step : tensor<1xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}
spmd.program @b over <pp = 2> stage 1 micro_batches 1 slots 1 {
  spmd.param "w" global tensor<1xf32> sharded [[]] rule #kerf.sgd<> init <ones> : tensor<1xf32>
  spmd.func @update() {
    %own = kerf.constant dense<4.0> : tensor<1xf32>
    spmd.send %own to 0 on "update" : tensor<1xf32>
    %other = spmd.recv from 0 on "update" : tensor<1xf32>
    %g = kerf.add %other, %own : tensor<1xf32>
    %rate = kerf.constant dense<1.0> : tensor<f32>
    %step = kerf.constant dense<1> : tensor<i32>
    kerf.update "w" rule #kerf.sgd<> by %g rate %rate step %step : tensor<1xf32>
    spmd.return
  }
  spmd.schedule "train" {
    spmd.call @update
  }
}
)";
} // namespace

TEST_F(PipelineTest, TiedParameter) {
  ASSERT_TRUE(run(kTied)) << messages;
  EXPECT_EQ(valuesOf(state.gradients), (Values{{"w", {7}}}));
  EXPECT_EQ(valuesOf(state.params), (Values{{"w", {-6}}}));
}

// A stage that forgets the other's part of the gradient is seen.
TEST_F(PipelineTest, TiedParameterDiffers) {
  EXPECT_EQ(failureOf(replaced(kTied, "kerf.add %other, %own",
                               "kerf.add %own, %own")),
            "'spmd.param' op parameter \"w\": stage 1 holds another value than "
            "a stage "
            "before it, at element 0\n");
}

// A stage that runs further ahead than it has slots reads a later micro-batch.
TEST_F(PipelineTest, TooFewSlots) {
  std::string text = replaced(kTwoStages, "micro_batches 2 slots 1",
                              "micro_batches 2 slots 2");
  EXPECT_TRUE(run(text, kInputs)) << messages;
  const char *calls = "spmd.call @backward micro 0\n"
                      "    spmd.call @forward micro 1";
  const char *ahead = "spmd.call @forward micro 1\n"
                      "    spmd.call @backward micro 0";
  EXPECT_TRUE(run(replaced(text, calls, ahead), kInputs)) << messages;
  EXPECT_EQ(failureOf(replaced(kTwoStages, calls, ahead), kInputs),
            "'spmd.read' op of @h for micro-batch 0 finds that of micro-batch "
            "1\n");
}
