//===- StagesFill.cpp - the points of the layers of one stage -------------===//
//
// Problem: n layers of a few kinds, each at one of its points, must fit a
// budget: a knapsack where identical layers share their options.
//
// Idea: points of one kind that are worth mixing lie on the lower convex hull
// of (bytes, seconds). Start with the fastest, then take the steps along all
// hulls by seconds per byte saved until the layers fit: the optimum of the
// fractional problem, so its value is a lower bound; the last step is rounded
// up to whole layers, and the slack that this leaves goes to one of them. The
// most that lives at once inside a layer is a maximum, not a sum, so this is
// done under every cap of it that matters. Kinds with the same options are one:
// of a plan that is given, each run of layers is a kind of its own.
//
// Example: 3 layers with points (1 s, 10 B) and (1.2 s, 4 B), 20 B in all: two
// layers step down, 3.4 s; the fractional bound is 1 + 1 + 1 + 10/6 x 0.2 =
// 3.33 s.
//
//===----------------------------------------------------------------------===//

#include "kerf/Search/Stages.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace kerf;

namespace {
struct Option {
  double sec = 0, bytes = 0, work = 0, buffer = 0;
  int point = 0;
  bool operator==(const Option &other) const = default;
};
using Options = llvm::SmallVector<Option, 12>;

struct Step {
  int item = 0, from = 0; ///< along the hull of an item, from -> from + 1
  double secPerByte = 0;
};

/// Some layers under a budget.
struct Filler {
  llvm::SmallVector<StageItem, 4> items;
  double budget = 0;
  llvm::SmallVector<Options, 3> options; ///< of each item, the fastest first
  std::function<bool(const Filled &)> accepts = {}; ///< see `FillRules`
  Filled best;

  bool takeFastest();
  bool mayFit() const;
  int64_t combinations(int64_t limit) const;
  void enumerate();
  void greedy();

private:
  llvm::SmallVector<llvm::SmallVector<int64_t, 12>, 3> counts;
  void enumerateFrom(size_t item, size_t point, int64_t left, double sec,
                     double bytes, double work, double buffer);
  void greedyUnder(double work, double buffer);
  void finish(double sec, double boundSec,
              llvm::ArrayRef<llvm::SmallVector<int64_t, 12>> taken);
};
} // namespace

static bool faster(const Option &a, const Option &b) {
  return std::tie(a.sec, a.bytes, a.point) < std::tie(b.sec, b.bytes, b.point);
}

/// All layers at their fastest points, if they fit.
bool Filler::takeFastest() {
  double sec = 0, bytes = 0, work = 0, buffer = 0;
  for (auto [item, list] : llvm::zip(items, options)) {
    sec += item.count * list[0].sec;
    bytes += item.count * list[0].bytes;
    work = std::max(work, list[0].work);
    buffer = std::max(buffer, list[0].buffer);
  }
  if (bytes + work + buffer > budget)
    return false;
  Filled fastest = {sec, sec, {}};
  for (auto [item, list] : llvm::zip(items, options))
    fastest.parts.push_back({item.kind, list[0].point, item.count});
  if (accepts && !accepts(fastest))
    return false;
  best = std::move(fastest);
  return true;
}

/// Whether the smallest of everything fits.
bool Filler::mayFit() const {
  double bytes = 0, work = 0, buffer = 0;
  for (auto [item, list] : llvm::zip(items, options)) {
    Option least = list[0];
    for (const Option &option : list) {
      least.bytes = std::min(least.bytes, option.bytes);
      least.work = std::min(least.work, option.work);
      least.buffer = std::min(least.buffer, option.buffer);
    }
    bytes += item.count * least.bytes;
    work = std::max(work, least.work);
    buffer = std::max(buffer, least.buffer);
  }
  return bytes + work + buffer <= budget;
}

/// Ways to give points to the layers; more than `limit` counts as that.
int64_t Filler::combinations(int64_t limit) const {
  double all = 1;
  for (auto [item, list] : llvm::zip(items, options)) {
    // Multisets: (count + points - 1) over (points - 1).
    double ways = 1;
    for (size_t k = 1; k < list.size(); ++k)
      ways *= double(item.count + k) / double(k);
    all *= ways;
    if (all > double(limit))
      return limit + 1;
  }
  return std::llround(all);
}

