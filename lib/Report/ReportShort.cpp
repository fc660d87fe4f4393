//===- ReportShort.cpp - the answer in twelve lines -----------------------===//
//
// What, whether it fits, why this plan, what comes next, what to doubt.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>

using namespace kerf;
using namespace kerf::report;

/// Below this part of the memory, what is left is worth a warning: an estimate
/// may be wrong by as much.
static constexpr double kLittleHeadroom = 0.03;

std::string report::fitWords(const MemoryPart &memory) {
  size_t stage = memory.tightest;
  double left = memory.headroom(stage);
  std::string text =
      gib(memory.stages[stage].total()) + " of " + gib(memory.capacity);
  if (memory.stages.size() > 1)
    text += " on stage " + std::to_string(stage);
  return text + ", " + gib(left) + " (" + percent(left / memory.capacity) +
         ") to spare";
}

std::string report::headroomWarning(const Explanation &e) {
  double left = e.memory.headroom(e.memory.tightest);
  if (left >= kLittleHeadroom * e.memory.capacity)
    return "";
  std::string roomy = roomyWords(e.roomy, e.time.stepSec);
  return "warning: less than " + percent(kLittleHeadroom, 0) +
         " of the memory is left" + (roomy.empty() ? "" : "; " + roomy);
}

static constexpr llvm::StringLiteral kWhole = "replicated";
static constexpr llvm::StringLiteral kSplitBackward =
    "replicated, split in the backward pass";

/// Where each op of each layer is whole on all ranks of an axis in the forward
/// pass: those whose gradients are split over it, in words.
static std::optional<std::string> idleWords(const PlanPart &plan,
                                            llvm::StringRef axis) {
  bool isKnown = false;
  std::vector<std::string> split;
  for (const KindRow &kind : plan.kinds)
    for (const LayoutWords &row : kind.layout)
      if (row.axis == axis) {
        isKnown = true;
        if (row.words == kSplitBackward)
          llvm::append_range(split, row.ops);
        else if (row.words != kWhole)
          return std::nullopt;
      }
  if (!isKnown)
    return std::nullopt;
  if (split.empty())
    return "do the same work: no op is split over them";
  return "do the same work in the forward pass: only gradients of " +
         (split.size() > 3 ? plural(static_cast<double>(split.size()), "op")
                           : llvm::join(split, ", ")) +
         " are split over them";
}

std::string report::idleWarning(const PlanPart &plan) {
  std::string text;
  for (const AxisRow &axis : plan.axes)
    if (auto words = idleWords(plan, axis.name); words && axis.group.size > 1)
      text += (text.empty() ? "warning: " : "; ") +
              plural(axis.group.size, axis.name + " rank") + " " + *words +
              ", since a pin asks for them where sizes do not divide or "
              "splitting is slower";
  return text;
}

std::string report::idlePinsWarning(const PlanPart &plan) {
  return plan.idlePins.empty() ? ""
                               : "warning: pins that change nothing here: " +
                                     llvm::join(plan.idlePins, ", ");
}

static std::string peakWarning(const PlanPart &plan) {
  return plan.ratedAs.empty()
             ? ""
             : "warning: " + clean(plan.device) + " states no peak in " +
                   plan.type + ": that of " + plan.ratedAs +
                   " counts, so a step may take longer";
}

std::vector<std::string> report::warningsOf(const Explanation &e) {
  std::vector<std::string> found;
  for (const std::string &text : {headroomWarning(e), idleWarning(e.plan),
                                  idlePinsWarning(e.plan), peakWarning(e.plan)})
    if (!text.empty())
      found.push_back(text);
  return found;
}

