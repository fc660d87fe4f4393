//===- Collectives.cpp - how long a collective runs -----------------------===//
//
// Problem: n ranks that span tiers of a network hold `bytes`; when is the
// collective done?
//
// Idea: every algorithm costs alpha + beta x bytes (Hockney's model; Thakur,
// Rabenseifner and Gropp 2005), so one is a pair of numbers, and the best for a
// size is the smallest value. B_t is the bandwidth of a member on tier t, g_t
// the members inside one unit below it, f_t the units, L_t the latency.
//
//   flat ring     n-1 steps at the latency of the slowest tier. A ring crosses
//   a
//                 unit's border once in and once out, and there are g_t rings
//                 side by side, so the ring's bandwidth is min over t of
//                 g_t x B_t: (n-1)/n x bytes over that.
//   tier by tier  reduce-scatter inside a unit, then outside on 1/g_t of the
//                 bytes; gathers the other way round. A tier takes f-1 steps as
//                 a ring, log2 f by recursive halving (f a power of two,
//                 switch), the sum of (sides - 1) on a torus.
//   tree          all-reduce up and down two binary trees, each with half of
//   the
//                 bytes (Sanders, Speck and Traff 2009): 2 log2 f steps per
//                 tier, twice the bytes at 0.92 of the ring's bandwidth (the
//                 factor of NCCL's tuner). Dropping what one does not own makes
//                 it a reduce-scatter.
//   all-to-all    pairwise: a message to each of n-1 peers, (f-1) g_t of them
//   over
//                 tier t. Tier by tier: f-1 messages per tier, (f-1)/f of all
//                 bytes over each. A byte crosses several links of a torus.
//
//   rotate        a step of the flat ring.
//
// An all-reduce by ring or tier by tier is a reduce-scatter and an all-gather.
//
// Example: 64 ranks, 8 per node, 450 GB/s inside, 50 GB/s and 5 us outside: the
// flat ring has min(450, 8 x 50) = 400 GB/s; 256 MB take 63 x 5 us + 0.63 ms.
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Collectives.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace kerf;

llvm::StringRef kerf::nameOf(CollectiveKind kind) {
  static const llvm::StringRef names[] = {"all_reduce", "reduce_scatter",
                                          "all_gather", "all_to_all", "rotate"};
  return names[size_t(kind)];
}

namespace {
/// A tier as one member of the group sees it.
struct Hop {
  double fanOut, membersIn, secPerByte, latencySec;
  double steps; ///< of a reduce-scatter inside the tier
  double links; ///< that a byte to a random peer crosses; 1 on a switch
};
using Hops = llvm::SmallVector<Hop, 4>;
using Candidates = llvm::SmallVector<AlphaBeta, 4>;
} // namespace

/// Sides of the part of a torus that `fanOut` units fill, innermost first.
static llvm::SmallVector<int64_t, 3> filledSides(const Tier &tier,
                                                 int64_t fanOut) {
  llvm::SmallVector<int64_t, 3> sides;
  for (int64_t dim : tier.dims) {
    sides.push_back(std::min(dim, fanOut));
    fanOut = llvm::divideCeil(fanOut, sides.back());
  }
  return sides;
}

/// Links that a byte to a random peer crosses: the mean distance on a ring of
/// each side, over all pairs.
static double linksOf(const Tier &tier, int64_t fanOut) {
  if (tier.kind != TierKind::Torus)
    return 1;
  double links = 0;
  for (int64_t side : filledSides(tier, fanOut))
    links += double(side * side / 4) / side;
  return std::max(1.0, links);
}

static double stepsOf(const Tier &tier, const GroupTier &crossed) {
  if (tier.kind == TierKind::Switch && llvm::isPowerOf2_64(crossed.fanOut))
    return llvm::Log2_64(crossed.fanOut);
  return crossed.ringSteps;
}

static Hops hopsOf(const Machine &machine, Group group) {
  if (machine.device.shared)
    return hopsOf(machine.perRank(), group);
  Hops hops;
  for (const GroupTier &t : tiersOf(machine, group)) {
    const Tier &tier = machine.tiers[t.tier];
    Hop hop;
    hop.fanOut = t.fanOut;
    hop.membersIn = t.membersIn;
    hop.secPerByte = 1 / (t.bytesPerSec * machine.device.efficiency.network);
    hop.latencySec = t.latencySec;
    hop.steps = stepsOf(tier, t);
    hop.links = linksOf(tier, t.fanOut);
    hops.push_back(hop);
  }
  return hops;
}

/// Seconds per byte that goes round, and the slowest latency.
static AlphaBeta slowestOf(const Hops &hops) {
  AlphaBeta slowest;
  for (const Hop &hop : hops) {
    slowest.alpha = std::max(slowest.alpha, hop.latencySec);
    slowest.beta = std::max(slowest.beta, hop.secPerByte / hop.membersIn);
  }
  return slowest;
}

static AlphaBeta flatRing(const Hops &hops, double ranks) {
  AlphaBeta slowest = slowestOf(hops);
  return {(ranks - 1) * slowest.alpha, (ranks - 1) / ranks * slowest.beta};
}

