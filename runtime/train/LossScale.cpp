//===- LossScale.cpp - the factor on the loss of f16 ----------------------===//

#include "kerf/Train/LossScale.h"

#include "kerf/Train/Text.h"

#include <cmath>

using namespace kerf::runtime;

bool LossScale::note(double gradNorm, double loss) {
  bool isGood = std::isfinite(gradNorm);
  lostSteps = std::isfinite(loss) ? 0 : lostSteps + 1;
  skippedSteps += !isGood;
  goodSteps = isGood ? goodSteps + 1 : 0;
  if (!isDynamic())
    return isGood;
  if (!isGood)
    factor *= 0.5;
  if (goodSteps >= interval) {
    goodSteps = 0;
    if (std::isfinite(static_cast<float>(factor * 2)))
      factor *= 2;
  }
  return isGood;
}

std::string LossScale::describe() const {
  if (!isDynamic())
    return format("%g", factor);
  return format("dynamic, %g at first, doubled after ", factor) +
         withCommas(interval) + " good steps";
}
