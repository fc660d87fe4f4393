//===- Collectives.h - how long a collective runs -------------------------===//
//
// Alpha-beta per tier; of ring, tree and hierarchical algorithms the best is
// taken. `bytes` is always the size of the *whole* tensor: the input of an
// all-reduce or reduce-scatter, the output of an all-gather, what one rank
// holds before an all-to-all.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_COST_COLLECTIVES_H
#define KERF_COST_COLLECTIVES_H

#include "kerf/Cost/Profile.h"
#include "kerf/Machine/Machine.h"

#include "llvm/ADT/StringRef.h"

#include <vector>

namespace kerf {

enum class CollectiveKind {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Rotate, ///< each rank hands so many bytes to the next one of a ring
};
llvm::StringRef nameOf(CollectiveKind kind); ///< "all_reduce", ...

/// Seconds, 0 for a group of one. An all-reduce by ring or tier by tier is a
/// reduce-scatter and an all-gather (one `Profile::collectiveSec` for both). It
/// never beats a reduce-scatter, except that `Profile::flatCollectives` has
/// trees for all-reduce only.
double allReduceSec(const Machine &, const Profile &, Group, double bytes);
double reduceScatterSec(const Machine &, const Profile &, Group, double bytes);
double allGatherSec(const Machine &, const Profile &, Group, double bytes);
double allToAllSec(const Machine &, const Profile &, Group, double bytes);
/// Alpha and beta of one kind of collective over one group, so that a search
/// need not work out the tiers again: seconds = alpha + beta x bytes.
struct AlphaBeta {
  double alpha = 0, beta = 0;
  double operator()(double bytes) const {
    return bytes > 0 ? alpha + beta * bytes : 0;
  }
};
/// The algorithms that are best at `typicalBytes`: exact there, and never below
/// the functions above elsewhere. All zero for a group of one.
struct GroupCosts {
  AlphaBeta allReduce, reduceScatter, allGather, allToAll, rotate;
  const AlphaBeta &of(CollectiveKind kind) const {
    switch (kind) {
    case CollectiveKind::AllReduce:
      return allReduce;
    case CollectiveKind::ReduceScatter:
      return reduceScatter;
    case CollectiveKind::AllGather:
      return allGather;
    case CollectiveKind::AllToAll:
      return allToAll;
    case CollectiveKind::Rotate:
      break;
    }
    return rotate;
  }
};
GroupCosts groupCosts(const Machine &, const Profile &, Group,
                      double typicalBytes);

/// One message between two ranks that crosses `tier` (index in
/// `Machine::tiers`) and none outside it.
AlphaBeta messageCost(const Machine &, const Profile &, size_t tier);
/// Seconds of a message of `bytes` over each border between the stages of a
/// pipeline; the entries are those of `tiersOfBorders`.
std::vector<double> messageSecs(const Machine &, const Profile &,
                                Group pipeline, int64_t devices, double bytes);

} // namespace kerf

#endif // KERF_COST_COLLECTIVES_H
