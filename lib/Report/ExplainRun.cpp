//===- ExplainRun.cpp - what a whole run takes ----------------------------===//
//
// Failures: N devices that fail independently, each once in M, fail once in M /
// N. A save stops training for s seconds and is written beside it in w. Saving
// every t seconds of work loses s per interval, and per failure the work since
// the newest save that was whole. t = sqrt(2 s M / N) is best to first order
// (Young, CACM 17(9), 1974), but one save has to be written before the next,
// and the writer, which is held back in the first half of that time, gets twice
// w. A failure x seconds after a start leaves the t of each save that was whole
// by then: k of them where x is k (t + s) + w at least. So the part of the time
// that makes progress is, with restarts of R seconds (M of the whole machine),
//
//   goodput = t e^(-w/M) / (M e^(R/M) (e^((t + s)/M) - 1)),
//
// with w = 0 equation 13 of Daly, FGCS 22(3), 2006.
//
// A copy in a neighbour's memory (kerf-run --peer-copies=1) goes to the own
// host beside training as a save does, but is sent between steps: s has the
// time that a device's part takes on the network, and w ends where it is sent,
// a quarter of an interval later. Then a failure costs no more than the newest
// copy; that two machines which keep each other's parts fail at once is left
// out. Copies stand where they gain something: with a fast storage they don't.
//
// Example: 1,024 devices of 50,000 h: M = 175,781 s, 0.49 failures a day; saves
// that stop training for 0.1 s and are written in 10 s: t = 188 s, goodput with
// restarts of 180 s 0.9979; where training waits for the 10 s 0.988.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/Explain.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

/// The part of a step for which a save stops training: at most so much was
/// measured (docs/long-runs.md, "What a save costs", on CPUs).
static constexpr double kSaveStall = 0.01;

/// How long a save is written, and what bounds it. Every device writes its
/// part.
static void addWriting(RunPart &run, const Machine &machine, double devices) {
  double rate = devices * machine.reliability->checkpointBytesPerSec;
  run.checkpointBound = "writers";
  auto bound = [&](double other, const char *words) {
    if (other <= 0 || other >= rate)
      return;
    rate = other;
    run.checkpointBound = words;
  };
  if (machine.storage) {
    double units =
        machine.tiers.empty()
            ? 1
            : std::ceil(devices / double(machine.tiers.front().size));
    bound(units * machine.storage->unitBytesPerSec, "links to storage");
    bound(machine.storage->bytesPerSec, "storage");
  }
  run.checkpointSec = run.checkpointBytes / rate;
}

namespace {
/// How often the machine fails, and what each failure costs at least.
struct Faults {
  double mtbfSec, restartSec;

  /// Between saves that stop training for `stall`: the best to first order.
  double bestInterval(double stall) const {
    return std::sqrt(2 * stall * mtbfSec);
  }
  /// The part of the time that makes progress.
  double goodput(double interval, double stall, double written) const {
    double lost = std::expm1((interval + stall) / mtbfSec) *
                  std::exp((restartSec + written) / mtbfSec);
    return interval / (mtbfSec * lost);
  }
};
} // namespace

/// Bytes per second of a device to one half of all machines further.
static double acrossHalf(const Machine &machine) {
  double rate = std::numeric_limits<double>::infinity();
  for (const Tier &tier : llvm::drop_begin(machine.tiers))
    if (tier.size > 1)
      rate = std::min(rate, tier.bytesPerSec / tier.oversubscription);
  return rate;
}

/// Copies in the memory of another machine, each beside the one before it.
static void addCopies(RunPart &run, const Machine &machine, double devices,
                      double stepSec, const Faults &faults) {
  if (machine.tiers.empty() || devices <= double(machine.tiers.front().size))
    return;
  double part = run.checkpointBytes / devices, rate = acrossHalf(machine);
  double perMachine = std::min(devices, double(machine.tiers.front().size));
  constexpr double copies = 2, holders = 2; // old and new; own and another's
  if (machine.host &&
      copies * holders * part * perMachine > machine.host->memoryBytes)
    return;
  double toHost = part / (machine.host ? machine.host->bytesPerSec : rate);
  double stall = run.copyStallSec = kSaveStall * stepSec + part / rate;
  double interval = run.copyIntervalSec =
      std::max({2 * toHost, stepSec, faults.bestInterval(stall)});
  constexpr double sending = 0.25; // of an interval (job/PeerCopies.cpp)
  run.copyGoodput =
      faults.goodput(interval, stall, toHost + sending * interval);
}

/// Fills in what failures cost.
static void addFailures(RunPart &run, const StepModel &step,
                        const Machine &machine, double devices,
                        double stepSec) {
  const Reliability &reliability = *machine.reliability;
  Faults faults = {reliability.deviceMtbfSec / devices, reliability.restartSec};
  run.failuresPerDay = 86400 / faults.mtbfSec;
  run.checkpointBytes = checkpointBytes(step);
  addWriting(run, machine, devices);
  double stall = run.checkpointStallSec = kSaveStall * stepSec;
  double interval = run.checkpointIntervalSec =
      std::max({2 * run.checkpointSec, stepSec, faults.bestInterval(stall)});
  run.goodput = faults.goodput(interval, stall, run.checkpointSec);
  addCopies(run, machine, devices, stepSec, faults);
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
    addFailures(run, step, machine, devices, stepSec);
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
