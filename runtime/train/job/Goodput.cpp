//===- Goodput.cpp --------------------------------------------------------===//

#include "kerf/Train/job/Goodput.h"

#include "kerf/Train/Text.h"

#include <algorithm>
#include <numeric>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// An attempt
//===----------------------------------------------------------------------===//

void AttemptClock::note(const FaultRecord &record) {
  if (record.rank != 0 || record.at < mark)
    return;
  bool begins = record.kind == FaultKind::None;
  bool ends = record.kind == FaultKind::Done;
  if (!begins && !ends && record.kind != FaultKind::Finished)
    return;
  double passed = record.at - mark;
  mark = record.at;
  if (times.firstStep == 0) {
    times.firstStep = begins ? record.step : 0;
    times.startingSec += passed;
  } else if (isInStep) {
    // A record between them may have found no room in the pipe.
    addStep(ends ? record.step : record.step - 1, passed);
  } else {
    double saving = std::clamp(record.savingSec, 0.0, passed);
    times.savingSec += saving;
    times.otherSec += passed - saving;
  }
  isInStep = begins;
}

/// Steps that nobody told of took their time in one that is told.
void AttemptClock::addStep(int64_t step, double seconds) {
  int64_t place = step - times.firstStep;
  if (place < static_cast<int64_t>(times.stepSec.size()))
    return;
  times.stepSec.resize(static_cast<size_t>(place), 0.0);
  times.stepSec.push_back(seconds);
}

AttemptTimes AttemptClock::until(double end) const {
  AttemptTimes all = times;
  double &rest = isInStep             ? all.unfinishedSec
                 : all.firstStep == 0 ? all.startingSec
                                      : all.otherSec;
  rest += std::max(end - mark, 0.0);
  return all;
}

//===----------------------------------------------------------------------===//
// A job
//===----------------------------------------------------------------------===//

void Goodput::add(const AttemptTimes &attempt) {
  ++spent.starts;
  spent.starting += attempt.startingSec;
  spent.saving += attempt.savingSec;
  spent.other += attempt.otherSec;
  spent.lost += attempt.unfinishedSec;
  if (attempt.firstStep == 0)
    return;
  if (firstStep == 0)
    firstStep = attempt.firstStep;
  // What comes again was made for nothing.
  auto kept =
      static_cast<size_t>(std::max<int64_t>(attempt.firstStep - firstStep, 0));
  for (size_t step = kept; step < stepSec.size(); ++step)
    spent.lost += stepSec[step];
  stepSec.resize(kept, 0.0);
  firstStep = kept == 0 ? attempt.firstStep : firstStep;
  stepSec.insert(stepSec.end(), attempt.stepSec.begin(), attempt.stepSec.end());
}

TimeSpent Goodput::sum() const {
  TimeSpent all = spent;
  all.productive = std::accumulate(stepSec.begin(), stepSec.end(), 0.0);
  return all;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string kerf::runtime::formatSpent(const TimeSpent &spent) {
  double total = std::max(spent.total(), 1e-9);
  std::string text = " the job took " + formatDuration(spent.total()) +
                     ", in " + std::to_string(spent.starts) +
                     (spent.starts == 1 ? " start" : " starts");
  auto line = [&](const char *name, double seconds, const char *words) {
    text += format("\n   %-11s %10.1f s %6.2f %%  %s", name, seconds,
                   100 * seconds / total, words);
  };
  line("productive", spent.productive, "steps that count: the goodput");
  line("lost", spent.lost, "steps that were run again, or not finished");
  line("starting", spent.starting, "until the first step of each start");
  line("waiting", spent.waiting, "pauses before a start");
  line("saving", spent.saving, "training stood still for a save");
  line("other", spent.other, "held-out losses, exports, the end");
  return text;
}

std::string kerf::runtime::formatSpentJson(const TimeSpent &spent) {
  return format("{\"goodput\": %.6f, \"seconds\": %.3f, \"starts\": %lld, "
                "\"productive\": %.3f, \"lost\": %.3f, \"starting\": %.3f, "
                "\"waiting\": %.3f, \"saving\": %.3f, \"other\": %.3f}",
                spent.goodput(), spent.total(),
                static_cast<long long>(spent.starts), spent.productive,
                spent.lost, spent.starting, spent.waiting, spent.saving,
                spent.other);
}
