//===- Fit.h - a runtime's profile from a few runs ------------------------===//
//
// Problem: a handful of runs of a runtime on a machine, and a model that
// predicts their time from a profile. Find the few numbers of the profile that
// explain the runs, without explaining the noise.
//
// Idea: minimise sum of robust losses of log(predicted / measured) plus, for
// each number, its squared distance from the prior in units of what is
// plausible. The time has max() terms, so gradients vanish: each number in turn
// is moved up and down by a step that halves when nothing helps. Several
// starts, the best wins.
//
// Numbers are fitted in a fixed order of importance, one for every three runs.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_FIT_H
#define KERF_TEST_COST_VALIDATION_FIT_H

#include "kerf/Cost/Profile.h"

#include <functional>
#include <string>
#include <vector>

namespace kerf::validate {

/// A number of a profile that may be fitted, as an offset from its prior.
struct Parameter {
  std::string name;
  /// Moves the number: multiplies it by exp(offset), or adds the offset and
  /// keeps the sum between its bounds.
  std::function<void(Profile &profile, double offset)> move;
  double plausible; ///< offset that is one standard deviation of the prior
  double bound;     ///< largest size of the offset
};

/// In order of importance: matmul, attention, layer floor, tensor overlap, data
/// overlap, bubble, constant per step.
const std::vector<Parameter> &fittedParameters();

/// Offsets of the first `count` of `fittedParameters()` that minimise
///   sum_i huber(log_ratio_i / noise) + sum_p (offset_p / plausible_p)^2 / 2
/// where `logRatios(offsets)` are those of the runs. At most `sweeps` passes
/// over the numbers from each start.
std::vector<double>
fitOffsets(size_t count,
           const std::function<std::vector<double>(const std::vector<double> &)>
               &logRatios,
           int sweeps = 24);

/// `prior` with its first numbers moved.
Profile moved(const Profile &prior, const std::vector<double> &offsets);

/// A run to calibrate on.
struct CalibrationRun {
  Profile prior; ///< of its runtime
  double measuredSec = 0;
  std::function<double(const Profile &)> predictSec;
};

/// Offsets that explain the runs, each from its own prior; one number for every
/// three runs, at most `most`. Empty without runs.
std::vector<double> calibrate(const std::vector<CalibrationRun> &runs,
                              size_t most = 7);

/// Numbers of `fittedParameters()` that are kernels' rates: what runtimes have
/// in common, unlike launches, overlap and schedules.
constexpr size_t kKernelRates = 2;

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_FIT_H
