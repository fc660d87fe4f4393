#include "kerf/Cost/Collectives.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace kerf;

/// Nodes of `perNode` devices: 450 GB/s and 2 us inside, 50 GB/s and 5 us
/// between. Links reach their bandwidth, so that times can be worked out by
/// hand.
static Machine cluster(int64_t nodes, int64_t perNode) {
  Machine machine;
  machine.device.efficiency.network = 1;
  Tier inside;
  inside.name = "nvlink";
  inside.size = perNode;
  inside.bytesPerSec = 450e9;
  inside.latencySec = 2e-6;
  Tier between;
  between.name = "leaf";
  between.size = nodes;
  between.bytesPerSec = 50e9;
  between.latencySec = 5e-6;
  machine.tiers = {inside, between};
  return machine;
}

/// Rings, trees and pairwise exchange only.
static Profile flat() {
  Profile profile;
  profile.flatCollectives = true;
  return profile;
}

static const double MB = 1e6;

// A group of one has nothing to say, and nothing takes no time.
TEST(CollectivesTest, NothingToDo) {
  Machine machine = cluster(4, 8);
  EXPECT_EQ(allReduceSec(machine, {}, {1, 1}, MB), 0);
  EXPECT_EQ(allToAllSec(machine, {}, {1, 1}, MB), 0);
  EXPECT_EQ(allGatherSec(machine, {}, {8, 1}, 0), 0);
  EXPECT_EQ(messageCost(machine, {}, 1)(0), 0);
  EXPECT_TRUE(messageSecs(machine, {}, {1, 1}, 32, MB).empty());
}

// Inside a node a large all-gather is a ring: 7 steps, 7/8 of the bytes.
TEST(CollectivesTest, RingInsideANode) {
  Machine machine = cluster(4, 8);
  double expected = 7 * 2e-6 + 7.0 / 8 * 1000 * MB / 450e9;
  EXPECT_NEAR(allGatherSec(machine, flat(), {8, 1}, 1000 * MB), expected,
              1e-12);
  EXPECT_NEAR(allReduceSec(machine, flat(), {8, 1}, 1000 * MB), 2 * expected,
              1e-12);
}

// A ring over nodes is as fast as all network cards of a node together, as long
// as that is less than what a device has inside: min(450, 8 x 50) GB/s.
TEST(CollectivesTest, RingOverNodesUsesAllCards) {
  Machine machine = cluster(8, 8);
  double expected = 63 * 5e-6 + 63.0 / 64 * 256 * MB / 400e9;
  EXPECT_NEAR(reduceScatterSec(machine, flat(), {64, 1}, 256 * MB), expected,
              1e-12);
  // One device per node has one card.
  expected = 7 * 5e-6 + 7.0 / 8 * 256 * MB / 50e9;
  EXPECT_NEAR(reduceScatterSec(machine, flat(), {8, 8}, 256 * MB), expected,
              1e-12);
}

// Tier by tier: halving takes 3 steps inside and 6 between nodes, where an
// eighth of the bytes goes round.
TEST(CollectivesTest, TierByTierHasFewSteps) {
  Machine machine = cluster(64, 8);
  double expected =
      3 * 2e-6 + 6 * 5e-6 + 7.0 / 8 * MB / 450e9 + 63.0 / 64 * MB / 8 / 50e9;
  EXPECT_NEAR(allGatherSec(machine, {}, {512, 1}, MB), expected, 1e-12);
  EXPECT_GT(allGatherSec(machine, flat(), {512, 1}, MB), 511 * 5e-6);
}

// Seven nodes are no power of two: six steps of a ring.
TEST(CollectivesTest, NoHalvingOverSevenNodes) {
  Machine machine = cluster(7, 8);
  double expected = 6 * 5e-6 + 6.0 / 7 * MB / 50e9;
  EXPECT_NEAR(reduceScatterSec(machine, {}, {7, 8}, MB), expected, 1e-12);
}

// Small all-reduces over many nodes take trees, up and down.
TEST(CollectivesTest, SmallAllReducesTakeTrees) {
  Machine machine = cluster(64, 8);
  double expected = 2 * (3 * 2e-6 + 6 * 5e-6) + 2 * MB / (0.92 * 400e9);
  EXPECT_NEAR(allReduceSec(machine, flat(), {512, 1}, MB), expected, 1e-12);
}

// Of what one rank holds, half goes to the 8 ranks of the other node and 7/16
// stay inside; every peer gets a message.
TEST(CollectivesTest, AllToAll) {
  Machine machine = cluster(2, 8);
  double bytes = 160 * MB;
  double expected = 7 * 2e-6 + 8 * 5e-6 + 70 * MB / 450e9 + 80 * MB / 50e9;
  EXPECT_NEAR(allToAllSec(machine, flat(), {16, 1}, bytes), expected, 1e-12);
}

