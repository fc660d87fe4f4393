//===- Groups.cpp - which links a group of ranks uses ---------------------===//
//
// Problem: of a group of n ranks at stride t, how many parts lie in different
// units of a tier, and how many members does each part have?
//
// Idea: ranks are numbered along the tiers, so the units below a tier are the
// aligned blocks of W consecutive ranks, and the groups of a mesh axis are
// aligned blocks of n * t, each with t interleaved groups. If t divides W, a
// unit holds W / t consecutive members of one group. Borders of units and of
// groups are then both multiples of gcd(n, W / t) members: parts of that size
// straddle nothing, and where many groups lie side by side no larger equal
// parts do. If t does not divide W, some unit holds a single member of some
// group: parts of one.
//
// The sizes W of successive tiers divide each other, hence so do the parts. A
// unit that has all devices of the machine has all members, whatever t is:
// tiers outside it connect nothing.
//
// Example, nodes of 8: 16 ranks at stride 1 are 2 parts of 8. 12 ranks are 3
// parts of 4 (8 + 4 in the first group, 4 + 8 in the second). 4 ranks at stride
// 4 are 2 parts of 2; 2 ranks at stride 3 are 2 parts of 1, because ranks 6 and
// 9 lie in two nodes although 0 and 3 lie in one.
//
//===----------------------------------------------------------------------===//

#include "kerf/Machine/Machine.h"

#include <cassert>
#include <numeric>

using namespace kerf;

/// Members of the parts that never straddle an aligned block of `width`
/// devices.
static int64_t membersWithin(Group group, int64_t width) {
  return width % group.stride == 0 ? std::gcd(group.size, width / group.stride)
                                   : 1;
}

/// Sets what of a torus the group uses. Its parts below the torus have `inner`
/// members, those above `outer`; units below it have `width` devices. A
/// dimension is like a tier of its own: where the group does not extend, its
/// links idle. What does not divide evenly counts in the last dimension.
static void fitToTorus(const Tier &tier, Group group, int64_t width,
                       int64_t inner, int64_t outer, GroupTier &result) {
  int64_t extended = 0;
  result.ringSteps = 0;
  for (size_t i = 0; i < tier.dims.size(); ++i) {
    width *= tier.dims[i];
    bool isLast = i + 1 == tier.dims.size();
    int64_t members = isLast ? outer : membersWithin(group, width);
    int64_t extent = members / inner;
    extended += extent > 1;
    result.ringSteps += extent - 1;
    inner = members;
  }
  result.bytesPerSec *= static_cast<double>(extended) / tier.dims.size();
}

std::vector<GroupTier> kerf::tiersOf(const Machine &machine, Group group) {
  assert(group.size >= 1 && group.stride >= 1 && "no such group");
  std::vector<GroupTier> result;
  int64_t width = 1; // devices of one unit below the tier
  int64_t inner = 1; // members of a part inside it
  for (size_t i = 0; i < machine.tiers.size(); ++i) {
    const Tier &tier = machine.tiers[i];
    // The outermost tier connects everything.
    bool isWhole = i + 1 == machine.tiers.size() ||
                   width * tier.size >= machine.describedDevices();
    int64_t outer =
        isWhole ? group.size : membersWithin(group, width * tier.size);
    if (outer > inner) {
      GroupTier crossed;
      crossed.tier = i;
      crossed.fanOut = outer / inner;
      crossed.membersIn = inner;
      crossed.bytesPerSec = tier.bytesPerSec / tier.oversubscription;
      crossed.latencySec = tier.latencySec;
      crossed.ringSteps = crossed.fanOut - 1;
      if (tier.kind == TierKind::Torus)
        fitToTorus(tier, group, width, inner, outer, crossed);
      result.push_back(crossed);
    }
    width *= tier.size;
    inner = outer;
  }
  return result;
}

llvm::StringRef kerf::outermostTier(const Machine &machine, Group group) {
  std::vector<GroupTier> tiers = tiersOf(machine, group);
  return tiers.empty() ? ""
                       : llvm::StringRef(machine.tiers[tiers.back().tier].name);
}

/// True if a multiple of `width` is among the `count` numbers after a block's
/// start + `from`, for one of the blocks that start at multiples of `period`
/// below `devices`.
static bool crosses(int64_t width, int64_t from, int64_t count, int64_t period,
                    int64_t devices) {
  // Blocks lie the same way in the units again after so many.
  int64_t different = width / std::gcd(width, period);
  int64_t blocks = std::min(different, devices / period);
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t start = block * period + from;
    if ((start + count) / width > start / width)
      return true;
  }
  return false;
}

std::vector<size_t> kerf::tiersOfBorders(const Machine &machine, Group pipeline,
                                         int64_t devices) {
  if (pipeline.size < 2 || machine.tiers.empty())
    return {};
  int64_t stride = pipeline.stride, period = pipeline.size * stride;
  std::vector<size_t> result(static_cast<size_t>(pipeline.size), 0);
  int64_t width = machine.tiers.front().size;
  for (size_t tier = 1; tier < machine.tiers.size(); ++tier) {
    for (int64_t border = 0; border < pipeline.size; ++border) {
      // Pairs r, r + stride with r in the stage; the last border's reach over
      // the whole block.
      bool isLast = border + 1 == pipeline.size;
      int64_t from = isLast ? 0 : border * stride;
      int64_t count = isLast ? period - 1 : 2 * stride - 1;
      if (crosses(width, from, count, period, devices))
        result[static_cast<size_t>(border)] = tier;
    }
    width *= machine.tiers[tier].size;
  }
  return result;
}
