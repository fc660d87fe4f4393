//===- GroupsTest.cpp - devices of a machine and groups of ranks ----------===//

#include "kerf/Machine/Machine.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <random>

using namespace kerf;

namespace {

using Dims = llvm::SmallVector<int64_t, 3>;

Tier makeSwitch(const char *name, int64_t size, double bytesPerSec,
                double oversubscription = 1) {
  return {name, TierKind::Switch, size, {}, bytesPerSec,
          1e-6, oversubscription};
}

/// Nodes of 8, leaves of 4 nodes, and a spine over 3 leaves with half the
/// bandwidth: 96 devices.
Machine cluster() {
  Machine machine;
  machine.tiers = {makeSwitch("node", 8, 400e9), makeSwitch("leaf", 4, 50e9),
                   makeSwitch("spine", 3, 50e9, 2)};
  return machine;
}

Machine torus(Dims dims) {
  int64_t size = 1;
  for (int64_t dim : dims)
    size *= dim;
  Machine machine;
  machine.tiers = {{"ici", TierKind::Torus, size, dims, 300e9, 1e-6, 1}};
  return machine;
}

/// "node 8x1 400, leaf 4x8 50": name, parts x members of each, GB/s per member.
std::string describe(const Machine &machine, Group group) {
  std::string text;
  for (const GroupTier &tier : tiersOf(machine, group))
    text += (text.empty() ? "" : ", ") + machine.tiers[tier.tier].name + " " +
            std::to_string(tier.fanOut) + "x" + std::to_string(tier.membersIn) +
            " " + std::to_string(std::lround(tier.bytesPerSec / 1e9));
  return text;
}

std::string sizes(const Machine &machine) {
  std::string text;
  for (const Tier &tier : machine.tiers) {
    text += (text.empty() ? "" : " ") + std::to_string(tier.size);
    for (int64_t dim : tier.dims)
      text += "." + std::to_string(dim);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

TEST(Devices, CountTiers) {
  EXPECT_EQ(cluster().describedDevices(), 96);
  EXPECT_EQ(cluster().devicesWithin(0), 8);
  EXPECT_EQ(cluster().devicesWithin(1), 32);
}

// Tiers fill from the inside; the outermost grows; a last unit may be partly
// full.
TEST(Devices, WithDevicesFillsFromTheInside) {
  std::pair<int64_t, const char *> cases[] = {
      {1, "1 1 1"},  {3, "3 1 1"},  {8, "8 1 1"},  {9, "8 2 1"},
      {32, "8 4 1"}, {33, "8 4 2"}, {96, "8 4 3"}, {16384, "8 4 512"},
  };
  for (auto [count, expected] : cases)
    EXPECT_EQ(sizes(cluster().withDevices(count)), expected) << count;
  // Nothing but the sizes changes.
  EXPECT_EQ(cluster().withDevices(96), cluster());
  EXPECT_EQ(cluster().withDevices(33).withDevices(96), cluster());
}

// So many of each innermost unit, the others being spares.
TEST(Devices, WithDevicesSpreadLeavesSpares) {
  EXPECT_EQ(sizes(cluster().withDevicesSpread(12, 6)), "6 2 1");
  EXPECT_EQ(sizes(cluster().withDevicesSpread(30, 6)), "6 4 2");
  EXPECT_EQ(sizes(cluster().withDevicesSpread(12, 0)), "8 2 1");
}

// A torus keeps the dimensions it states, and else is as near to a cube as it
// can.
TEST(Devices, WithDevicesShapesATorus) {
  Machine pod = torus({8, 2, 4});
  EXPECT_EQ(sizes(pod.withDevices(64)), "64.8.2.4");
  EXPECT_EQ(sizes(pod.withDevices(512)), "512.8.8.8");
  EXPECT_EQ(sizes(pod.withDevices(12)), "12.3.2.2");
  pod.tiers.push_back(makeSwitch("dcn", 1, 3e9));
  EXPECT_EQ(sizes(pod.withDevices(512)), "64.8.2.4 8");
  EXPECT_EQ(sizes(pod.withDevices(7)), "7.7.1.1 1");
}

/// The best shape by trying all, in lexicographic order of descending
/// dimensions.
Dims bruteDims(int64_t count, size_t dims, int64_t most) {
  if (dims == 1)
    return count <= most ? Dims{count} : Dims{};
  for (int64_t first = 1; first <= std::min(count, most); ++first) {
    if (count % first != 0)
      continue;
    Dims rest = bruteDims(count / first, dims - 1, first);
    if (rest.empty())
      continue;
    rest.insert(rest.begin(), first);
    return rest;
  }
  return {};
}

TEST(Devices, TorusDimsAreTheBestOfAll) {
  for (int64_t count = 1; count <= 400; ++count)
    for (size_t dims = 1; dims <= 4; ++dims)
      EXPECT_EQ(torusDims(count, dims), bruteDims(count, dims, count))
          << count << " in " << dims;
  // A large prime is quick, too.
  EXPECT_EQ(torusDims(999999937, 3), (Dims{999999937, 1, 1}));
}

// Ranks of a shared device have their part of what is stated for all of them.
TEST(Devices, PerRankDividesASharedDevice) {
  Machine machine;
  machine.device.memoryBytes = 16e9;
  machine.device.reservedBytes = 1e9;
  machine.device.memoryBytesPerSec = 20e9;
  machine.device.peak = {{"f32", 400e9}};
  machine.device.powerWatt = 60;
  machine.device.efficiency.matmul = 0.5;
  machine.tiers = {makeSwitch("memory", 2, 10e9), makeSwitch("net", 1, 1e9)};
  machine.price = {0.4, "USD", 0.3, 1.1};
  EXPECT_EQ(machine.perRank(), machine) << "nothing is shared";

  machine.device.shared = true;
  Machine rank = machine.withDevices(2).perRank();
  EXPECT_EQ(rank.device.memoryBytes, 8e9);
  EXPECT_EQ(rank.device.reservedBytes, 0.5e9);
  EXPECT_EQ(rank.device.memoryBytesPerSec, 10e9);
  EXPECT_EQ(rank.device.peak.at("f32"), 200e9);
  EXPECT_EQ(rank.device.powerWatt, 30);
  EXPECT_EQ(rank.device.efficiency.matmul, 0.5);
  EXPECT_EQ(rank.tiers[0].bytesPerSec, 5e9);
  EXPECT_EQ(rank.tiers[1].bytesPerSec, 1e9) << "a network is not shared";
  EXPECT_EQ(rank.price->deviceHour, 0.2);
  EXPECT_EQ(rank.perRank(), rank) << "divided once";
  EXPECT_EQ(machine.withDevices(1).perRank().device.memoryBytes, 16e9);
}

// As many ranks as share a computer have the figures of the largest number that
// was measured and is no larger.
TEST(Devices, FiguresByRanks) {
  Machine machine;
  machine.device.shared = true;
  machine.device.memoryBytesPerSec = 20e9;
  machine.device.peak = {{"f32", 400e9}};
  machine.tiers = {makeSwitch("memory", 8, 10e9), makeSwitch("net", 2, 1e9)};
  machine.sharedBy.resize(2);
  SharedFigures &one = machine.sharedBy[0], &four = machine.sharedBy[1];
  one.memoryBytesPerSec = 20e9;
  one.peak = machine.device.peak;
  four.ranks = 4;
  four.memoryBytesPerSec = 30e9;
  four.peak = {{"f32", 300e9}};
  four.efficiency.matmul = 0.5;
  four.bytesPerSec = 6e9;
  four.latencySec = 7e-6;

  for (int64_t ranks : {1, 3}) {
    Machine few = machine.withDevices(ranks);
    EXPECT_EQ(few.device.peak.at("f32"), 400e9) << ranks;
    EXPECT_EQ(few.tiers[0].bytesPerSec, 10e9) << ranks;
  }
  for (int64_t ranks : {4, 8, 16}) {
    Machine many = machine.withDevices(ranks);
    EXPECT_EQ(many.device.memoryBytesPerSec, 30e9) << ranks;
    EXPECT_EQ(many.device.peak.at("f32"), 300e9) << ranks;
    EXPECT_EQ(many.device.efficiency.matmul, 0.5) << ranks;
    EXPECT_EQ(many.tiers[0].bytesPerSec, 6e9) << ranks;
    EXPECT_EQ(many.tiers[0].latencySec, 7e-6) << ranks;
    EXPECT_EQ(many.tiers[1].bytesPerSec, 1e9) << ranks;
    EXPECT_EQ(many.withDevices(2).device.peak.at("f32"), 400e9) << "and back";
  }
  Machine rank = machine.withDevices(8).perRank();
  EXPECT_EQ(rank.device.peak.at("f32"), 300e9 / 8);
  EXPECT_TRUE(rank.sharedBy.empty()) << "stated for whole computers";
  EXPECT_EQ(rank.perRank(), rank) << "divided once";
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

// Worked by hand on nodes of 8, leaves of 32, spine with half the bandwidth.
TEST(Groups, WorkedByHand) {
  struct {
    Group group;
    const char *expected;
  } cases[] = {
      {{1, 1}, ""},
      {{1, 8}, ""},
      // Inside a node.
      {{8, 1}, "node 8x1 400"},
      {{4, 2}, "node 4x1 400"},
      {{2, 4}, "node 2x1 400"},
      // One rank of each of 4 nodes; one of each of 3 leaves.
      {{4, 8}, "leaf 4x1 50"},
      {{3, 32}, "spine 3x1 25"},
      // Whole nodes: 8 members of each node send at once.
      {{16, 1}, "node 8x1 400, leaf 2x8 50"},
      {{96, 1}, "node 8x1 400, leaf 4x8 50, spine 3x32 25"},
      // Every second rank: 4 members in each node.
      {{16, 2}, "node 4x1 400, leaf 4x4 50"},
      // Nodes hold 8 + 4, 4 + 8 and so on: three parts of 4. Ranks 24-35 lie in
      // two leaves, so for all groups the parts meet over the spine.
      {{12, 1}, "node 4x1 400, spine 3x4 25"},
      // Ranks 30, 31 and 32 lie in two leaves: parts of 1, over the spine.
      {{3, 1}, "spine 3x1 25"},
      // So do ranks 30 and 33.
      {{2, 3}, "spine 2x1 25"},
      // Stride 16: two members in a leaf; 6 of them need all three leaves.
      {{6, 16}, "leaf 2x1 50, spine 3x2 25"},
  };
  for (const auto &[group, expected] : cases)
    EXPECT_EQ(describe(cluster(), group), expected)
        << group.size << " at " << group.stride;
}

// The tier that names a group in explanations is the outermost it crosses.
TEST(Groups, OutermostTier) {
  EXPECT_EQ(outermostTier(cluster(), {8, 1}), "node");
  EXPECT_EQ(outermostTier(cluster(), {4, 8}), "leaf");
  EXPECT_EQ(outermostTier(cluster(), {96, 1}), "spine");
  EXPECT_EQ(outermostTier(cluster(), {1, 1}), "");
  EXPECT_EQ(outermostTier(Machine(), {4, 1}), "");
}

// On the only tier any group fits, also one that divides nothing.
TEST(Groups, TheOutermostTierHoldsAll) {
  Machine node = cluster().withDevices(6);
  EXPECT_EQ(describe(node, {3, 2}), "node 3x1 400");
  EXPECT_EQ(describe(node, {6, 1}), "node 6x1 400");
}

// What lies outside of the unit that has all devices connects nothing: 65 of a
// rack of 72, or a node that is not full, cross no further tier, whatever the
// stride. As soon as a second unit is begun they do.
TEST(Groups, TiersOutsideOfAllDevicesConnectNothing) {
  Machine racks;
  racks.tiers = {makeSwitch("rack", 72, 900e9), makeSwitch("leaf", 8, 50e9),
                 makeSwitch("spine", 1, 50e9)};
  EXPECT_EQ(describe(racks.withDevices(65), {4, 16}), "rack 4x1 900");
  EXPECT_EQ(describe(racks.withDevices(72), {4, 16}), "rack 4x1 900");
  EXPECT_EQ(describe(racks.withDevices(73), {4, 16}), "leaf 4x1 50");
  EXPECT_EQ(describe(cluster().withDevices(32), {2, 12}), "leaf 2x1 50");
}

/// "64 = 64 1, 60 at 30 each": devices, sizes of the tiers.
std::string placements(const Machine &machine, int64_t count) {
  std::string text;
  for (const Placement &placement : placementsOf(machine, count)) {
    text += (text.empty() ? "" : "; ") + std::to_string(placement.devices);
    if (placement.perUnit > 0)
      text += " at " + std::to_string(placement.perUnit);
    text += " = " + sizes(placement.machine);
  }
  return text;
}

// Devices of units that do not divide well: whole units, as many of each as a
// power of two allows, or the nearest torus.
TEST(Groups, PlacesDevicesInBetterShapes) {
  Machine racks;
  racks.tiers = {makeSwitch("rack", 72, 900e9), makeSwitch("leaf", 8, 50e9)};
  EXPECT_EQ(placements(racks, 64), "64 = 64 1");
  EXPECT_EQ(placements(racks, 72), "72 = 72 1");
  EXPECT_EQ(placements(racks, 144), "144 = 72 2; 128 at 64 = 64 2");
  EXPECT_EQ(placements(racks, 512), "512 = 72 8; 504 = 72 7; 512 at 64 = 64 8");
  EXPECT_EQ(placements(racks, 80), "80 = 72 2; 72 = 72 1; 64 at 32 = 32 2");
  EXPECT_EQ(placements(cluster(), 64), "64 = 8 4 2");
  EXPECT_EQ(placements(cluster(), 65), "65 = 8 4 3; 64 = 8 4 2");
  EXPECT_EQ(placements(torus({16, 16, 16}), 64), "64 = 64.4.4.4");
  EXPECT_EQ(placements(torus({16, 16, 16}), 65),
            "65 = 65.13.5.1; 64 = 64.4.4.4");
  EXPECT_EQ(placements(torus({16, 16, 16}), 7), "7 = 7.7.1.1; 6 = 6.3.2.1");
  EXPECT_EQ(placements(torus({16, 16, 16}), 14),
            "14 = 14.7.2.1; 12 = 12.3.2.2");
}

// A ring along one of three dimensions of a torus has a third of the links, and
// steps add up over the dimensions instead of multiplying.
TEST(Groups, Torus) {
  auto only = [](const Machine &machine, Group group) {
    std::vector<GroupTier> tiers = tiersOf(machine, group);
    EXPECT_EQ(tiers.size(), 1u);
    return tiers.front();
  };
  Machine cube = torus({4, 4, 4});
  GroupTier line = only(cube, {4, 1});
  EXPECT_EQ(line.fanOut, 4);
  EXPECT_EQ(line.bytesPerSec, 100e9);
  EXPECT_EQ(line.ringSteps, 3);
  GroupTier plane = only(cube, {16, 4});
  EXPECT_EQ(plane.fanOut, 16);
  EXPECT_EQ(plane.bytesPerSec, 200e9);
  EXPECT_EQ(plane.ringSteps, 6);
  GroupTier all = only(cube, {64, 1});
  EXPECT_EQ(all.bytesPerSec, 300e9);
  EXPECT_EQ(all.ringSteps, 9);
  // Half of a line in each of two dimensions is not what 4 at stride 2 is: 2 of
  // the first dimension, 2 of the second.
  GroupTier corner = only(cube, {4, 2});
  EXPECT_EQ(corner.bytesPerSec, 200e9);
  EXPECT_EQ(corner.ringSteps, 2);
  EXPECT_EQ(only(cluster(), {8, 1}).ringSteps, 7);
}

/// The parts in which `group`'s members of all its instances lie by walking
/// over the ranks: for each tier the largest g such that members cut into runs
/// of g never straddle a unit, among the divisors of `group.size`.
int64_t largestPart(Group group, int64_t width, int64_t devices) {
  for (int64_t part = group.size; part > 1; --part) {
    if (group.size % part != 0)
      continue;
    bool straddles = false;
    int64_t block = group.size * group.stride;
    for (int64_t base = 0; base + block <= devices; base += block)
      for (int64_t offset = 0; offset < group.stride; ++offset)
        for (int64_t i = 0; i < group.size; ++i) {
          int64_t first = base + offset + i / part * part * group.stride;
          int64_t rank = base + offset + i * group.stride;
          straddles |= first / width != rank / width;
        }
    if (!straddles)
      return part;
  }
  return 1;
}

// On random machines full of groups the parts are the largest that walking over
// all ranks finds, never larger, and their product is the group.
TEST(Groups, PartsAreTheLargestThatNeverStraddle) {
  std::mt19937 random(11);
  auto upTo = [&](int64_t most) { return int64_t(random() % most) + 1; };
  int crossing = 0;
  for (int round = 0; round < 1000; ++round) {
    Machine machine;
    for (int64_t i = 0, count = upTo(2); i < count; ++i)
      machine.tiers.push_back(makeSwitch("t", upTo(8), 1e9));
    Group group{upTo(12), upTo(12)};
    // A whole number of periods of groups, so that every offset occurs.
    machine.tiers.push_back(makeSwitch("last", group.size * group.stride, 1e9));
    int64_t devices = machine.describedDevices();
    int64_t product = 1;
    std::map<size_t, GroupTier> byTier;
    for (const GroupTier &tier : tiersOf(machine, group)) {
      EXPECT_EQ(tier.membersIn, product);
      EXPECT_GE(tier.fanOut, 2);
      product *= tier.fanOut;
      byTier[tier.tier] = tier;
      crossing += tier.tier > 0;
    }
    EXPECT_EQ(product, group.size);
    int64_t members = 1;
    for (size_t i = 0; i + 1 < machine.tiers.size(); ++i) {
      if (auto tier = byTier.find(i); tier != byTier.end())
        members *= tier->second.fanOut;
      EXPECT_EQ(members, largestPart(group, machine.devicesWithin(i), devices))
          << group.size << " at " << group.stride << " on " << sizes(machine)
          << ", tier " << i;
    }
  }
  EXPECT_GT(crossing, 500);
}

/// The outermost tier that some pair of ranks crosses, by looking at them all.
std::vector<size_t> bordersByWalking(const Machine &machine, Group pipeline,
                                     int64_t devices) {
  std::vector<size_t> result(static_cast<size_t>(pipeline.size), 0);
  for (size_t tier = 1; tier < machine.tiers.size(); ++tier) {
    int64_t width = machine.devicesWithin(tier - 1);
    for (int64_t rank = 0; rank < devices; ++rank) {
      int64_t stage = rank / pipeline.stride % pipeline.size;
      bool isLast = stage + 1 == pipeline.size;
      int64_t to = rank + (isLast ? -stage : 1) * pipeline.stride;
      if (rank / width != to / width)
        result[static_cast<size_t>(stage)] = tier;
    }
  }
  return result;
}

// Also where groups do not fill units, and where a machine has spares.
TEST(Groups, BordersOfPipelines) {
  EXPECT_EQ(tiersOfBorders(cluster(), {4, 1}, 96),
            (std::vector<size_t>{0, 0, 0, 0}));
  EXPECT_EQ(tiersOfBorders(cluster(), {4, 4}, 96),
            (std::vector<size_t>{0, 1, 0, 1}));
  EXPECT_EQ(tiersOfBorders(cluster(), {3, 32}, 96),
            (std::vector<size_t>{2, 2, 2}));
  EXPECT_TRUE(tiersOfBorders(cluster(), {1, 1}, 96).empty());
  std::mt19937 random(5);
  auto upTo = [&](int64_t most) { return int64_t(random() % most) + 1; };
  int mixed = 0;
  for (int round = 0; round < 1000; ++round) {
    Machine machine;
    for (int64_t i = 0, count = upTo(3); i < count; ++i)
      machine.tiers.push_back(makeSwitch("t", upTo(6), 1e9));
    Group pipeline{1 + upTo(9), upTo(6)};
    int64_t devices = pipeline.size * pipeline.stride * upTo(5);
    machine.tiers.push_back(makeSwitch("last", devices, 1e9));
    std::vector<size_t> tiers = tiersOfBorders(machine, pipeline, devices);
    EXPECT_EQ(tiers, bordersByWalking(machine, pipeline, devices))
        << pipeline.size << " at " << pipeline.stride << " of " << devices
        << " on " << sizes(machine);
    mixed += *std::min_element(tiers.begin(), tiers.end()) !=
             *std::max_element(tiers.begin(), tiers.end());
  }
  EXPECT_GT(mixed, 300);
}

} // namespace