/// Parts of a step by what the time goes to, in tenths of a percent, the
/// largest first.
static std::vector<std::pair<std::string, int64_t>>
largestShares(const TimePart &time) {
  auto groups = timeLines(time);
  auto shares = report::timeShares(groups);
  std::vector<std::pair<std::string, int64_t>> parts = {
      {"computing",
       std::accumulate(shares[0].begin(), shares[0].end(), int64_t(0))}};
  for (auto [row, share] : llvm::zip(time.traffic, shares[1]))
    parts.push_back({row.axis + " traffic on " + clean(row.tier), share});
  for (auto [line, share] : llvm::zip(groups[2], shares[2]))
    parts.push_back({line.name, share});
  llvm::sort(parts, [](const auto &a, const auto &b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
  return parts;
}

/// The largest parts of a step, and no share below half a percent.
static std::string timeWords(const TimePart &time) {
  constexpr size_t most = 4;
  constexpr int64_t least = 5;
  std::vector<std::string> words;
  for (const auto &[name, share] : largestShares(time))
    if (words.size() < most && share >= least)
      words.push_back(tenthsWords(share) + " " + name);
  return llvm::join(words, ", ");
}

std::string kerf::scheduleWords(const Explanation &e) {
  size_t stages = e.plan.stages.size();
  std::string text = plural(static_cast<double>(stages), "stage") + ", step " +
                     seconds(e.time.stepSec);
  if (stages == 1)
    return text;
  int64_t bubble = report::timeShares(timeLines(e.time))[2].front();
  return text + ", " + tenthsWords(bubble) + " pipeline bubble";
}

std::string report::optimumWords(const Certificate &c) {
  if (c.space <= 1)
    return "no other layout was offered: this one is given or pinned";
  if (c.complete)
    return "proven: no other layout that was offered takes less";
  if (c.boundSec <= 0)
    return "how fast other layouts could be is not known";
  std::string loosely =
      !c.isMixed && c.allLayouts ? "" : " (lower bounds are not strict here)";
  return "no layout that was offered takes less than " + seconds(c.boundSec) +
         loosely + ": at most " + percent(1 - c.boundSec / c.bestSec) +
         " could be won";
}

/// The fastest layout that lost, and why.
static std::string nextWords(const Explanation &e) {
  const AlternativeRow *next = nullptr;
  for (const AlternativeRow &row : e.alternatives)
    if (row.stepSec > 0 && (!next || row.stepSec < next->stepSec))
      next = &row;
  if (!next)
    return "";
  double slower = std::max(next->stepSec / e.time.stepSec - 1, 0.0);
  return seconds(next->stepSec) + " (+" + percent(slower) + ") " +
         next->layout + (next->why.empty() ? "" : ": " + clean(next->why));
}

/// Devices that the plan leaves alone are paid for; on a machine that ranks
/// share, fewer devices would be another machine.
static std::string sparesWords(const PlanPart &plan) {
  if (plan.spares <= 0)
    return "";
  std::string used = std::to_string(plan.devices - plan.spares);
  std::string text =
      "uses " + used + " of " + grouped(plan.devices) + " devices";
  return plan.sharesMachine ? text
                            : text + ": --devices=" + used +
                                  " is as fast, and the run costs less";
}

static std::string runWords(const RunPart &run) {
  if (!run.ends())
    return "a run of " + counted(run.tokens) + " tokens " + neverWords();
  std::string text = counted(run.tokens) + " tokens take " +
                     rangeWords(run.band, run.seconds, duration) + ", " +
                     amount(run.deviceHours) + " device-hours";
  std::string price = priceRange(run);
  if (price.empty())
    return text;
  return text + "; " + price + " at " + devicePriceWords(run);
}

/// Whether more memory can be left free for less than a hundredth of the time:
/// then it is no matter that another plan does so.
static bool isRoomCheap(const Explanation &e) {
  constexpr double cheap = 1.01;
  return e.roomy.stepSec > 0 && e.roomy.stepSec < cheap * e.time.stepSec;
}

/// The assumed figure whose change takes the least to make another plan win; ""
/// where that is far off.
static std::string tightestFigure(const Explanation &e) {
  double least = 0.25; // parts of 1
  std::string text;
  auto consider = [&](const SensitivityRow &row, double end, bool isBelow) {
    double way = std::abs(end - row.value);
    if ((isBelow ? row.below : row.above).empty() || way >= least)
      return;
    least = way;
    text = "; another plan wins if '" + row.name + "' is " +
           (isBelow ? "below " : "above ") + percent(end) +
           " (assumed: " + percent(row.value) + ")";
  };
  for (const SensitivityRow &row : e.sensitivity.rows) {
    if (row.isChoice && isRoomCheap(e))
      continue;
    consider(row, row.from, true);
    consider(row, row.to, false);
  }
  return text;
}

std::string kerf::printLine(const Explanation &e) {
  double most = e.memory.stages[e.memory.tightest].total();
  return layoutOf(e.plan) + "; step " + seconds(e.time.stepSec) + ", " +
         gib(most) + " of " + gib(e.memory.capacity);
}

std::string kerf::printShort(const Explanation &e, bool color) {
  if (!e.feasible)
    return printText(e, color);
  Table table{"lw", 2, {}};
  table.rows = {{"layout", layoutOf(e.plan)},
                {"step", rangeWords(e.trust.band, e.time.stepSec, seconds) +
                             ", " + counted(e.run.tokensPerSec) +
                             " tokens/s, MFU " + percent(e.time.mfu)},
                {"memory", fitWords(e.memory)},
                {"time goes", timeWords(e.time)},
                {"why this", optimumWords(e.trust.certificate)}};
  for (const std::string &warning : warningsOf(e))
    table.rows.insert(table.rows.begin() + 3, {"", warning});
  if (std::string spares = sparesWords(e.plan); !spares.empty())
    table.rows.insert(table.rows.begin() + 1, {"", spares});
  if (std::string next = nextWords(e); !next.empty())
    table.rows.push_back({"next best", next});
  table.rows.push_back({"run", runWords(e.run)});
  table.rows.push_back({"doubt", errorWords(e) + tightestFigure(e)});
  if (!e.trust.notCompiled.empty())
    table.rows.push_back({"programs", clean(e.trust.notCompiled)});
  return printTitle(e.plan) + "\n" + table.print();
}