// Small ones go to the 7 others inside, then to the one of the same place in
// the other node: 8 messages instead of 15, for half of the bytes once more.
TEST(CollectivesTest, SmallAllToAllGoesByTier) {
  Machine machine = cluster(2, 8);
  double expected =
      7 * 2e-6 + 5e-6 + 7.0 / 8 * 16e3 / 450e9 + 1.0 / 2 * 16e3 / 50e9;
  EXPECT_NEAR(allToAllSec(machine, {}, {16, 1}, 16e3), expected, 1e-12);
}

// A message crosses the outermost tier between its ends: of 16 stages in nodes
// of 8, the ones in the middle and back to the first.
TEST(CollectivesTest, Messages) {
  Machine machine = cluster(8, 8);
  double inside = 2e-6 + MB / 450e9, between = 5e-6 + MB / 50e9;
  std::vector<double> secs = messageSecs(machine, {}, {16, 1}, 64, MB);
  ASSERT_EQ(secs.size(), 16u);
  for (size_t border = 0; border < 16; ++border)
    EXPECT_NEAR(secs[border], border % 8 == 7 ? between : inside, 1e-15);
  for (double sec : messageSecs(machine, {}, {8, 8}, 64, MB))
    EXPECT_NEAR(sec, between, 1e-15);
  for (double sec : messageSecs(machine, {}, {4, 2}, 64, MB))
    EXPECT_NEAR(sec, inside, 1e-15);
}

// A call's own start counts once, whatever the algorithm.
TEST(CollectivesTest, StartOfACall) {
  Machine machine = cluster(8, 8);
  Profile profile;
  profile.collectiveSec = 8e-6;
  for (double bytes : {1e3, 1e9}) {
    EXPECT_NEAR(allReduceSec(machine, profile, {64, 1}, bytes) -
                    allReduceSec(machine, {}, {64, 1}, bytes),
                8e-6, 1e-12);
    EXPECT_NEAR(allToAllSec(machine, profile, {64, 1}, bytes) -
                    allToAllSec(machine, {}, {64, 1}, bytes),
                8e-6, 1e-12);
  }
}

// On a torus of 4 x 4 x 4 a byte to a random peer crosses 3 links, and a
// reduce-scatter takes 3 steps along each side.
TEST(CollectivesTest, Torus) {
  Machine machine = cluster(1, 64);
  machine.tiers[0].kind = TierKind::Torus;
  machine.tiers[0].dims = {4, 4, 4};
  double sec = 63.0 / 64 * MB / 450e9;
  EXPECT_NEAR(allGatherSec(machine, {}, {64, 1}, MB), 9 * 2e-6 + sec, 1e-12);
  EXPECT_NEAR(allToAllSec(machine, flat(), {64, 1}, MB), 63 * 2e-6 + 3 * sec,
              1e-12);
}

// Ranks that share one memory share its bandwidth.
TEST(CollectivesTest, SharedDevice) {
  Machine machine = cluster(1, 4);
  double alone = messageCost(machine, {}, 0)(1000 * MB);
  machine.device.shared = true;
  EXPECT_NEAR(messageCost(machine, {}, 0)(1000 * MB) - 2e-6, 4 * (alone - 2e-6),
              1e-12);
}

// Published all-gathers and reduce-scatters of 256 MB on 16 to 512 H100 over
// EFA (GB/s of the bus: bytes (n-1)/n / time) are a ring whose steps take 37
// us: one latency explains a factor of 17 in bandwidth. The ring's bandwidth is
// 0.75 of the network cards'.
TEST(CollectivesTest, RingsOverEfa) {
  const double gather[] = {184.613, 118.968, 68.998, 54.972, 27.969, 11.038};
  const double scatter[] = {181.554, 115.758, 68.551, 54.524, 27.944, 11.07};
  Machine machine = cluster(64, 8);
  machine.device.efficiency.network = 0.75;
  machine.tiers[1].latencySec = 37e-6;
  double squares = 0;
  for (int i = 0; i < 6; ++i) {
    double n = 16 << i, bytes = 256 * MB;
    double sec = allGatherSec(machine, flat(), {int64_t(n), 1}, bytes);
    for (double measured : {gather[i], scatter[i]}) {
      double error = std::log(sec * measured * 1e9 / (bytes * (n - 1) / n));
      EXPECT_LT(std::abs(error), 0.20) << n << " ranks";
      squares += error * error;
    }
  }
  EXPECT_LT(std::sqrt(squares / 12), 0.13);
}

namespace {
/// Seeded machines, groups and sizes.
struct Draw {
  std::mt19937 random{2026};
  double uniform(double from, double to) {
    return from + (to - from) * (random() / 4294967296.0);
  }
  int64_t power(int most) { return int64_t(1) << (random() % (most + 1)); }

