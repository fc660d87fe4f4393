//===- SlowLinks.cpp ------------------------------------------------------===//

#include "kerf/Train/job/SlowLinks.h"

#include "kerf/Train/Text.h"
#include "kerf/Train/job/Median.h"

#include <algorithm>

using namespace kerf::runtime;

/// Of so many machines three pairs measure at a time: their median is one that
/// a slow link does not change.
static constexpr size_t kCompared = 6;
/// Rounds of the beginning.
static constexpr uint64_t kBeginning = 10;

/// The circle method: one stays, the others move on by a place.
std::vector<MachinePair> SlowLinks::pairs(uint64_t round) const {
  uint32_t places = machines + machines % 2; // with one who rests
  std::vector<uint32_t> circle(places);
  for (uint32_t i = 1; i < places; ++i)
    circle[i] = 1 + static_cast<uint32_t>((i - 1 + round) % (places - 1));
  std::vector<MachinePair> met;
  for (uint32_t i = 0; i < places / 2; ++i) {
    auto [low, high] = std::minmax(circle[i], circle[places - 1 - i]);
    if (high < machines)
      met.emplace_back(low, high);
  }
  return met;
}

/// Adds to `told` what a whole window says new of a link, or of a machine's.
void SlowLinks::judge(const Window &window, size_t size, MachinePair ends,
                      std::vector<SlowLink> &told) {
  if (window.size() < size)
    return;
  SlowLink found;
  found.ends = ends;
  found.of = static_cast<int64_t>(size);
  bool &known = isSlow[ends];
  double limit = known ? (1 + kSlow) / 2 : kSlow;
  found.slow = std::count_if(window.begin(), window.end(),
                             [&](double factor) { return factor >= limit; });
  found.factor = median({window.begin(), window.end()});
  // One measurement of a machine may be of another kind; none of a pair.
  int64_t needed = found.of - (ends.first == ends.second);
  found.isSlow = known ? 2 * found.slow > found.of : found.slow >= needed;
  if (found.isSlow != known)
    told.push_back(found);
  known = found.isSlow;
}

static void push(std::deque<double> &window, double value, size_t size) {
  window.push_back(value);
  if (window.size() > size)
    window.pop_front();
}

std::vector<SlowLink> SlowLinks::note(uint64_t round,
                                      const std::vector<double> &seconds) {
  std::vector<MachinePair> met = pairs(round);
  std::vector<SlowLink> told;
  double usual = median(seconds);
  if (machines < kCompared) { // Nothing to compare with but the beginning.
    if (round < kBeginning) {
      beginning.insert(beginning.end(), seconds.begin(), seconds.end());
      return told;
    }
    usual = median(beginning);
  }
  for (size_t i = 0; i < met.size(); ++i) {
    double factor = seconds[i] / std::max(usual, 1e-9);
    push(ofPair[met[i]], factor, kOfPair);
    for (uint32_t end : {met[i].first, met[i].second})
      push(ofMachine[end], factor, kOfMachine);
  }
  for (uint32_t m = 0; m < machines && machines > 2; ++m)
    judge(ofMachine[m], kOfMachine, {m, m}, told);
  for (const MachinePair &pair : met)
    if (isSlow[{pair.first, pair.first}] || isSlow[{pair.second, pair.second}])
      ofPair[pair].clear(); // The machine is to blame.
    else
      judge(ofPair[pair], kOfPair, pair, told);
  return told;
}

static std::string linkName(const SlowLink &found,
                            const std::vector<std::string> &names) {
  const std::string &first = names[found.ends.first];
  return found.ends.first == found.ends.second
             ? "the links of " + first
             : "the link between " + first + " and " + names[found.ends.second];
}

std::string
kerf::runtime::formatSlowLink(const SlowLink &found,
                              const std::vector<std::string> &names) {
  std::string text = " slow: " + linkName(found, names);
  bool isOne = found.ends.first != found.ends.second;
  if (!found.isSlow)
    return text + (isOne ? " is" : " are") + " as fast as usual again";
  return text + format(" took %.1f times as long as ", found.factor) +
         (names.size() >= kCompared ? "others" : "when the run began") +
         format(" in %lld of %lld measurements",
                static_cast<long long>(found.slow),
                static_cast<long long>(found.of));
}

std::string
kerf::runtime::formatSlowLinkJson(const SlowLink &found,
                                  const std::vector<std::string> &names,
                                  int64_t step) {
  return format("{\"iteration\": %lld, \"slow_link\": ",
                static_cast<long long>(step)) +
         jsonQuote(names[found.ends.first]) + ", \"other_end\": " +
         (found.ends.first == found.ends.second
              ? "null"
              : jsonQuote(names[found.ends.second])) +
         format(", \"is_slow\": %s, \"slow\": %lld, \"of_measurements\": %lld, "
                "\"factor\": %.3f}",
                found.isSlow ? "true" : "false",
                static_cast<long long>(found.slow),
                static_cast<long long>(found.of), found.factor);
}
