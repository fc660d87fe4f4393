//===- Sweep.cpp - how many devices, and which ----------------------------===//

#include "kerf/Report/Sweep.h"
#include "kerf/Report/Report.h"
#include "kerf/Support/Quantities.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace kerf;

//===----------------------------------------------------------------------===//
// Device counts
//===----------------------------------------------------------------------===//

/// More devices than any cluster has: a sweep to it is a mistake.
static constexpr int64_t kMostDevices = int64_t(1) << 24;
/// A range with at most so many counts is taken whole.
static constexpr int64_t kWholeRange = 16;
/// Each count is a search.
static constexpr size_t kMostCounts = 1024;

static std::string quoted(llvm::StringRef text) {
  std::string result = "'" + text.take_front(80).str() + "'";
  for (char &c : result)
    c = llvm::isPrint(c) ? c : '?';
  return result;
}

/// A number of devices; 0 with `error` set if it is none.
static int64_t readCount(llvm::StringRef text, llvm::StringRef part,
                         std::string &error) {
  int64_t count = readWhole(text).value_or(0);
  if (count < 1 || count > kMostDevices) {
    error = "expected a number of devices from 1 to " +
            std::to_string(kMostDevices) + ", found " + quoted(text);
    if (text != part)
      error += " in " + quoted(part);
    return 0;
  }
  return count;
}

namespace {
/// How a range goes on: by addition or by multiplication.
struct Stride {
  int64_t add = 0, times = 1;
};
} // namespace

/// Splits "1024x2" and "64+8"; without either, small ranges are taken whole.
static bool readStride(llvm::StringRef part, llvm::StringRef &last,
                       std::optional<Stride> &stride, std::string &error) {
  size_t at = last.find_first_of("x+");
  if (at == llvm::StringRef::npos)
    return true;
  bool times = last[at] == 'x';
  int64_t step = readCount(last.drop_front(at + 1), part, error);
  if (step == 0)
    return false;
  if (times && step < 2) {
    error = "expected a factor of at least 2, found 1 in " + quoted(part);
    return false;
  }
  stride = times ? Stride{0, step} : Stride{step, 1};
  last = last.take_front(at);
  return true;
}

/// Reads "8..1024x2" or "8" and appends its counts.
static bool readPart(llvm::StringRef part, std::vector<int64_t> &counts,
                     std::string &error) {
  auto [first, last] = part.split("..");
  bool range = part.contains("..");
  std::optional<Stride> stride;
  if (range && !readStride(part, last, stride, error))
    return false;
  int64_t low = readCount(first, part, error);
  int64_t high = range && low ? readCount(last, part, error) : low;
  if (low == 0 || high == 0)
    return false;
  if (high < low) {
    error = "expected an ascending range, found " + quoted(part);
    return false;
  }
  if (!stride)
    stride = high - low < kWholeRange ? Stride{1, 1} : Stride{0, 2};
  for (int64_t n = low; n <= high && counts.size() <= kMostCounts;
       n = n * stride->times + stride->add)
    counts.push_back(n);
  if (counts.size() <= kMostCounts)
    return true;
  error = "expected at most " + std::to_string(kMostCounts) +
          " numbers of devices, found more in " + quoted(part);
  return false;
}

std::optional<std::vector<int64_t>>
kerf::parseDeviceCounts(llvm::StringRef text, std::string &error) {
  text.consume_front("devices=");
  std::vector<int64_t> counts;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts)
    if (!readPart(part.trim(), counts, error))
      return std::nullopt;
  llvm::sort(counts);
  counts.erase(llvm::unique(counts), counts.end());
  return counts;
}

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

static SweepPoint planPoint(const SweepInput &input, const Machine &machine,
                            int64_t devices, const SearchResult &result) {
  SweepPoint point;
  point.machine = machine.name;
  point.devices = devices;
  if (!result.best) {
    point.reason = result.infeasible.reasons.empty()
                       ? "no plan fits"
                       : result.infeasible.reasons.front();
    return point;
  }
  const PlanPoint &plan = *result.best;
  TimePart time = accountTime(*input.step, machine, input.profile, plan);
  point.fits = true;
  point.layout = shortLayout(plan.outer);
  point.spares = point.devices - plan.outer.ranks();
  point.stepSec = time.stepSec;
  point.mfu = time.mfu;
  point.ofIdeal = time.ofIdeal;
  point.run =
      planRun(*input.step, machine, devices, time.stepSec, input.tokens);
  point.run.band = errorBandOf(*input.step, machine, input.profile, plan.outer);
  if (!point.run.ends()) {
    point.fits = false;
    point.isBarred = true;
    point.reason = "a run " + report::neverWords();
  }
  return point;
}

