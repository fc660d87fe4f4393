//===- FitTest.cpp - profiles that are known are found again --------------===//

#include "../Fit.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kerf;
using namespace kerf::validate;

/// A run of `layers` layers: matmuls, attention and a floor, as a formula.
static double timeOf(const Profile &profile, double matmuls, double attention) {
  double layer = matmuls / profile.matmul + attention / profile.attention;
  return std::max(layer, profile.leastForwardSec + profile.leastBackwardSec) +
         profile.stepSec;
}

static Profile priorProfile() {
  Profile prior;
  prior.leastForwardSec = 0.001;
  prior.leastBackwardSec = 0.002;
  return prior;
}

/// A run of given work, measured as it is under `truth`.
static CalibrationRun runOf(const Profile &prior, const Profile &truth,
                            double matmuls, double attention) {
  return {prior, timeOf(truth, matmuls, attention),
          [=](const Profile &p) { return timeOf(p, matmuls, attention); }};
}

// Runs made with a known profile: large ones tell the rates, small ones the
// floor, although the small ones' times do not depend on the rates at all.
TEST(FitTest, findsRatesAndFloor) {
  Profile truth = priorProfile();
  truth.matmul = 0.85;
  truth.attention = 1.3;
  truth.leastForwardSec *= 1.6;
  truth.leastBackwardSec *= 1.6;
  std::vector<CalibrationRun> runs;
  for (double matmuls : {1e-4, 2e-4, 5e-4, 0.1, 0.2, 0.4, 0.3, 0.5})
    for (double share : {0.1, 0.9})
      runs.push_back(runOf(priorProfile(), truth, matmuls, matmuls * share));
  Profile fitted = moved(priorProfile(), calibrate(runs));
  EXPECT_NEAR(fitted.matmul, 0.85, 0.02);
  EXPECT_NEAR(fitted.attention, 1.3, 0.06);
  EXPECT_NEAR(fitted.leastForwardSec, 0.0016, 0.00006);
  EXPECT_NEAR(fitted.leastBackwardSec, 0.0032, 0.00012);
}

// Runs of two runtimes whose priors differ, both a tenth too fast: what they
// share is the offset.
TEST(FitTest, runtimesShareOffsets) {
  Profile slow, fast;
  slow.matmul = 0.6;
  fast.matmul = 1.0;
  std::vector<CalibrationRun> runs;
  for (const Profile &prior : {slow, fast})
    for (double matmuls : {0.1, 0.2}) {
      Profile truth = prior;
      truth.matmul *= 0.9;
      runs.push_back(runOf(prior, truth, matmuls, 0));
    }
  std::vector<double> offsets = calibrate(runs);
  EXPECT_NEAR(moved(slow, offsets).matmul, 0.54, 0.01);
  EXPECT_NEAR(moved(fast, offsets).matmul, 0.90, 0.01);
}

// One run in nine is ten times slower: the rate follows the eight others.
TEST(FitTest, outlierCountsLittle) {
  Profile truth;
  truth.matmul = 0.9;
  std::vector<CalibrationRun> runs(9, runOf(Profile(), truth, 0.1, 0));
  runs[4].measuredSec *= 10;
  EXPECT_NEAR(moved(Profile(), calibrate(runs)).matmul, 0.9, 0.02);
}

// Three runs justify one number; the others stay as they were.
TEST(FitTest, fewRunsFitFewNumbers) {
  Profile prior = priorProfile(), truth = prior;
  truth.matmul = truth.attention = 0.8;
  std::vector<CalibrationRun> runs(3, runOf(prior, truth, 0.1, 0.1));
  std::vector<double> offsets = calibrate(runs);
  EXPECT_EQ(offsets.size(), 1u);
  EXPECT_LT(moved(prior, offsets).matmul, 0.9);
  EXPECT_EQ(moved(prior, offsets).attention, prior.attention);
  EXPECT_TRUE(calibrate({}).empty());
}

// Bounds hold: an overlap never exceeds what may be hidden.
TEST(FitTest, boundsHold) {
  CalibrationRun run = {Profile(), 1e-6, [](const Profile &profile) {
                          return 1.0 - profile.tensorOverlap;
                        }};
  std::vector<CalibrationRun> runs(20, run);
  Profile fitted = moved(Profile(), calibrate(runs));
  EXPECT_LE(fitted.tensorOverlap, 0.95 + 1e-12);
  EXPECT_GT(fitted.tensorOverlap, 0.5);
}
