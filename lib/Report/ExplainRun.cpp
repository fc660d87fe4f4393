//===- ExplainRun.cpp - what a whole run takes ----------------------------===//
//
// Failures: N devices that fail independently, each once in M, fail once in M /
// N. Saving takes s seconds; saving every t seconds of work loses s per
// interval and the work since the last save per failure. t = sqrt(2 s M / N) is
// best to first order (Young, CACM 17(9), 1974). The part of the time that
// makes progress is then, with restarts of R seconds (Daly, FGCS 22(3), 2006,
// equation 13; M now of the whole machine),
//
//   goodput = t / (M e^(R/M) (e^((t + s)/M) - 1))
//
// Example: 1,024 devices of 50,000 h: M = 175,781 s, 0.49 failures a day; a
// save of 10 s: t = 1,875 s, goodput with restarts of 180 s 0.988.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/Explain.h"

#include <algorithm>
#include <cmath>

using namespace kerf;

/// Bytes that training is continued from: masters (weights, where there are
/// none) and optimizer state.
static double checkpointBytes(const StepModel &step) {
  double bytes = 0;
  for (const LayerRun &run : step.runs)
    for (const LayerParam &param : step.kinds[run.kind].params) {
      if (param.shared)
        continue;
      double weight =
          param.masterBytes > 0 ? param.masterBytes : param.weightBytes;
      bytes += static_cast<double>(run.count) * param.elements *
               (weight + param.stateBytes);
    }
  return bytes;
}

/// Fills in what failures cost. Every device saves its part.
static void addFailures(RunPart &run, const StepModel &step,
                        const Reliability &reliability, double devices) {
  double mtbf = reliability.deviceMtbfSec / devices;
  run.failuresPerDay = 86400 / mtbf;
  run.checkpointBytes = checkpointBytes(step);
  run.checkpointSec =
      run.checkpointBytes / devices / reliability.checkpointBytesPerSec;
  double interval = std::sqrt(2 * run.checkpointSec * mtbf);
  run.checkpointIntervalSec = interval;
  double lost = std::expm1((interval + run.checkpointSec) / mtbf) *
                std::exp(reliability.restartSec / mtbf);
  if (interval > 0)
    run.goodput = interval / (mtbf * lost);
}

RunPart kerf::planRun(const StepModel &step, const Machine &described,
                      int64_t count, double stepSec, double tokens) {
  Machine machine = described.perRank();
  auto devices = static_cast<double>(count);
  RunPart run;
  run.tokens =
      tokens > 0 ? tokens : kTokensPerParameter * step.activeParameters();
  run.steps = std::ceil(run.tokens / step.tokens());
  run.tokensPerSec = step.tokens() / stepSec;
  run.tokensPerParameter = run.tokens / step.activeParameters();
  run.hasExperts = step.activeParameters() < step.parameters();
  if (machine.reliability && machine.reliability->deviceMtbfSec > 0 &&
      machine.reliability->checkpointBytesPerSec > 0)
    addFailures(run, step, *machine.reliability, devices);
  run.seconds = run.steps * stepSec / run.goodput;

  run.deviceHours = devices * run.seconds / 3600;
  double pue = machine.price ? machine.price->pue : 1;
  run.joules = run.seconds * devices * machine.device.powerWatt * pue;
  if (run.joules > 0)
    run.flopsPerJoule = run.steps * step.stepFlops() / run.joules;
  if (machine.price) {
    run.currency = machine.price->currency;
    run.devicePrice = machine.price->deviceHour;
    run.price = run.deviceHours * run.devicePrice;
    run.isPriceGiven = machine.price->isGiven;
    if (described.device.shared && !described.tiers.empty())
      run.sharing = described.tiers.front().size;
    run.carbonKg = run.joules / 3.6e6 * machine.price->carbonKgPerKwh;
  }
  return run;
}
