//===- ExplainAlternatives.cpp - why other plans lost ---------------------===//

#include "kerf/Report/ExplainDetail.h"

#include "kerf/Report/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <iterator>

using namespace kerf;
using namespace kerf::explain_detail;

/// What a plan spends on each thing, by names for a sentence.
static std::vector<std::pair<std::string, double>>
spentBy(const TimePart &time) {
  double exposed = time.exposedSec();
  for (const TrafficRow &row : time.traffic)
    if (row.axis == "data" || row.axis == kTiedWeights)
      exposed -= row.exposedSec;
  return {{"matmuls and attention", time.matmulSec + time.attentionSec},
          {"memory-bound kernels", time.rowSec},
          {"launch gaps", time.launchSec},
          {"recomputation", time.recomputeSec},
          {"optimizer", time.optimizerSec},
          {"traffic of activations", exposed},
          {"traffic of gradients and weights", time.exposedSec() - exposed},
          {"bubble", time.bubbleSec},
          {"imbalance", time.imbalanceSec}};
}

/// The largest parts in which a plan is slower, two at most: "+210 ms bubble,
/// +80 ms recomputation".
static std::string whySlower(const TimePart &other, const TimePart &best) {
  std::vector<std::pair<double, std::string>> more;
  double sum = 0;
  for (auto [own, old] : llvm::zip(spentBy(other), spentBy(best)))
    if (double delta = own.second - old.second; delta > 0) {
      more.push_back({delta, own.first});
      sum += delta;
    }
  std::sort(more.begin(), more.end(), [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::string> words;
  for (const auto &[delta, name] : more)
    if (words.size() < 2 && delta >= 0.15 * sum)
      words.push_back("+" + report::seconds(delta) + " " + name);
  return llvm::join(words, ", ");
}

RoomyPlan explain_detail::describeRoomy(const ExplainInput &input,
                                        const PlanPoint &plan) {
  RoomyPlan part;
  part.headroom = input.roomyHeadroom;
  const std::optional<PlanPoint> &roomy = input.result->roomy;
  if (part.headroom == 0 || !roomy)
    return part;
  part.stepSec = roomy->stepSec;
  part.layout = shortLayout(roomy->outer);
  part.isBest = roomy->stepSec == plan.stepSec &&
                roomy->outer.print() == plan.outer.print();
  return part;
}

std::vector<AlternativeRow>
explain_detail::describeAlternatives(const ExplainInput &input,
                                     const TimePart &best) {
  std::vector<AlternativeRow> running, others;
  for (const Alternative &other : input.result->alternatives) {
    AlternativeRow row{other.what, other.why, 0, "", other.boundSec};
    if (!other.plan) {
      others.push_back(std::move(row));
      continue;
    }
    TimePart time =
        accountParts(*input.step, *input.machine, input.profile, *other.plan);
    row.stepSec = time.stepSec;
    row.layout = shortLayout(other.plan->outer);
    if (std::string why = whySlower(time, best); !why.empty())
      row.why = why;
    running.push_back(std::move(row));
  }
  std::sort(running.begin(), running.end(),
            [](const AlternativeRow &a, const AlternativeRow &b) {
              return a.stepSec != b.stepSec ? a.stepSec < b.stepSec
                                            : a.what < b.what;
            });
  std::move(others.begin(), others.end(), std::back_inserter(running));
  return running;
}
