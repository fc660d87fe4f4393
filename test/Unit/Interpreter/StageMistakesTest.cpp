//===- StageMistakesTest.cpp - Stages that miss each other ----------------===//
//
// Each way in which the stages of a pipeline can fail to fit together, and what
// is said then.
//
//===----------------------------------------------------------------------===//

#include "RanksTesting.h"

using namespace kerf;

namespace {
struct StageMistakesTest : RanksTest {};

/// Two stages whose functions are these.
std::string stagesOf(llvm::StringRef first, llvm::StringRef second,
                     llvm::StringRef declared = "") {
  auto program = [&](llvm::StringRef head, llvm::StringRef body) {
    return ("spmd.program " + head + " micro_batches 2 slots 1 {\n" + declared +
            "spmd.func @forward() {\n"
            "%a = kerf.constant dense<1.0> : tensor<4xf32>\n"
            "%b = kerf.constant dense<2.0> : tensor<2xf32>\n" +
            body +
            "spmd.return\n}\n"
            "spmd.schedule \"train\" {\nspmd.call @forward\n}\n}\n")
        .str();
  };
  return program("@a over <pp = 2>", first) +
         program("@b over <pp = 2> stage 1", second);
}
} // namespace

// Both receive before they send.
TEST_F(StageMistakesTest, Deadlock) {
  EXPECT_EQ(failureOf(stagesOf(R"(
    %x = spmd.recv from 1 on "backward" : tensor<4xf32>
    spmd.send %a to 1 on "forward" : tensor<4xf32>
    )",
                               R"(
    %x = spmd.recv from 0 on "forward" : tensor<4xf32>
    spmd.send %a to 0 on "backward" : tensor<4xf32>
    )")),
            "'spmd.program' op never ends: no stage can go on\n"
            "note: stage 0 waits for a message of stage 1 on \"backward\"\n"
            "note: stage 1 waits for a message of stage 0 on \"forward\"\n");
}

// The second message finds the channel full, and the receiver wants one that
// comes after it. With room for both there is no problem.
TEST_F(StageMistakesTest, FullChannel) {
  std::string text = stagesOf(R"(
    spmd.send %a to 1 on "forward" : tensor<4xf32>
    spmd.send %a to 1 on "forward" : tensor<4xf32>
    spmd.send %b to 1 on "other" : tensor<2xf32>
    )",
                              R"(
    %x = spmd.recv from 0 on "other" : tensor<2xf32>
    %y = spmd.recv from 0 on "forward" : tensor<4xf32>
    %z = spmd.recv from 0 on "forward" : tensor<4xf32>
    )");
  for (int64_t holds : {0, 2}) {
    options.channelHolds = holds;
    EXPECT_TRUE(run(text)) << messages;
  }
  options.channelHolds = 1;
  EXPECT_EQ(failureOf(text),
            "'spmd.program' op never ends: no stage can go on\n"
            "note: stage 0 waits for room on \"forward\" to stage 1\n"
            "note: stage 1 waits for a message of stage 0 on \"other\"\n");
}

// A collective over the pipeline that one stage lacks.
TEST_F(StageMistakesTest, MissingCollective) {
  EXPECT_EQ(failureOf(stagesOf(
                "%x = spmd.all_reduce sum %a over [pp] : tensor<4xf32>\n", "")),
            "'spmd.program' op never ends: no stage can go on\n"
            "note: stage 0 waits for the other stages at 'spmd.all_reduce'\n"
            "note: stage 1 has ended\n");
}

// Collectives over the pipeline in another order, or of another kind.
TEST_F(StageMistakesTest, OtherCollective) {
  std::string sum = "%x = spmd.all_reduce sum %a over [pp] : tensor<4xf32>\n",
              max = "%y = spmd.all_reduce max %a over [pp] : tensor<4xf32>\n";
  EXPECT_TRUE(run(stagesOf(sum + max, sum + max))) << messages;
  std::string message = failureOf(stagesOf(sum + max, max + sum));
  EXPECT_NE(message.find("of stage 1 meets another op of stage 0\n"),
            std::string::npos)
      << message;
}

// Messages that are sent in another order than they are received in.
TEST_F(StageMistakesTest, OtherOrder) {
  std::string text = stagesOf(R"(
    spmd.send %b to 1 on "forward" : tensor<2xf32>
    spmd.send %a to 1 on "forward" : tensor<4xf32>
    )",
                              R"(
    %x = spmd.recv from 0 on "forward" : tensor<4xf32>
    %y = spmd.recv from 0 on "forward" : tensor<2xf32>
    )");
  EXPECT_EQ(failureOf(text),
            "'spmd.recv' op on \"forward\" expected 'tensor<4xf32>', found "
            "'tensor<2xf32>'\nnote: as it is sent by stage 0\n");
}

// A message that nobody takes would be the first one of the next step.
TEST_F(StageMistakesTest, MessageLeft) {
  EXPECT_EQ(failureOf(stagesOf(
                "spmd.send %a to 1 on \"forward\" : tensor<4xf32>\n", "")),
            "'spmd.send' op on \"forward\": stage 1 ends without receiving the "
            "message\n");
}

// An output of two stages must be the same.
TEST_F(StageMistakesTest, OutputDiffers) {
  std::string one = "spmd.write %b to @y : tensor<2xf32>\n",
              declared = "spmd.output @y last : tensor<2xf32>\n";
  EXPECT_TRUE(run(stagesOf(one, one, declared))) << messages;
  EXPECT_TRUE(run(stagesOf(one, "", declared))) << messages;
  EXPECT_EQ(
      failureOf(stagesOf(one,
                         "%c = kerf.add %b, %b : tensor<2xf32>\n"
                         "spmd.write %c to @y : tensor<2xf32>\n",
                         declared)),
      "'spmd.output' op of stage 1 differs from that of a stage before\n");
}

// All stages of a pipeline run, in order.
TEST_F(StageMistakesTest, IncompletePipeline) {
  std::string text = stagesOf("", "");
  std::string first = text.substr(0, text.find("spmd.program @b"));
  EXPECT_EQ(failureOf(first), "'spmd.program' op is of a pipeline of 2 stages, "
                              "found 1\n");
  EXPECT_EQ(failureOf(text.substr(first.size())),
            "'spmd.program' op expected stage 0 of 2 over #kerf.mesh<pp = 2> "
            "with 2 micro-batches\n");
}

// A parameter cannot rest on the ranks of several stages.
TEST_F(StageMistakesTest, ParameterOverStages) {
  std::string message = failureOf(
      stagesOf("", "",
               "spmd.param \"w\" global tensor<4xf32> sharded [[pp]] init "
               "<ones> : tensor<2xf32>\n"));
  EXPECT_EQ(message,
            "'spmd.param' op \"w\" is stored over 'pp', whose ranks run "
            "other programs\n");
}