void Filler::finish(double sec, double boundSec,
                    llvm::ArrayRef<llvm::SmallVector<int64_t, 12>> taken) {
  if (sec < best.sec) {
    Filled faster = {sec, best.boundSec, {}};
    for (size_t i = 0; i < items.size(); ++i)
      for (size_t j = 0; j < options[i].size(); ++j)
        if (taken[i][j] > 0)
          faster.parts.push_back(
              {items[i].kind, options[i][j].point, taken[i][j]});
    if (accepts && !accepts(faster))
      return;
    best = std::move(faster);
  }
  best.boundSec = std::min(best.boundSec, boundSec);
}

void Filler::enumerateFrom(size_t item, size_t point, int64_t left, double sec,
                           double bytes, double work, double buffer) {
  if (bytes + work + buffer > budget || sec >= best.sec)
    return;
  if (item == items.size())
    return finish(sec, sec, counts);
  const Option &option = options[item][point];
  bool isLast = point + 1 == options[item].size();
  for (int64_t take = isLast ? left : 0; take <= left; ++take) {
    counts[item][point] = take;
    size_t nextItem = isLast ? item + 1 : item;
    int64_t nextLeft = !isLast                   ? left - take
                       : nextItem < items.size() ? items[nextItem].count
                                                 : 0;
    enumerateFrom(nextItem, isLast ? 0 : point + 1, nextLeft,
                  sec + take * option.sec, bytes + take * option.bytes,
                  take ? std::max(work, option.work) : work,
                  take ? std::max(buffer, option.buffer) : buffer);
  }
  counts[item][point] = 0;
}

void Filler::enumerate() {
  counts.clear();
  for (const Options &list : options)
    counts.emplace_back(list.size(), 0);
  enumerateFrom(0, 0, items[0].count, 0, 0, 0, 0);
}

/// Indices of the options on the lower hull, from the fastest to the smallest.
static llvm::SmallVector<int, 12> hullOf(const Options &list, double work,
                                         double buffer) {
  llvm::SmallVector<int, 12> hull;
  for (int j = 0, e = list.size(); j < e; ++j) {
    const Option &next = list[j];
    if (next.work > work || next.buffer > buffer)
      continue;
    if (!hull.empty() && next.bytes >= list[hull.back()].bytes)
      continue;
    while (hull.size() >= 2) {
      const Option &a = list[hull[hull.size() - 2]], &b = list[hull.back()];
      if ((b.sec - a.sec) * (a.bytes - next.bytes) <
          (next.sec - a.sec) * (a.bytes - b.bytes))
        break;
      hull.pop_back();
    }
    hull.push_back(j);
  }
  return hull;
}

void Filler::greedyUnder(double work, double buffer) {
  llvm::SmallVector<llvm::SmallVector<int, 12>, 3> hulls;
  llvm::SmallVector<Step, 24> steps;
  double sec = 0, excess = work + buffer - budget;
  for (size_t i = 0; i < items.size(); ++i) {
    hulls.push_back(hullOf(options[i], work, buffer));
    if (hulls[i].empty())
      return;
    const Option &first = options[i][hulls[i][0]];
    sec += items[i].count * first.sec;
    excess += items[i].count * first.bytes;
    for (int j = 0, e = hulls[i].size(); j + 1 < e; ++j) {
      const Option &a = options[i][hulls[i][j]];
      const Option &b = options[i][hulls[i][j + 1]];
      // Steps of a hull cost more, whatever rounding says.
      double price = (b.sec - a.sec) / (a.bytes - b.bytes);
      steps.push_back(
          {int(i), j, j ? std::max(price, steps.back().secPerByte) : price});
    }
  }
  llvm::sort(steps, [](const Step &a, const Step &b) {
    return std::tie(a.secPerByte, a.item, a.from) <
           std::tie(b.secPerByte, b.item, b.from);
  });
  llvm::SmallVector<llvm::SmallVector<int64_t, 12>, 3> taken;
  for (size_t i = 0; i < items.size(); ++i) {
    taken.emplace_back(options[i].size(), 0);
    taken[i][hulls[i][0]] = items[i].count;
  }
  double boundSec = sec;
  for (const Step &step : steps) {
    if (excess <= 0)
      break;
    const Options &list = options[step.item];
    const Option &a = list[hulls[step.item][step.from]];
    const Option &b = list[hulls[step.item][step.from + 1]];
    double saved = a.bytes - b.bytes;
    int64_t all = items[step.item].count;
    auto moved = int64_t(std::min(double(all), std::ceil(excess / saved)));
    boundSec += std::min(excess, double(all) * saved) * step.secPerByte;
    sec += moved * (b.sec - a.sec);
    excess -= moved * saved;
    taken[step.item][hulls[step.item][step.from]] -= moved;
    taken[step.item][hulls[step.item][step.from + 1]] += moved;
    if (excess > 0)
      continue;
    // The slack of whole layers: one of them may run at a faster point.
    for (int j = 0, e = list.size(); j < e; ++j)
      if (list[j].work <= work && list[j].buffer <= buffer &&
          list[j].sec < b.sec && list[j].bytes - b.bytes <= -excess) {
        sec += list[j].sec - b.sec;
        taken[step.item][hulls[step.item][step.from + 1]] -= 1;
        taken[step.item][j] += 1;
        break;
      }
  }
  if (excess <= 0)
    finish(sec, boundSec, taken);
}

