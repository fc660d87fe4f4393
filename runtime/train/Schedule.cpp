//===- Schedule.cpp - the learning rate over steps ------------------------===//

#include "kerf/Train/Schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace kerf::runtime;

static constexpr Decay allDecays[] = {Decay::Cosine, Decay::Linear,
                                      Decay::Constant, Decay::Wsd};

bool kerf::runtime::parseDecay(std::string_view name, Decay &decay) {
  for (Decay candidate : allDecays)
    if (name == decayName(candidate)) {
      decay = candidate;
      return true;
    }
  return false;
}

std::string_view kerf::runtime::decayName(Decay decay) {
  static constexpr std::string_view names[] = {"cosine", "linear", "constant",
                                               "wsd"};
  return names[static_cast<size_t>(decay)];
}

/// (t - from) / (to - from), clamped to [0, 1]; 1 from `to` on.
static double progress(double t, double from, double to) {
  return t >= to ? 1.0 : std::max(0.0, (t - from) / (to - from));
}

double Schedule::at(int64_t step) const {
  if (step <= warmupSteps)
    return peak * static_cast<double>(step) / static_cast<double>(warmupSteps);
  auto t = static_cast<double>(step), last = static_cast<double>(decaySteps);
  double x = progress(t, static_cast<double>(warmupSteps), last);
  double span = peak - minimum;
  switch (decay) {
  case Decay::Constant:
    return peak;
  case Decay::Linear:
    return minimum + span * (1 - x);
  case Decay::Cosine:
    return minimum + span * 0.5 * (1 + std::cos(std::numbers::pi * x));
  case Decay::Wsd:
    return minimum + span * (1 - progress(t, last * (1 - wsdPart), last));
  }
  return peak;
}
