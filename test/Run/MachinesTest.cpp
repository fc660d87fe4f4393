//===- MachinesTest.cpp - which rank keeps whose state --------------------===//

#include "RunTesting.h"

#include "kerf/Train/job/Machines.h"

#include <set>

using namespace kerf::runtime;

/// Machines of `ranks` ranks each.
static std::vector<std::string> machines(const std::vector<int> &ranks) {
  std::vector<std::string> names;
  for (size_t m = 0; m < ranks.size(); ++m)
    names.insert(names.end(), ranks[m], "node" + std::to_string(m));
  return names;
}

// What a rank has is kept on another machine, and no rank keeps more than
// its share.
TEST(Machines, AnotherMachineKeepsTheState) {
  for (const std::vector<int> &sizes :
       {std::vector<int>{2, 2}, {1, 1, 1}, {8, 8, 8, 8}, {4, 2}, {3, 1, 2}}) {
    MachineMap map(machines(sizes));
    ASSERT_EQ(map.count(), sizes.size());
    std::vector<int> kept(map.of.size(), 0);
    for (uint32_t rank = 0; rank < map.of.size(); ++rank) {
      EXPECT_NE(map.of[map.keeperOf(rank)], map.of[rank]) << rank;
      ++kept[map.keeperOf(rank)];
    }
    if (sizes == std::vector<int>(sizes.size(), sizes.front()))
      EXPECT_EQ(kept, std::vector<int>(kept.size(), 1));
  }
}

// Of any two machines that are lost at most one pair keeps each other's state:
// with four machines, two neighbours may go.
TEST(Machines, NeighboursMayBeLostTogether) {
  MachineMap map(machines({2, 2, 2, 2}));
  std::set<uint32_t> lost = {0, 1};
  for (uint32_t rank = 0; rank < 8; ++rank)
    EXPECT_FALSE(lost.count(map.of[rank]) &&
                 lost.count(map.of[map.keeperOf(rank)]))
        << rank;
}

// Ranks of a machine need not follow each other.
TEST(Machines, MachinesAreNumberedByTheirFirstRank) {
  MachineMap map({"b", "a", "b", "a"});
  EXPECT_EQ(map.of, (std::vector<uint32_t>{0, 1, 0, 1}));
  EXPECT_EQ(map.keeperOf(0), 1u);
  EXPECT_EQ(map.keeperOf(2), 3u);
  EXPECT_EQ(map.keeperOf(3), 2u);
  EXPECT_TRUE(map.isFirst(1));
  EXPECT_FALSE(map.isFirst(2));
  EXPECT_EQ(MachineMap(machines({4})).count(), 1u);
}