/// Distinct values of a member over all options, the largest first.
static llvm::SmallVector<double, 24> distinct(llvm::ArrayRef<Options> options,
                                              double Option::*member) {
  llvm::SmallVector<double, 24> values;
  for (const Options &list : options)
    for (const Option &option : list)
      values.push_back(option.*member);
  llvm::sort(values, std::greater<>());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

void Filler::greedy() {
  auto works = distinct(options, &Option::work);
  auto buffers = distinct(options, &Option::buffer);
  for (double work : works)
    for (double buffer : buffers)
      if (work + buffer < budget)
        greedyUnder(work, buffer);
}

static Options optionsOf(const StageKind &kind, const StageItem &item) {
  Options list;
  for (auto [j, point] : llvm::enumerate(kind.points))
    list.push_back({point.sec, item.bytesAt(point), point.workBytes,
                    point.bufferBytes, int(j)});
  if (!llvm::is_sorted(list, faster))
    llvm::sort(list, faster);
  return list;
}

/// Deals the layers of joined items out to the items, in order.
static void dealOut(llvm::ArrayRef<StageItem> items,
                    llvm::ArrayRef<size_t> joined,
                    llvm::ArrayRef<StageItem> wholes, Filled &filled) {
  std::vector<Filled::Part> parts;
  for (auto [item, whole] : llvm::zip_equal(items, joined)) {
    int64_t left = item.count;
    for (Filled::Part &part : filled.parts) {
      if (part.kind != wholes[whole].kind)
        continue;
      int64_t taken = std::min(part.count, left);
      if (taken > 0)
        parts.push_back({item.kind, part.point, taken});
      part.count -= taken;
      left -= taken;
    }
  }
  filled.parts = std::move(parts);
}

Filled kerf::fillStage(llvm::ArrayRef<StageKind> kinds,
                       llvm::ArrayRef<StageItem> items, double budget,
                       const FillRules &rules) {
  Filler filler;
  filler.budget = budget;
  llvm::SmallVector<size_t, 16> joined; // by item: number among the filler's
  for (const StageItem &item : items) {
    Options list = optionsOf(kinds[item.kind], item);
    size_t at = llvm::find(filler.options, list) - filler.options.begin();
    joined.push_back(at);
    if (at < filler.options.size()) {
      filler.items[at].count += item.count;
      continue;
    }
    filler.options.push_back(std::move(list));
    filler.items.push_back(item);
  }
  bool isJoined = filler.items.size() < items.size();
  if (rules.accepts)
    filler.accepts = [&](Filled filled) {
      if (isJoined)
        dealOut(items, joined, filler.items, filled);
      return rules.accepts(filled);
    };
  if (!filler.takeFastest() && filler.mayFit()) {
    if (filler.combinations(rules.exactFills) <= rules.exactFills)
      filler.enumerate();
    else if (rules.accepts)
      filler.best.boundSec = 0; // Not known: too many to ask for.
    else
      filler.greedy();
  }
  if (isJoined)
    dealOut(items, joined, filler.items, filler.best);
  return filler.best;
}
