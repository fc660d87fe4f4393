//===- Goodput.h - what the time of a job went into -------------*- C++ -*-===//
//
// The first rank tells its launcher when it begins and ends a step (Faults.h).
// Of these moments the launcher makes an account of an attempt, and of all
// attempts the account of the job: a step that a later attempt makes again was
// lost in the earlier one.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_JOB_GOODPUT_H
#define KERF_TRAIN_JOB_GOODPUT_H

#include "kerf/Train/Faults.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Seconds of one attempt.
struct AttemptTimes {
  double startingSec = 0; ///< from the launch until the first step begins
  double savingSec = 0;   ///< between steps, where training waits for a save
  double otherSec = 0;    ///< between steps: held-out losses, exports, the end
  double unfinishedSec = 0;    ///< of the step in which it ended
  int64_t firstStep = 0;       ///< that it began; 0: none
  std::vector<double> stepSec; ///< of the steps that it made, from that one on
};

/// Follows an attempt. Times are those of `now()`.
class AttemptClock {
public:
  explicit AttemptClock(double start) : mark(start) {}
  /// What the first rank told. Records of others are passed over.
  void note(const FaultRecord &record);
  /// What went into it until `end`.
  AttemptTimes until(double end) const;

private:
  void addStep(int64_t step, double seconds);

  AttemptTimes times;
  double mark; ///< to which all time is accounted for
  bool isInStep = false;
};

/// Seconds of a job by what they went into.
struct TimeSpent {
  double productive = 0; ///< steps that count
  double lost = 0;       ///< steps run again later, or not finished
  double saving = 0, starting = 0;
  double waiting = 0; ///< pauses between attempts
  double other = 0;
  int64_t starts = 0;

  double total() const {
    return productive + lost + saving + starting + waiting + other;
  }
  /// Part of the time that makes progress, 0 to 1.
  double goodput() const { return total() > 0 ? productive / total() : 0; }
};

/// Adds up the attempts of a job.
class Goodput {
public:
  void add(const AttemptTimes &attempt);
  void wait(double seconds) { spent.waiting += seconds; }
  TimeSpent sum() const;

private:
  TimeSpent spent;             ///< `productive` aside
  int64_t firstStep = 0;       ///< of `stepSec`; 0: none yet
  std::vector<double> stepSec; ///< of the steps that count
};

/// A line for each, with parts of the whole; without a line break at the end.
std::string formatSpent(const TimeSpent &spent);
/// The same as a JSON object.
std::string formatSpentJson(const TimeSpent &spent);

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_GOODPUT_H
