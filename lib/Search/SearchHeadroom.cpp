//===- SearchHeadroom.cpp - the fastest plan that leaves more memory free -===//
//
// The fastest plan fills the memory as far as it may. What does it cost to
// leave more of it free? Degrees, schedule and state of the fastest plans that
// were found are searched again, each with more headroom: their tables are
// known, so this takes milliseconds. Others are not looked at, so the plan is
// an upper bound.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::search_detail;

/// Plans whose choice is searched again.
constexpr size_t kMostChoices = 6;

/// The pins with all of a choice.
static Pins pinsOf(Pins pins, const OuterChoice &outer) {
  pins.tp = {outer.tp};
  pins.cp = {outer.cp};
  pins.ep = {outer.ep};
  pins.pp = {outer.pp};
  pins.dp = {outer.dp};
  pins.microBatch = {outer.microBatch};
  pins.microBatches = {outer.microBatches};
  pins.chunks = {outer.chunks};
  pins.defer.clear();
  if (splitsWeightGradient(outer.schedule))
    pins.defer = {outer.mostDeferred()};
  pins.zero = {outer.zero};
  pins.shardGroup = {outer.shardGroup};
  pins.schedules = {outer.schedule};
  pins.order = outer.order;
  return pins;
}

/// The choices of a result, the fastest first.
static std::vector<const PlanPoint *> choicesOf(const SearchResult &result) {
  std::vector<const PlanPoint *> choices = {&*result.best};
  for (const Alternative &other : result.alternatives)
    if (other.plan && llvm::none_of(choices, [&](const PlanPoint *known) {
          return known->outer.print() == other.plan->outer.print();
        }))
      choices.push_back(&*other.plan);
  return choices;
}

std::optional<PlanPoint>
search_detail::withHeadroom(const SearchProblem &problem,
                            const SearchResult &result, double headroom) {
  Machine roomy = *problem.machine;
  roomy.device.headroom = std::max(headroom, roomy.device.headroom);
  SearchProblem other = problem;
  other.machine = &roomy;
  other.prove = false;
  std::optional<PlanPoint> best;
  std::vector<const PlanPoint *> choices = choicesOf(result);
  for (auto [i, choice] : llvm::enumerate(choices)) {
    // No choice takes less time with less room.
    if (best && choice->stepSec >= best->stepSec)
      break;
    if (fits(other, *choice)) {
      best = *choice;
      break;
    }
    if (i >= kMostChoices)
      continue;
    other.pins = pinsOf(problem.pins, choice->outer);
    std::optional<PlanPoint> plan = searchQuietly(other);
    if (plan && (!best || plan->stepSec < best->stepSec))
      best = std::move(plan);
  }
  return best;
}
