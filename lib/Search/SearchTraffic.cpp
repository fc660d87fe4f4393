//===- SearchTraffic.cpp - which ranks exchange gradients and weights -----===//
//
// Problem: a parameter is copied over data and context ranks (an expert's over
// those that hold the same experts). Its state may be sharded over the
// innermost of them. Which groups are these, and how long do their collectives
// run?
//
// Idea: data and context ranks are one arithmetic sequence where the axes are
// neighbours in the order, else two, the inner one first. A collective over
// both is done on one after the other.
//
// Example: order tp 2, cp 2, dp 4: data ranks are {8, stride 2}; sharded over 4
// of them: shard {4, stride 2}, rest {2, stride 8}.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::search_detail;

int64_t OuterChoice::sizeOf(MeshAxis axis) const {
  switch (axis) {
  case MeshAxis::Tensor:
    return tp;
  case MeshAxis::Context:
    return cp;
  case MeshAxis::Data:
    return dp;
  case MeshAxis::Pipeline:
    return pp;
  }
  return 1;
}

int64_t OuterChoice::strideOf(MeshAxis axis) const {
  int64_t stride = 1;
  for (MeshAxis inner : order) {
    if (inner == axis)
      break;
    stride *= sizeOf(inner);
  }
  return stride;
}

TableKey kerf::keyOf(const OuterChoice &outer, int kind) {
  TableKey key;
  key.kind = kind;
  key.microBatch = outer.microBatch;
  auto groupOf = [&](int64_t size, MeshAxis axis) {
    return size > 1 ? Group{size, outer.strideOf(axis)} : Group{};
  };
  key.groups = {groupOf(outer.tp, MeshAxis::Tensor),
                groupOf(outer.cp, MeshAxis::Context),
                groupOf(outer.ep, MeshAxis::Data)};
  return key;
}

const GroupCosts &GroupMemo::of(Group group, double bytes) {
  unsigned size = 0;
  while (size < 3 && bytes >= kClasses[size + 1])
    ++size;
  uint64_t key =
      (uint64_t(group.size) << 34) | (uint64_t(group.stride) << 2) | size;
  auto [it, isNew] = known.try_emplace(key);
  if (isNew)
    it->second = groupCosts(machine, profile, group, kClasses[size]);
  return it->second;
}

int64_t search_detail::ranksOf(const Groups &groups) {
  int64_t ranks = 1;
  for (Group group : groups)
    ranks *= group.size;
  return ranks;
}

/// Data and context ranks, the inner ones first; neighbours in one group.
static Groups dataGroups(const OuterChoice &outer, bool expert,
                         bool overContext = true) {
  int64_t experts = expert ? outer.ep : 1;
  Group data{outer.dp / experts, outer.strideOf(MeshAxis::Data) * experts};
  Group context{overContext ? outer.cp : 1, outer.strideOf(MeshAxis::Context)};
  Groups groups;
  for (Group group : {data, context})
    if (group.size > 1)
      groups.push_back(group);
  llvm::sort(groups, [](Group a, Group b) { return a.stride < b.stride; });
  if (groups.size() == 2 &&
      groups[0].stride * groups[0].size == groups[1].stride) {
    groups[0].size *= groups[1].size;
    groups.pop_back();
  }
  return groups;
}

Groups search_detail::outerDataGroups(const OuterChoice &outer) {
  Group data{outer.dp / outer.ep, outer.strideOf(MeshAxis::Data) * outer.ep};
  return data.size > 1 ? Groups{data} : Groups{};
}

/// Splits groups into the `ranks` innermost members and the rest; false if that
/// is not a group.
static bool splitGroups(const Groups &groups, int64_t ranks, Groups &inner,
                        Groups &outer) {
  inner.clear();
  outer.clear();
  for (Group group : groups) {
    int64_t taken = std::min(ranks, group.size);
    if (group.size % taken != 0 || ranks % taken != 0)
      return false;
    ranks /= taken;
    if (taken > 1)
      inner.push_back({taken, group.stride});
    if (group.size > taken)
      outer.push_back({group.size / taken, group.stride * taken});
  }
  return ranks == 1;
}