static AlphaBeta tierByTier(const Hops &hops) {
  AlphaBeta cost;
  for (const Hop &hop : hops) {
    cost.alpha += hop.steps * hop.latencySec;
    cost.beta += (hop.fanOut - 1) / hop.fanOut * hop.secPerByte / hop.membersIn;
  }
  return cost;
}

static AlphaBeta doubleTree(const Hops &hops) {
  const double treeBandwidth = 0.92;
  AlphaBeta cost = {0, 2 * slowestOf(hops).beta / treeBandwidth};
  for (const Hop &hop : hops)
    cost.alpha += 2 * llvm::Log2_64_Ceil(uint64_t(hop.fanOut)) * hop.latencySec;
  return cost;
}

static AlphaBeta pairwise(const Hops &hops, double ranks) {
  AlphaBeta cost;
  for (const Hop &hop : hops) {
    double peers = hop.membersIn * (hop.fanOut - 1);
    cost.alpha += peers * hop.latencySec;
    cost.beta += peers / ranks * hop.links * hop.secPerByte;
  }
  return cost;
}

static AlphaBeta exchangeByTier(const Hops &hops) {
  AlphaBeta cost;
  for (const Hop &hop : hops) {
    cost.alpha += (hop.fanOut - 1) * hop.latencySec;
    cost.beta += (hop.fanOut - 1) / hop.fanOut * hop.links * hop.secPerByte;
  }
  return cost;
}

static AlphaBeta twice(AlphaBeta cost) {
  return {2 * cost.alpha, 2 * cost.beta};
}

/// Adds the start of a call, which each algorithm pays once.
static Candidates withCall(const Profile &profile, Candidates candidates) {
  for (AlphaBeta &candidate : candidates)
    candidate.alpha += profile.collectiveSec;
  return candidates;
}

static Candidates scatters(const Profile &profile, const Hops &hops,
                           double ranks) {
  Candidates result = {flatRing(hops, ranks)};
  if (!profile.flatCollectives)
    result.append({tierByTier(hops), doubleTree(hops)});
  return withCall(profile, result);
}

static Candidates allReduces(const Profile &profile, const Hops &hops,
                             double ranks) {
  Candidates result = {twice(flatRing(hops, ranks)), doubleTree(hops)};
  if (!profile.flatCollectives)
    result.push_back(twice(tierByTier(hops)));
  return withCall(profile, result);
}

static Candidates exchanges(const Profile &profile, const Hops &hops,
                            double ranks) {
  Candidates result = {pairwise(hops, ranks)};
  if (!profile.flatCollectives)
    result.push_back(exchangeByTier(hops));
  return withCall(profile, result);
}

static AlphaBeta bestFor(const Candidates &candidates, double bytes) {
  return *std::min_element(candidates.begin(), candidates.end(),
                           [bytes](const AlphaBeta &a, const AlphaBeta &b) {
                             return a.alpha + a.beta * bytes <
                                    b.alpha + b.beta * bytes;
                           });
}

GroupCosts kerf::groupCosts(const Machine &machine, const Profile &profile,
                            Group group, double typicalBytes) {
  Hops hops = hopsOf(machine, group);
  if (hops.empty())
    return {};
  double ranks = double(group.size);
  GroupCosts costs;
  costs.allReduce = bestFor(allReduces(profile, hops, ranks), typicalBytes);
  costs.reduceScatter = bestFor(scatters(profile, hops, ranks), typicalBytes);
  costs.allGather = costs.reduceScatter;
  costs.allToAll = bestFor(exchanges(profile, hops, ranks), typicalBytes);
  costs.rotate = withCall(profile, {slowestOf(hops)}).front();
  return costs;
}

double kerf::allReduceSec(const Machine &machine, const Profile &profile,
                          Group group, double bytes) {
  return groupCosts(machine, profile, group, bytes).allReduce(bytes);
}

double kerf::reduceScatterSec(const Machine &machine, const Profile &profile,
                              Group group, double bytes) {
  return groupCosts(machine, profile, group, bytes).reduceScatter(bytes);
}

double kerf::allGatherSec(const Machine &machine, const Profile &profile,
                          Group group, double bytes) {
  return groupCosts(machine, profile, group, bytes).allGather(bytes);
}

double kerf::allToAllSec(const Machine &machine, const Profile &profile,
                         Group group, double bytes) {
  return groupCosts(machine, profile, group, bytes).allToAll(bytes);
}

AlphaBeta kerf::messageCost(const Machine &machine, const Profile &profile,
                            size_t tier) {
  if (machine.device.shared)
    return messageCost(machine.perRank(), profile, tier);
  const Tier &own = machine.tiers[tier];
  double perSec = own.bytesPerSec / own.oversubscription *
                  machine.device.efficiency.network;
  // A neighbour is reached along one dimension.
  if (own.kind == TierKind::Torus)
    perSec /= static_cast<double>(own.dims.size());
  return {profile.collectiveSec + own.latencySec, 1 / perSec};
}

std::vector<double> kerf::messageSecs(const Machine &machine,
                                      const Profile &profile, Group pipeline,
                                      int64_t devices, double bytes) {
  std::vector<double> secs;
  for (size_t tier : tiersOfBorders(machine, pipeline, devices))
    secs.push_back(messageCost(machine, profile, tier)(bytes));
  return secs;
}
