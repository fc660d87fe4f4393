//===- RunPage.h - a run as a page for a browser ----------------*- C++ -*-===//
//
// What one shows after a run: the loss, how fast the steps were beside what the
// planner foretold, and where ranks waited. One file that fetches nothing.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_RUNPAGE_H
#define KERF_TRAIN_RUNPAGE_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Plot.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

/// What the planner wrote into a file about its step; 0 and "": nothing.
struct Foretold {
  double stepSec = 0;
  std::string cluster;
};
/// Reads it from the plan of a file, as JSON.
Foretold readForetold(std::string_view plan);

/// A kind of command and what it took on the first rank; seconds of the run.
struct CommandShare {
  std::string name;
  double seconds = 0;
  int64_t calls = 0;
};

/// What is collected while a run goes on.
struct RunPage {
  LossPlot plot;                      ///< also the page's title
  std::vector<double> steps, stepSec; ///< number and seconds of each step
  std::vector<LossPoint> expertLoad;  ///< largest over the mean, by step
  double tokens = 0;                  ///< of a step, all ranks
  int64_t ranks = 1;
  /// By rank, sums over the steps in seconds: data, communication, meetings.
  std::vector<std::array<double, 3>> waits;
  double peakMemoryMb = 0; ///< of the first rank's process
  uint64_t arenaBytes = 0; ///< of the largest rank, as planned
  Foretold foretold;
  std::vector<CommandShare> commands; ///< with --profile
  bool isStopped = false;             ///< before its last step

  void note(const StepRecord &record,
            const std::vector<std::array<double, 3>> &ranks);
  /// The times of a session that measures them.
  void noteCommands(kerf_session *session);
};

/// The median of the steps but for the first, which also loads and warms up;
/// the only one where there is one; 0 without steps.
double medianStepSec(const RunPage &page);
std::string renderRunPage(const RunPage &page);

} // namespace kerf::runtime

#endif // KERF_TRAIN_RUNPAGE_H