/// What a run costs: money where all runs are priced in one currency, else
/// device-hours.
static double costOf(const SweepPoint &point, llvm::StringRef currency) {
  return currency.empty() ? point.run.deviceHours : point.run.price;
}

/// The currency of all points that fit, or "".
static std::string currencyOf(const std::vector<SweepPoint> &points) {
  std::optional<std::string> currency;
  for (const SweepPoint &point : points) {
    if (!point.fits)
      continue;
    if (currency && *currency != point.run.currency)
      return "";
    currency = point.run.currency;
  }
  return currency.value_or("");
}

/// True if `other` is at least as good in time and cost, and better in one.
static bool dominates(const SweepPoint &other, const SweepPoint &point,
                      llvm::StringRef currency) {
  double sec = point.run.seconds, cost = costOf(point, currency);
  double otherSec = other.run.seconds, otherCost = costOf(other, currency);
  return other.fits && otherSec <= sec && otherCost <= cost &&
         (otherSec < sec || otherCost < cost);
}

/// Whether a run stays within the limits even if it takes longer by the error
/// that is expected of the prediction.
static bool meets(const SweepPoint &point, const Sweep &sweep) {
  double margin = 1 + point.run.band.more;
  const SweepLimits &limits = sweep.limits;
  bool inTime =
      limits.seconds == 0 || point.run.seconds * margin <= limits.seconds;
  bool isPaid = limits.price == 0 || (!sweep.currency.empty() &&
                                      point.run.price * margin <= limits.price);
  return point.fits && inTime && isPaid;
}

/// Marks what meets the limits, and the cheapest of that.
static void choosePoint(Sweep &sweep) {
  SweepPoint *cheapest = nullptr;
  for (SweepPoint &point : sweep.points) {
    point.meets = sweep.limits.any() && meets(point, sweep);
    if (point.meets && (!cheapest || costOf(point, sweep.currency) <
                                         costOf(*cheapest, sweep.currency)))
      cheapest = &point;
  }
  if (cheapest)
    cheapest->cheapest = true;
}

static void markPoints(std::vector<SweepPoint> &points,
                       llvm::StringRef currency) {
  for (SweepPoint &point : points) {
    if (!point.fits)
      continue;
    point.fewest = true;
    point.pareto = llvm::none_of(points, [&](const SweepPoint &other) {
      return dominates(other, point, currency);
    });
    const SweepPoint *fastest = nullptr;
    for (const SweepPoint &other : points) {
      if (!other.fits || other.machine != point.machine ||
          other.devices >= point.devices)
        continue;
      point.fewest = false;
      if (other.stepSec <= point.stepSec &&
          (!fastest || other.stepSec < fastest->stepSec))
        fastest = &other;
    }
    point.noFasterThan = fastest ? fastest->devices : 0;
  }
}

/// A sweep without points.
static Sweep startSweep(const SweepInput &input) {
  Sweep result;
  result.model = input.step->name;
  result.limits = input.limits;
  result.batch = input.step->batch;
  result.sequence = input.step->sequence;
  result.tokens = input.tokens > 0
                      ? input.tokens
                      : kTokensPerParameter * input.step->activeParameters();
  return result;
}

Sweep kerf::sweep(const SweepInput &input, PlanDevices plan) {
  Sweep result = startSweep(input);
  for (const Machine &described : input.machines)
    for (int64_t devices : input.devices) {
      Machine machine = described.withDevices(devices);
      result.points.push_back(
          planPoint(input, machine, devices, plan(machine, devices)));
    }
  result.currency = currencyOf(result.points);
  markPoints(result.points, result.currency);
  choosePoint(result);
  return result;
}
