//===- SlowLinksTest.cpp - links that all ranks wait for ------------------===//

#include "RunTesting.h"

#include "kerf/Train/Json.h"
#include "kerf/Train/job/SlowLinks.h"

#include <functional>
#include <random>
#include <set>

using namespace kerf::runtime;

namespace {
/// What was told in a run, and after which round.
struct Told {
  uint64_t round;
  SlowLink found;
};
} // namespace

/// Rounds of machines whose exchanges take a millisecond with noise, times what
/// `factor` says of a pair in a round.
static std::vector<Told>
run(uint32_t machines, uint64_t rounds, double noise,
    const std::function<double(MachinePair pair, uint64_t round)> &factor) {
  SlowLinks links(machines);
  std::mt19937 random(7);
  std::normal_distribution<double> normal(1, noise);
  std::vector<Told> told;
  for (uint64_t round = 0; round < rounds; ++round) {
    std::vector<double> seconds;
    for (const MachinePair &pair : links.pairs(round))
      seconds.push_back(1e-3 * normal(random) * factor(pair, round));
    for (const SlowLink &found : links.note(round, seconds))
      told.push_back({round, found});
  }
  return told;
}

static double noFactor(MachinePair, uint64_t) { return 1; }

// Each pair meets once in as many rounds as there are machines, and nobody
// twice in one.
TEST(SlowLinks, EachPairMeetsOnce) {
  for (uint32_t machines : {2, 3, 4, 7, 8, 64}) {
    SlowLinks links(machines);
    std::set<MachinePair> all;
    for (uint64_t round = 0; round + 1 < machines + machines % 2; ++round) {
      std::set<uint32_t> busy;
      for (const MachinePair &pair : links.pairs(round)) {
        EXPECT_LT(pair.first, pair.second);
        EXPECT_TRUE(busy.insert(pair.first).second);
        EXPECT_TRUE(busy.insert(pair.second).second);
        EXPECT_TRUE(all.insert(pair).second);
      }
    }
    EXPECT_EQ(all.size(), machines * (machines - 1) / 2) << machines;
  }
}

// Noise of a fifth names nobody.
TEST(SlowLinks, NobodyIsNamedFalsely) {
  for (uint32_t machines : {2, 3, 4, 8, 64})
    EXPECT_TRUE(run(machines, 5000, 0.15, noFactor).empty()) << machines;
}

// All links of a machine take twice as long for a while: it is named within six
// rounds, alone, and again when it has recovered.
TEST(SlowLinks, AMachineIsNamed) {
  auto factor = [](MachinePair pair, uint64_t round) {
    bool is = pair.first == 5 || pair.second == 5;
    return is && round >= 100 && round < 200 ? 2.0 : 1.0;
  };
  std::vector<Told> told = run(8, 400, 0.1, factor);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].found.ends, MachinePair(5, 5));
  EXPECT_TRUE(told[0].found.isSlow);
  EXPECT_LE(told[0].round, 106u);
  EXPECT_NEAR(told[0].found.factor, 2, 0.3);
  EXPECT_FALSE(told[1].found.isSlow);
  EXPECT_LE(told[1].round, 206u);
}

// One link of eight machines: it is named after three of its measurements, and
// neither of its machines is.
TEST(SlowLinks, ALinkIsNamed) {
  auto factor = [](MachinePair pair, uint64_t round) {
    return pair == MachinePair(2, 5) && round >= 100 ? 2.0 : 1.0;
  };
  std::vector<Told> told = run(8, 400, 0.1, factor);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].found.ends, MachinePair(2, 5));
  EXPECT_LE(told[0].round, 100u + 4 * 7);
}

// Of two machines there is one link, which is compared with its beginning.
TEST(SlowLinks, TwoMachinesAreComparedWithTheBeginning) {
  auto factor = [](MachinePair, uint64_t round) {
    return round >= 20 ? 3.0 : 1.0;
  };
  std::vector<Told> told = run(2, 40, 0.1, factor);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].found.ends, MachinePair(0, 1));
  EXPECT_EQ(told[0].round, 22u);
  // Slow from the beginning is what the link is.
  EXPECT_TRUE(run(2, 40, 0.1, [](auto, auto) { return 3.0; }).empty());
}

TEST(SlowLinks, Words) {
  std::vector<std::string> two = {"a", "b"};
  EXPECT_EQ(formatSlowLink({{0, 1}, true, 3, 3, 2.06}, two),
            " slow: the link between a and b took 2.1 times as long as when "
            "the run began in 3 of 3 measurements");
  std::vector<std::string> many = {"a", "b", "c", "d", "e", "f"};
  EXPECT_EQ(formatSlowLink({{1, 1}, true, 4, 5, 1.9}, many),
            " slow: the links of b took 1.9 times as long as others in 4 of 5 "
            "measurements");
  EXPECT_EQ(formatSlowLink({{1, 1}, false, 1, 5, 1}, many),
            " slow: the links of b are as fast as usual again");
  JsonValue json;
  std::string error;
  ASSERT_TRUE(parseJson(formatSlowLinkJson({{0, 1}, true, 3, 3, 2}, two, 70),
                        json, error))
      << error;
}
