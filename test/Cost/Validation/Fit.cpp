//===- Fit.cpp - coordinate search for a profile --------------------------===//

#include "Fit.h"

#include "llvm/ADT/ArrayRef.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::validate;

/// Repeated runs of one layout differ by 1.5 to 4 % in published tables.
static constexpr double kNoise = 0.03;
/// Beyond this many times the noise a run counts linearly: an outlier.
static constexpr double kOutlier = 2;

static Parameter scaled(const char *name, double Profile::*field,
                        double plausible, double bound) {
  return {name,
          [field](Profile &profile, double offset) {
            profile.*field *= std::exp(offset);
          },
          plausible, bound};
}

/// Added to; the sum stays between `low` and `high`.
static Parameter shifted(const char *name, double Profile::*field,
                         double plausible, double low, double high) {
  return {name,
          [field, low, high](Profile &profile, double offset) {
            profile.*field = std::clamp(profile.*field + offset, low, high);
          },
          plausible, high - low};
}

static std::vector<Parameter> makeParameters() {
  Parameter floor = {"layer floor",
                     [](Profile &profile, double offset) {
                       profile.leastForwardSec *= std::exp(offset);
                       profile.leastBackwardSec *= std::exp(offset);
                     },
                     0.5, 2.0};
  Parameter data = {"data overlap",
                    [](Profile &profile, double offset) {
                      for (double *part :
                           {&profile.gradientOverlap, &profile.weightOverlap})
                        *part = std::clamp(*part + offset, 0.0, 1.0);
                    },
                    0.25, 1.0};
  return {scaled("matmul", &Profile::matmul, 0.10, 0.5),
          scaled("attention", &Profile::attention, 0.30, 1.0),
          floor,
          shifted("tensor overlap", &Profile::tensorOverlap, 0.25, -2, 0.95),
          data,
          shifted("bubble", &Profile::bubble, 0.10, 0.6, 1.4),
          shifted("step", &Profile::stepSec, 0.03, 0, 1)};
}

const std::vector<Parameter> &kerf::validate::fittedParameters() {
  static const std::vector<Parameter> parameters = makeParameters();
  return parameters;
}

Profile kerf::validate::moved(const Profile &prior,
                              const std::vector<double> &offsets) {
  Profile profile = prior;
  for (size_t p = 0; p < offsets.size(); ++p)
    fittedParameters()[p].move(profile, offsets[p]);
  return profile;
}

/// Huber's loss: quadratic near 0, linear beyond `kOutlier`.
static double huber(double ratio) {
  double size = std::abs(ratio);
  if (size <= kOutlier)
    return size * size / 2;
  return kOutlier * (size - kOutlier / 2);
}

namespace {
struct Search {
  llvm::ArrayRef<Parameter> parameters;
  const std::function<std::vector<double>(const std::vector<double> &)>
      &logRatios;

  double loss(const std::vector<double> &offsets) const {
    double sum = 0;
    for (double ratio : logRatios(offsets))
      sum += huber(ratio / kNoise);
    for (size_t p = 0; p < parameters.size(); ++p) {
      double distance = offsets[p] / parameters[p].plausible;
      sum += distance * distance / 2;
    }
    return sum;
  }

  /// Tries offset p by `step` to both sides; true when one is better.
  bool improve(std::vector<double> &offsets, double &best, size_t p,
               double step) const {
    double old = offsets[p], bound = parameters[p].bound;
    for (double direction : {1.0, -1.0}) {
      double next = std::clamp(old + direction * step, -bound, bound);
      if (next == old)
        continue;
      offsets[p] = next;
      double now = loss(offsets);
      if (now < best - 1e-9) {
        best = now;
        return true;
      }
    }
    offsets[p] = old;
    return false;
  }

  /// Minimises from `offsets`; returns the loss.
  double descend(std::vector<double> &offsets, int sweeps) const {
    std::vector<double> steps;
    for (const Parameter &parameter : parameters)
      steps.push_back(parameter.plausible);
    double best = loss(offsets);
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      double largest = 0;
      for (size_t p = 0; p < parameters.size(); ++p) {
        bool isBetter = improve(offsets, best, p, steps[p]);
        steps[p] *= isBetter ? 1.5 : 0.4;
        largest = std::max(largest, steps[p] / parameters[p].plausible);
      }
      if (largest < 0.02)
        break;
    }
    return best;
  }
};
} // namespace

std::vector<double> kerf::validate::fitOffsets(
    size_t count,
    const std::function<std::vector<double>(const std::vector<double> &)>
        &logRatios,
    int sweeps) {
  auto parameters = llvm::ArrayRef(fittedParameters()).take_front(count);
  Search search = {parameters, logRatios};
  std::vector<double> best(parameters.size(), 0.0);
  double bestLoss = search.descend(best, sweeps);
  // Starts on both sides of the prior: where a max() hides a number's effect,
  // the prior alone would keep it.
  for (double side : {1.0, -1.0}) {
    std::vector<double> offsets;
    for (size_t p = 0; p < parameters.size(); ++p)
      offsets.push_back((p % 2 ? -side : side) * parameters[p].plausible);
    double loss = search.descend(offsets, sweeps);
    if (loss < bestLoss - 1e-9) {
      bestLoss = loss;
      best = offsets;
    }
  }
  return best;
}

std::vector<double>
kerf::validate::calibrate(const std::vector<CalibrationRun> &runs,
                          size_t most) {
  auto logRatios = [&](const std::vector<double> &offsets) {
    std::vector<double> ratios;
    for (const CalibrationRun &run : runs)
      ratios.push_back(std::log(run.predictSec(moved(run.prior, offsets)) /
                                run.measuredSec));
    return ratios;
  };
  return fitOffsets(std::min(most, (runs.size() + 2) / 3), logRatios);
}