  Machine machine() {
    Machine machine;
    machine.device.efficiency.network = uniform(0.5, 1);
    for (size_t i = 0, count = 1 + random() % 3; i < count; ++i) {
      Tier tier;
      tier.name = "tier" + std::to_string(i);
      tier.size = 2 + random() % 7;
      tier.bytesPerSec = uniform(1e9, 900e9);
      tier.latencySec = uniform(0, 4e-5);
      machine.tiers.push_back(tier);
    }
    return machine;
  }
  Group group(const Machine &machine) {
    int64_t ranks = 1;
    for (const Tier &tier : machine.tiers)
      ranks *= tier.size;
    Group group;
    group.stride = std::min<int64_t>(power(3), ranks / 2);
    group.size = 2 + random() % (ranks / group.stride - 1);
    return group;
  }
  Profile profile() {
    Profile profile;
    profile.flatCollectives = random() % 2;
    return profile;
  }
};

using Collective = double (*)(const Machine &, const Profile &, Group, double);
} // namespace

static const Collective collectives[] = {allReduceSec, reduceScatterSec,
                                         allGatherSec, allToAllSec};

// More bytes, more latency or more oversubscription is never faster, more
// bandwidth never slower.
TEST(CollectivesTest, Monotone) {
  Draw draw;
  for (int round = 0; round < 2000; ++round) {
    Machine machine = draw.machine();
    Group group = draw.group(machine);
    Profile profile = draw.profile();
    double bytes = std::exp(draw.uniform(0, 23));
    Tier &tier = machine.tiers[draw.random() % machine.tiers.size()];
    for (Collective collective : collectives) {
      Tier before = tier;
      double sec = collective(machine, profile, group, bytes);
      ASSERT_GT(sec, 0);
      EXPECT_GE(collective(machine, profile, group, 1.5 * bytes), sec);
      tier.latencySec *= 2;
      EXPECT_GE(collective(machine, profile, group, bytes), sec);
      tier = before;
      tier.oversubscription = 3;
      EXPECT_GE(collective(machine, profile, group, bytes), sec);
      tier = before;
      tier.bytesPerSec *= 2;
      EXPECT_LE(collective(machine, profile, group, bytes), sec);
      tier = before;
    }
  }
}

// An all-reduce is never slower than a reduce-scatter and an all-gather, and
// never faster than one of them; large ones are both, in a row.
TEST(CollectivesTest, AllReduceAndReduceScatter) {
  Draw draw;
  for (int round = 0; round < 2000; ++round) {
    Machine machine = draw.machine();
    Group group = draw.group(machine);
    double bytes = std::exp(draw.uniform(0, 23));
    double all = allReduceSec(machine, {}, group, bytes);
    double scatter = reduceScatterSec(machine, {}, group, bytes);
    double gather = allGatherSec(machine, {}, group, bytes);
    EXPECT_GE(all, scatter);
    EXPECT_LE(all, (scatter + gather) * (1 + 1e-12));
    double huge = 1e15;
    Machine fast = cluster(4, 8);
    EXPECT_NEAR(allReduceSec(fast, {}, {32, 1}, huge),
                reduceScatterSec(fast, {}, {32, 1}, huge) +
                    allGatherSec(fast, {}, {32, 1}, huge),
                1e-6);
  }
}

// Costs that a search keeps are those of the functions at that size, and no
// lower anywhere else.
TEST(CollectivesTest, GroupCosts) {
  Draw draw;
  for (int round = 0; round < 500; ++round) {
    Machine machine = draw.machine();
    Group group = draw.group(machine);
    Profile profile = draw.profile();
    double typical = std::exp(draw.uniform(0, 23));
    GroupCosts costs = groupCosts(machine, profile, group, typical);
    const AlphaBeta kept[] = {costs.allReduce, costs.reduceScatter,
                              costs.allGather, costs.allToAll};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(kept[i](typical),
                collectives[i](machine, profile, group, typical));
      double other = std::exp(draw.uniform(0, 23));
      EXPECT_GE(kept[i](other) * (1 + 1e-12),
                collectives[i](machine, profile, group, other));
    }
  }
}

// A gather as a ring is n - 1 rotations of a part, but for what calls cost.
TEST(CollectivesTest, RotationsAreARing) {
  Machine machine = cluster(4, 8);
  Profile profile;
  profile.collectiveSec = 0;
  profile.flatCollectives = true;
  for (Group group : {Group{4, 1}, Group{4, 8}, Group{16, 1}}) {
    GroupCosts costs = groupCosts(machine, profile, group, 1e9);
    auto ranks = double(group.size);
    EXPECT_NEAR((ranks - 1) * costs.rotate(1e9 / ranks), costs.allGather(1e9),
                1e-12);
  }
}
