//===- Splits.cpp ---------------------------------------------------------===//

#include "Splits.h"

#include "kerf/Artifact/Format.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace kerf::runtime;
using namespace kerf::runtime::nccl;

uint64_t kerf::runtime::nccl::keyOf(const std::vector<uint32_t> &members,
                                    uint64_t use) {
  uint64_t hash = kerf_mix(use);
  for (uint32_t member : members)
    hash = kerf_mix(hash ^ member);
  return hash;
}

namespace {
/// One member of a group: a rank, and where it named it.
struct Member {
  uint32_t rank, at, place;
};

/// A group with all that named it.
struct Group {
  uint32_t at;     ///< its first place in a list: the order of the plan
  uint32_t number; ///< in order of keys
  uint32_t first, size;
  std::vector<Member> members;
};
} // namespace

/// Groups that ranks name several times, like channels, are told apart by how
/// often the rank named them before.
static std::vector<Group> gather(const std::vector<NamedList> &named) {
  using Key = std::tuple<uint32_t, uint32_t, uint64_t, uint32_t>;
  std::map<Key, Group> groups;
  for (uint32_t rank = 0; rank < named.size(); ++rank) {
    std::map<Key, uint32_t> counts;
    for (uint32_t at = 0; at < named[rank].size(); ++at) {
      const Named &name = named[rank][at];
      uint32_t before = counts[{name.first, name.size, name.key, 0}]++;
      Group &group = groups
                         .try_emplace({name.first, name.size, name.key, before},
                                      Group{at, 0, name.first, name.size, {}})
                         .first->second;
      group.at = std::min(group.at, at);
      group.members.push_back({rank, at, name.place});
    }
  }
  std::vector<Group> sorted;
  for (auto &[key, group] : groups) {
    group.number = uint32_t(sorted.size());
    sorted.push_back(std::move(group));
  }
  std::sort(sorted.begin(), sorted.end(), [](const Group &a, const Group &b) {
    return std::tie(a.at, a.first, a.number) <
           std::tie(b.at, b.first, b.number);
  });
  return sorted;
}

static Status check(const Group &group) {
  std::vector<bool> isTaken(group.size);
  for (const Member &member : group.members) {
    if (member.place >= group.size || isTaken[member.place])
      return failure(KERF_INVALID,
                     "ranks disagree: two are member %u of a group of %u "
                     "ranks, one is rank %u",
                     member.place, group.size, member.rank);
    isTaken[member.place] = true;
  }
  if (group.members.size() == group.size)
    return {};
  return failure(KERF_INVALID,
                 "ranks disagree: a group of %u ranks that begins with rank %u "
                 "is known to %zu of them, rank %u among them",
                 group.size, group.first, group.members.size(),
                 group.members.front().rank);
}

/// Is one of the members in another group of this split?
static bool isTaken(const Group &group, size_t split, const SplitPlan &plan) {
  return std::any_of(
      group.members.begin(), group.members.end(), [&](const Member &member) {
        const auto &own = plan[member.rank];
        return split < own.size() && own[split].color != kNoColor;
      });
}

Status kerf::runtime::nccl::planSplits(const std::vector<NamedList> &named,
                                       SplitPlan &plan) {
  plan.assign(named.size(), {});
  size_t splits = 0;
  for (const Group &group : gather(named)) {
    if (Status status = check(group); status.failed())
      return status;
    size_t split = 0;
    while (isTaken(group, split, plan))
      ++split;
    for (const Member &member : group.members) {
      if (plan[member.rank].size() <= split)
        plan[member.rank].resize(split + 1);
      plan[member.rank][split] = {int(group.first), int(member.place),
                                  member.at};
    }
    splits = std::max(splits, split + 1);
  }
  for (std::vector<Split> &own : plan)
    own.resize(splits);
  return {};
}
