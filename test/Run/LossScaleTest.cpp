//===- LossScaleTest.cpp - the factor on the loss of f16 ------------------===//

#include "RunTesting.h"

#include "kerf/Train/Json.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/LossScale.h"
#include "kerf/Train/Options.h"

#include <cmath>
#include <vector>

using namespace kerf::runtime;

namespace {
/// After a step: the factor, and good steps since it changed.
struct Row {
  bool overflows;
  double factor;
  int64_t good;
};
} // namespace

static void expectSeries(LossScale scale, const std::vector<Row> &rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(scale.note(rows[i].overflows ? INFINITY : 1.0, 1.0),
              !rows[i].overflows);
    EXPECT_EQ(scale.factor, rows[i].factor) << "step " << i;
    EXPECT_EQ(scale.goodSteps, rows[i].good) << "step " << i;
  }
}

// What torch.amp.GradScaler("cpu", init_scale, growth_interval) of PyTorch 2.15
// has as `scale` and `_growth_tracker` after each step of such a series.
TEST(LossScaleTest, MovesAsGradScaler) {
  LossScale every3;
  every3.interval = 3;
  expectSeries(every3, {{true, 32768, 0},
                        {true, 16384, 0},
                        {false, 16384, 1},
                        {false, 16384, 2},
                        {false, 32768, 0},
                        {false, 32768, 1},
                        {true, 16384, 0},
                        {false, 16384, 1},
                        {false, 16384, 2},
                        {false, 32768, 0},
                        {false, 32768, 1},
                        {false, 32768, 2},
                        {false, 65536, 0},
                        {true, 32768, 0},
                        {false, 32768, 1},
                        {false, 32768, 2},
                        {false, 65536, 0}});
  // It does not grow out of f32.
  expectSeries({0x1p127, 1, 0, 0},
               {{false, 0x1p127, 0}, {false, 0x1p127, 0}, {true, 0x1p126, 0}});
}

// A resumed run may have a shorter interval than the good steps it has behind.
TEST(LossScaleTest, GrowsAfterAShorterInterval) {
  expectSeries({1024, 2, 3, 0},
               {{false, 2048, 0}, {false, 2048, 1}, {false, 4096, 0}});
}

// NaN is an overflow, too, and all are counted.
TEST(LossScaleTest, CountsSkippedSteps) {
  LossScale scale;
  EXPECT_EQ(scale.factor, 65536);
  EXPECT_EQ(scale.interval, 2000);
  EXPECT_FALSE(scale.note(NAN, 1.0));
  EXPECT_TRUE(scale.note(0, 1.0));
  EXPECT_FALSE(scale.note(INFINITY, 1.0));
  EXPECT_EQ(scale.skippedSteps, 2);
  EXPECT_EQ(scale.factor, 16384);
  EXPECT_EQ(scale.describe(),
            "dynamic, 16384 at first, doubled after 2,000 good steps");
}

// A fixed factor stays, whatever happens; a dynamic one has an end.
TEST(LossScaleTest, FixedAndTooSmall) {
  LossScale fixed{512, 0, 0, 0};
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(fixed.note(i % 2 ? 1.0 : NAN, 1.0), i % 2);
  EXPECT_EQ(fixed.factor, 512);
  EXPECT_EQ(fixed.skippedSteps, 50);
  EXPECT_FALSE(fixed.isTooSmall());
  EXPECT_EQ(fixed.describe(), "512");
  LossScale falling;
  int steps = 0;
  for (; !falling.isTooSmall(); ++steps)
    falling.note(NAN, 1.0);
  EXPECT_EQ(steps, 30); // 2^16 / 2^30 < 1e-4
}

// One batch may overflow in the forward pass; where each does, it is no matter
// of the scale. Of a run of three steps three are enough.
TEST(LossScaleTest, LossesThatAreNoNumbers) {
  LossScale scale;
  for (int i = 0; i < 4; ++i) {
    scale.note(NAN, NAN);
    EXPECT_FALSE(scale.isLost(100));
    EXPECT_EQ(scale.isLost(3), i >= 2);
  }
  scale.note(1, 1);
  EXPECT_FALSE(scale.isLost(1));
  for (int i = 0; i < 5; ++i)
    scale.note(INFINITY, INFINITY);
  EXPECT_TRUE(scale.isLost(100));
}

TEST(LossScaleTest, LogTells) {
  StepRecord record;
  record.gradNorm = INFINITY;
  EXPECT_EQ(formatStep(record).find("loss scale"), std::string::npos);
  record.lossScale = 32768;
  record.skippedSteps = 3;
  EXPECT_HAS(formatStep(record), " | grad norm: inf |\n"
                                 "     loss scale: 32768.0 | "
                                 "skipped iterations: 3 | ");
  JsonValue value;
  std::string error;
  ASSERT_TRUE(parseJson(formatStepJson(record), value, error)) << error;
  EXPECT_EQ(value.find("loss_scale")->number, 32768);
  EXPECT_EQ(value.find("skipped_iterations")->integer, 3);
  EXPECT_EQ(value.find("grad_norm")->kind, JsonValue::Null);
  std::vector<Scalar> scalars = stepScalars(record);
  EXPECT_STREQ(scalars[scalars.size() - 2].tag, "train/loss_scale");
  EXPECT_STREQ(scalars.back().tag, "train/skipped_iterations");
  EXPECT_EQ(scalars.back().value, 3);
}

static std::string errorOf(const std::vector<std::string> &more) {
  std::vector<std::string> arguments = {"m.kerf"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  RunOptions options;
  std::string error;
  EXPECT_FALSE(parseOptions(arguments, options, error));
  return error;
}

TEST(LossScaleTest, Options) {
  RunOptions options;
  std::string error;
  ASSERT_TRUE(
      parseOptions({"m.kerf", "--loss-scale=dynamic",
                    "--initial-loss-scale=1024", "--loss-scale-interval=20"},
                   options, error));
  EXPECT_EQ(options.lossScale, 0);
  EXPECT_EQ(options.initialLossScale, 1024);
  EXPECT_EQ(options.lossScaleInterval, 20);
  RunOptions fixed;
  ASSERT_TRUE(parseOptions({"m.kerf", "--loss-scale=128"}, fixed, error));
  EXPECT_EQ(fixed.lossScale, 128);
  for (const char *bad : {"0", "-1", "0.0001", "inf", "nan", "1e31", "static"})
    EXPECT_EQ(errorOf({std::string("--loss-scale=") + bad}),
              "option '--loss-scale': expected 'dynamic' or a number from "
              "2^-13 to 1e30, found '" +
                  std::string(bad) + "'");
  EXPECT_EQ(errorOf({"--initial-loss-scale=0"}),
            "option '--initial-loss-scale': expected a number from 2^-13 to "
            "1e30, found '0'");
  RunOptions least;
  ASSERT_TRUE(parseOptions({"m.kerf", "--initial-loss-scale=0.0001220703125"},
                           least, error))
      << error;
  EXPECT_EQ(errorOf({"--loss-scale-interval=0"}),
            "option '--loss-scale-interval': expected an integer of at least "
            "1, found '0'");
  EXPECT_EQ(errorOf({"--loss-scale=8", "--loss-scale-interval=3"}),
            "'--loss-scale-interval' needs '--loss-scale=dynamic'");
  EXPECT_EQ(errorOf({"--loss-scale=8", "--initial-loss-scale=3"}),
            "'--initial-loss-scale' needs '--loss-scale=dynamic'");
}
