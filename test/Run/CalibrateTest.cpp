//===- CalibrateTest.cpp - from figures to a description ------------------===//

#include "kerf/Train/Calibrate.h"

#include <gtest/gtest.h>

using namespace kerf::runtime;

/// Of two ranks, who exchange their half of an all-gather's bytes in one step.
static Figures gathers(double shortSec, double longSec) {
  return {{"all_gather 2 1000", shortSec}, {"all_gather 2 1000000", longSec}};
}

TEST(CalibrateTest, FitsLatencyAndBandwidth) {
  FittedTier tier = fitTier(gathers(11e-6, 1010e-6), 2);
  EXPECT_NEAR(tier.latencySec, 10e-6, 1e-10);
  EXPECT_NEAR(tier.bytesPerSec, 1e9, 1e4);
  EXPECT_NEAR(tier.error, 0, 1e-6);
}

// As on a machine with other work: a thousand bytes took longer than a million.
TEST(CalibrateTest, FitsTheLatencyAloneWhereLongOnesWereFaster) {
  FittedTier tier = fitTier(gathers(9e-3, 1e-3), 2);
  EXPECT_NEAR(tier.bytesPerSec, 1e9, 1e4);
  EXPECT_GT(tier.latencySec, 0);
  EXPECT_LT(tier.latencySec, 9e-3);
  EXPECT_GT(tier.error, 0.1);
}

TEST(CalibrateTest, FitsTheBandwidthAloneWithoutALatency) {
  FittedTier tier = fitTier(gathers(0.5e-6, 1000e-6), 2);
  EXPECT_NEAR(tier.latencySec, 1e-9, 1e-15);
  EXPECT_GT(tier.bytesPerSec, 1e9);
}

TEST(CalibrateTest, HasNoListOfRanksThatWereNotMeasured) {
  MachineFacts facts;
  facts.ranks = 2;
  EXPECT_EQ(describeMachine(facts, {}).find("by_ranks"), std::string::npos);
  EXPECT_NE(describeMachine(facts, gathers(9e-3, 1e-3)).find("by_ranks:\n"),
            std::string::npos);
}