/// As the stage partition splits the axes of a mesh: whole inner ones, and a
/// part of the next. The axis `ep` is the inner part of the data ranks.
bool search_detail::canShard(const OuterChoice &outer, int64_t shardGroup) {
  if (shardGroup < 1 || outer.dp % outer.ep != 0)
    return false;
  std::vector<int64_t> sizes;
  for (MeshAxis axis : outer.order)
    if (axis == MeshAxis::Data)
      sizes.insert(sizes.end(), {outer.ep, outer.dp / outer.ep});
    else if (axis == MeshAxis::Context)
      sizes.push_back(outer.cp);
  for (int64_t size : sizes) {
    if (shardGroup % size != 0)
      return size % shardGroup == 0;
    shardGroup /= size;
  }
  return shardGroup == 1;
}

Replicas search_detail::replicasOf(const OuterChoice &outer, bool expert,
                                   bool overContext) {
  Groups groups = dataGroups(outer, expert, overContext);
  Replicas replicas;
  replicas.rest = groups;
  if (outer.zero == 0)
    return replicas;
  int64_t all = outer.dp * outer.cp, ranks = outer.shardGroup;
  // Of `ranks` data ranks every ep-th holds the same experts.
  if (expert)
    ranks =
        std::max<int64_t>(1, ranks == all ? all / outer.ep : ranks / outer.ep);
  if (!overContext)
    ranks = std::min(ranks, ranksOf(groups));
  if (!splitGroups(groups, ranks, replicas.shard, replicas.rest)) {
    replicas.shard.clear();
    replicas.rest = groups;
  }
  return replicas;
}

int64_t search_detail::dataRanksWithin(const Machine &machine,
                                       const OuterChoice &outer, size_t tier) {
  int64_t width = machine.devicesWithin(tier), ranks = 1;
  for (Group group : dataGroups(outer, false)) {
    int64_t inside = std::min(group.size, width / group.stride);
    if (inside < 1)
      break;
    ranks *= inside;
    if (inside < group.size)
      break;
  }
  return ranks;
}

/// Seconds of calls that move `bytes` together.
static double callsSec(AlphaBeta cost, double bytes, double calls) {
  return bytes > 0 ? calls * cost.alpha + cost.beta * bytes : 0;
}

double search_detail::scatterSec(GroupMemo &memo, const Groups &groups,
                                 double bytes, double calls) {
  double sec = 0;
  for (Group group : groups) {
    sec += callsSec(memo.of(group, bytes / calls).reduceScatter, bytes, calls);
    bytes /= double(group.size);
  }
  return sec;
}

double search_detail::gatherSec(GroupMemo &memo, const Groups &groups,
                                double bytes, double calls) {
  double sec = 0;
  for (Group group : groups) {
    sec += callsSec(memo.of(group, bytes / calls).allGather, bytes, calls);
    bytes /= double(group.size);
  }
  return sec;
}

double search_detail::reduceSec(GroupMemo &memo, const Groups &groups,
                                double bytes, double calls) {
  if (groups.empty())
    return 0;
  Groups inner(groups.begin(), groups.end() - 1);
  Group outermost = groups.back();
  double part = bytes / double(ranksOf(inner));
  return scatterSec(memo, inner, bytes, calls) +
         callsSec(memo.of(outermost, part / calls).allReduce, part, calls) +
         gatherSec(memo, inner, bytes, calls);
}

double search_detail::maximaSec(GroupMemo &memo, const Groups &groups,
                                int count) {
  return count > 0 ? reduceSec(memo, groups, 4.0 * count, count) : 0;
}

double DataExchange::sec(GroupMemo &memo) const {
  switch (kind) {
  case CollectiveKind::ReduceScatter:
    return scatterSec(memo, *groups, bytes, calls);
  case CollectiveKind::AllGather:
    return gatherSec(memo, *groups, bytes, calls);
  default:
    return reduceSec(memo, *groups, bytes, calls);
  }
}
