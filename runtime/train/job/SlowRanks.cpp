//===- SlowRanks.cpp ------------------------------------------------------===//

#include "kerf/Train/job/SlowRanks.h"

#include "kerf/Train/Text.h"
#include "kerf/Train/job/Median.h"

#include <algorithm>
#include <cstddef>

using namespace kerf::runtime;

/// A rank is named that was the slowest in so large a part of the steps and
/// takes so much longer than the others in the median, or than at the
/// beginning; no more where it is slower in less than half of them, or by less
/// than half of that.
static constexpr double kMostly = 0.8, kLonger = 0.08, kGrown = 0.1;

SlowRanks::SlowRanks(std::vector<uint32_t> all)
    : stages(std::move(all)), isSlow(stages.size(), false) {
  for (uint32_t rank = 0; rank < stages.size(); ++rank) {
    ranksOf.resize(std::max<size_t>(ranksOf.size(), stages[rank] + 1));
    ranksOf[stages[rank]].push_back(rank);
  }
}

/// Each rank beside the others of its stage.
SlowRanks::Look SlowRanks::look(const std::vector<double> &busySec) const {
  Look now{busySec, std::vector<double>(busySec.size(), 0.0),
           std::vector<bool>(busySec.size(), false)};
  for (std::vector<uint32_t> peers : ranksOf) {
    if (peers.size() < 2)
      continue;
    std::sort(peers.begin(), peers.end(),
              [&](uint32_t a, uint32_t b) { return busySec[a] < busySec[b]; });
    size_t middle = (peers.size() - 1) / 2;
    for (size_t place = 0; place < peers.size(); ++place) {
      double others = busySec[peers[place <= middle ? middle + 1 : middle]];
      now.excess[peers[place]] =
          busySec[peers[place]] / std::max(others, 1e-9) - 1;
    }
    now.isSlowest[peers.back()] = true;
  }
  return now;
}

std::vector<SlowRank> SlowRanks::note(const std::vector<double> &busySec) {
  std::vector<SlowRank> told;
  if (stages.size() < 2)
    return told; // There is nobody to compare it with.
  last.push_back(look(busySec));
  if (static_cast<int64_t>(last.size()) < kWindow)
    return told;
  std::vector<double> medians;
  for (size_t rank = 0; rank < stages.size(); ++rank) {
    std::vector<double> own;
    for (const Look &each : last)
      own.push_back(each.busySec[rank]);
    medians.push_back(median(own));
  }
  if (beginning.empty())
    beginning = medians;
  growth.resize(stages.size());
  for (size_t rank = 0; rank < stages.size(); ++rank)
    growth[rank] = medians[rank] / std::max(beginning[rank], 1e-9);
  for (uint32_t rank = 0; rank < stages.size(); ++rank) {
    SlowRank found = compare(rank);
    found.isSlow = !isSlow[rank];
    if (isSlow[rank] ? !isOver(found) : !isNamed(found))
      continue;
    isSlow[rank] = found.isSlow;
    told.push_back(found);
  }
  last.pop_front();
  return told;
}

bool SlowRanks::isNamed(const SlowRank &found) const {
  return static_cast<double>(found.slowest) >=
             kMostly * static_cast<double>(found.of) &&
         found.excess >= (found.peers > 1 ? kLonger : kGrown);
}

bool SlowRanks::isOver(const SlowRank &found) const {
  return 2 * found.slowest < found.of ||
         2 * found.excess < (found.peers > 1 ? kLonger : kGrown);
}

SlowRank SlowRanks::compare(uint32_t rank) const {
  SlowRank found = ranksOf[stages[rank]].size() > 1
                       ? compareWithPeers(rank)
                       : compareWithBeginning(rank);
  found.rank = rank;
  found.of = static_cast<int64_t>(last.size());
  found.peers = static_cast<int64_t>(ranksOf[stages[rank]].size());
  return found;
}

SlowRank SlowRanks::compareWithPeers(uint32_t rank) const {
  SlowRank found;
  std::vector<double> excess;
  for (const Look &each : last) {
    found.slowest += each.isSlowest[rank];
    excess.push_back(each.excess[rank]);
  }
  found.excess = median(excess);
  return found;
}

SlowRank SlowRanks::compareWithBeginning(uint32_t rank) const {
  SlowRank found;
  std::vector<double> others = growth;
  others.erase(others.begin() + rank);
  double usual = others.empty() ? 1 : std::max(median(others), 1e-9);
  for (const Look &each : last)
    found.slowest +=
        each.busySec[rank] > usual * (1 + kGrown / 2) * beginning[rank];
  found.excess = growth[rank] / usual - 1;
  return found;
}

static std::string named(const SlowRank &found, const std::string &machine) {
  return "rank " + std::to_string(found.rank) +
         (machine.empty() ? "" : " on " + machine);
}

std::string kerf::runtime::formatSlowRank(const SlowRank &found,
                                          const std::string &machine) {
  std::string text = " slow: " + named(found, machine);
  if (!found.isSlow)
    return text + " is as fast as others again";
  if (found.peers > 1)
    return text + format(" was the slowest of the %lld ranks of its stage in "
                         "%lld of %lld steps, by %.0f %% in the median",
                         static_cast<long long>(found.peers),
                         static_cast<long long>(found.slowest),
                         static_cast<long long>(found.of), 100 * found.excess);
  return text + format(" takes %.0f %% longer than when the run began, in the "
                       "median of %lld steps; other ranks do not",
                       100 * found.excess, static_cast<long long>(found.of));
}

std::string kerf::runtime::formatSlowRankJson(const SlowRank &found,
                                              const std::string &machine,
                                              int64_t step) {
  return format("{\"iteration\": %lld, \"slow_rank\": %u, \"machine\": ",
                static_cast<long long>(step), found.rank) +
         jsonQuote(machine) +
         format(", \"is_slow\": %s, \"slowest_in\": %lld, \"of_steps\": %lld, "
                "\"peers\": %lld, \"excess\": %.4f}",
                found.isSlow ? "true" : "false",
                static_cast<long long>(found.slowest),
                static_cast<long long>(found.of),
                static_cast<long long>(found.peers), found.excess);
}
