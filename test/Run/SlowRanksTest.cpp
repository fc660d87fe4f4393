//===- SlowRanksTest.cpp - ranks that all others wait for -----------------===//

#include "RunTesting.h"

#include "kerf/Train/Json.h"
#include "kerf/Train/job/SlowRanks.h"

#include <functional>
#include <random>

using namespace kerf::runtime;

namespace {
/// Who was told of in a run, and after which comparison.
struct Told {
  int64_t step;
  SlowRank found;
};
} // namespace

/// Comparisons of ranks whose times are `base` with noise, times what `factor`
/// says of a rank in a step.
static std::vector<Told>
run(const std::vector<uint32_t> &stages, const std::vector<double> &base,
    int64_t steps, double noise,
    const std::function<double(uint32_t rank, int64_t step)> &factor) {
  SlowRanks ranks(stages);
  std::mt19937 random(7);
  std::normal_distribution<double> normal(1, noise);
  std::vector<Told> told;
  for (int64_t step = 1; step <= steps; ++step) {
    std::vector<double> busy;
    for (uint32_t rank = 0; rank < stages.size(); ++rank)
      busy.push_back(base[rank] * normal(random) * factor(rank, step));
    for (const SlowRank &found : ranks.note(busy))
      told.push_back({step, found});
  }
  return told;
}

static double noFactor(uint32_t, int64_t) { return 1; }

// Noise of ten percent names nobody, of however many ranks; nor does a stage
// that has more to do than another.
TEST(SlowRanks, NobodyIsNamedFalsely) {
  for (size_t count : {2, 3, 8, 64}) {
    std::vector<uint32_t> stages(count, 0);
    std::vector<double> base(count, 0.1);
    EXPECT_TRUE(run(stages, base, 5000, 0.1, noFactor).empty()) << count;
  }
  EXPECT_TRUE(
      run({0, 0, 1, 1}, {0.1, 0.1, 0.3, 0.3}, 5000, 0.1, noFactor).empty());
  EXPECT_TRUE(run({0, 1, 2}, {0.1, 0.2, 0.3}, 5000, 0.05, noFactor).empty());
}

// One rank of four becomes a tenth slower at step 100: it is named within a
// window, and again when it has recovered.
TEST(SlowRanks, ASlowRankIsNamedWithinAWindow) {
  auto factor = [](uint32_t rank, int64_t step) {
    return rank == 2 && step > 100 && step <= 300 ? 1.1 : 1;
  };
  std::vector<Told> told = run({0, 0, 0, 0}, {1, 1, 1, 1}, 500, 0.02, factor);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_GT(told[0].step, 100);
  EXPECT_LE(told[0].step, 100 + SlowRanks::kWindow);
  EXPECT_TRUE(told[0].found.isSlow);
  EXPECT_EQ(told[0].found.rank, 2U);
  EXPECT_EQ(told[0].found.peers, 4);
  EXPECT_GE(told[0].found.slowest, 40);
  EXPECT_EQ(told[0].found.of, 50);
  EXPECT_NEAR(told[0].found.excess, 0.1, 0.03);
  EXPECT_GT(told[1].step, 300);
  EXPECT_LE(told[1].step, 300 + SlowRanks::kWindow);
  EXPECT_FALSE(told[1].found.isSlow);
  EXPECT_EQ(told[1].found.rank, 2U);
}

// Alone in its stage: one that takes half as long again as at the beginning is
// named; where all do, nobody is.
TEST(SlowRanks, ARankThatIsAloneIsComparedWithItsBeginning) {
  auto grows = [](uint32_t rank, int64_t step) {
    return rank == 1 && step > 100 ? 1.5 : 1;
  };
  std::vector<Told> told = run({0, 1, 2}, {1, 2, 3}, 300, 0.02, grows);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].found.rank, 1U);
  EXPECT_EQ(told[0].found.peers, 1);
  EXPECT_LE(told[0].step, 100 + SlowRanks::kWindow);
  auto all = [](uint32_t, int64_t step) { return step > 100 ? 1.5 : 1; };
  EXPECT_TRUE(run({0, 1, 2}, {1, 2, 3}, 300, 0.02, all).empty());
}

// One rank alone is slow beside nobody, however long its steps become.
TEST(SlowRanks, OneRankIsNotNamed) {
  auto grows = [](uint32_t, int64_t step) { return step > 100 ? 2.0 : 1; };
  EXPECT_TRUE(run({0}, {1}, 300, 0.02, grows).empty());
}

TEST(SlowRanks, AreToldInWordsAndAsJson) {
  SlowRank found;
  found.rank = 3;
  found.slowest = 47;
  found.of = 50;
  found.peers = 4;
  found.excess = 0.123;
  EXPECT_EQ(formatSlowRank(found, "b"),
            " slow: rank 3 on b was the slowest of the 4 ranks of its stage in "
            "47 of 50 steps, by 12 % in the median");
  JsonValue root;
  std::string error;
  EXPECT_TRUE(parseJson(formatSlowRankJson(found, "b\"", 120), root, error))
      << error;
  found.peers = 1;
  EXPECT_NE(
      formatSlowRank(found, "").find("12 % longer than when the run began"),
      std::string::npos);
  found.isSlow = false;
  EXPECT_EQ(formatSlowRank(found, "b"),
            " slow: rank 3 on b is as fast as others again");
}
