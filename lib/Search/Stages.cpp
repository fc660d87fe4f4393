//===- Stages.cpp - which layers lie on which stage -----------------------===//
//
// Problem: see Stages.h.
//
// Idea: if no stage may take longer than t, a dynamic programme over (stage,
// layers used) finds the least sum of stage times: O(p L w) for p stages, L
// layers and w lengths of a stage. The optimum is at one of the distinct stage
// times, so these are tried in ascending order, from the first at which
// anything fits until slowestWeight x t + sumWeight x (least sum of all) is no
// better than the best. When memory does not bind, the layers are spread evenly
// at once.
//
// Example: 4 equal layers of 1 s, a head of 0.5 s, 2 stages, weights 7 and 1: 2
// | 2 + head has max 2.5, 22.0; 3 | 1 + head has max 3, 25.5.
//
// After: search-notes of this project's design, and Narayanan et al. 2021 for
// the objective.
//
//===----------------------------------------------------------------------===//

#include "StagesDetail.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <optional>

using namespace kerf;
using namespace kerf::stages_detail;

Items stages_detail::itemsOf(const StageProblem &problem, int64_t begin,
                             int64_t end, bool first, bool last) {
  Items items;
  auto add = [&](int kind, int64_t count) {
    for (StageItem &item : items)
      if (item.kind == kind) {
        item.count += count;
        return;
      }
    items.push_back({kind, count, 1});
  };
  if (first && problem.first >= 0)
    add(problem.first, 1);
  int64_t at = 0;
  for (const StageItem &run : problem.layers) {
    int64_t count = std::min(end, at + run.count) - std::max(begin, at);
    if (count > 0)
      add(run.kind, count);
    at += run.count;
  }
  // Of layers that take turns only their numbers count.
  auto *layers = items.begin() + (first && problem.first >= 0 ? 1 : 0);
  std::sort(layers, items.end(), [](const StageItem &a, const StageItem &b) {
    return a.kind < b.kind;
  });
  if (last && problem.last >= 0)
    add(problem.last, 1);
  return items;
}

std::vector<int64_t> stages_detail::signatureOf(const StageProblem &problem,
                                                int64_t begin, int64_t end) {
  std::vector<int64_t> counts;
  for (const StageItem &item :
       itemsOf(problem, begin, end, /*first=*/false, /*last=*/false))
    counts.insert(counts.end(), {item.kind, item.count});
  return counts;
}

double stages_detail::fastestSec(const StageKind &kind) {
  double sec = kNever;
  for (const StagePoint &point : kind.points)
    sec = std::min(sec, point.sec);
  return sec;
}

void stages_detail::setFlight(const StageProblem &problem, int64_t stage,
                              Items &items) {
  auto most = [&](auto valueOf) {
    double value = 0;
    for (const std::vector<double> &held : problem.held[stage])
      value = std::max(value, valueOf(held));
    return value;
  };
  for (StageItem &item : items) {
    if (problem.chunks == 1)
      item = problem.itemOn(stage, item.kind, item.count);
    else if (item.kind == problem.first)
      item.inFlight = most([](auto &held) { return held.front(); });
    else if (item.kind == problem.last)
      item.inFlight = most([](auto &held) { return held.back(); });
    else
      item.inFlight = most([&](auto &held) {
        double sum = 0;
        for (auto [chunk, count] : llvm::enumerate(held))
          sum += count * double(dealt(item.count, problem.chunks, chunk));
        return sum / double(item.count);
      });
  }
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// Seconds besides layers that stage i has.
static double extraSec(const StageProblem &problem, int64_t stage) {
  double sec = 0;
  if (stage == 0 && problem.first >= 0)
    sec += fastestSec(problem.kinds[problem.first]);
  if (stage == problem.stages - 1 && problem.last >= 0)
    sec += fastestSec(problem.kinds[problem.last]);
  return sec;
}

bool stages_detail::isUniform(const StageProblem &problem) {
  return llvm::all_of(problem.layers, [&](const StageItem &run) {
    return run.kind == problem.layers.front().kind;
  });
}

/// Layers of `sec` that fit `room`, whatever rounding says.
static int64_t wholeLayers(double room, double sec) {
  return int64_t(std::floor(room / sec * (1 + 1e-12) + 1e-12));
}

std::vector<int64_t> stages_detail::spreadLayers(const StageProblem &problem,
                                                 double limitSec) {
  double sec = fastestSec(problem.kinds[problem.layers.front().kind]);
  int64_t left = -layersOf(problem);
  std::vector<int64_t> counts;
  for (int64_t stage = 0; stage < problem.stages; ++stage) {
    counts.push_back(wholeLayers(limitSec - extraSec(problem, stage), sec));
    if (counts.back() < problem.chunks)
      return {};
    left += counts.back();
  }
  if (left < 0)
    return {};
  while (left > 0) {
    bool taken = false;
    for (int64_t &count : counts)
      if (left > 0 && count > problem.chunks) {
        --count;
        --left;
        taken = true;
      }
    if (!taken)
      return {};
  }
  return counts;
}

/// The best case sum of all layers.
static double leastSum(const StageProblem &problem) {
  double sec = 0;
  for (const StageItem &item :
       itemsOf(problem, 0, layersOf(problem), true, true))
    sec += item.count * fastestSec(problem.kinds[item.kind]);
  return sec;
}

double stages_detail::leastBottleneck(const StageProblem &problem) {
  auto stages = double(problem.stages);
  double least = leastSum(problem) / stages;
  double largest = 0, smallest = kNever;
  for (const StageItem &run : problem.layers) {
    double sec = fastestSec(problem.kinds[run.kind]);
    largest = std::max(largest, sec);
    smallest = std::min(smallest, sec);
  }
  least = std::max(least, largest);
  for (int64_t stage : {int64_t(0), problem.stages - 1})
    least = std::max(least, extraSec(problem, stage) +
                                double(problem.chunks) * smallest);
  if (!isUniform(problem))
    return least;
  // Equal layers: the bottleneck is whole layers and what the stage has
  // besides.
  double best = kNever;
  for (int64_t stage : {int64_t(0), problem.stages / 2, problem.stages - 1}) {
    double extra = extraSec(problem, stage);
    auto count = int64_t(std::ceil((least - extra) / largest - 1e-9));
    for (int64_t n = std::max<int64_t>(count, 1); n <= count + 2; ++n) {
      double limit = std::max(extra + double(n) * largest, least);
      if (limit < best && !spreadLayers(problem, limit).empty())
        best = limit;
    }
  }
  return best == kNever ? least : best;
}

/// The longest step, by halves, in which not all layers have a place:
/// `layersIn(stage, sec)` of them take no longer on a stage. 0 where `most` is
/// not known.
static double
leastPlaced(const StageProblem &problem,
            llvm::function_ref<double(int64_t stage, double sec)> layersIn) {
  if (!problem.most)
    return 0;
  double sum = leastSum(problem), all = double(layersOf(problem));
  std::vector<double> most(problem.stages);
  auto haveAll = [&](double step) {
    problem.most(step, sum, most);
    double placed = 0;
    for (int64_t stage = 0; stage < problem.stages; ++stage) {
      double own = layersIn(stage, most[stage]);
      if (own < 0)
        return false;
      placed += own;
    }
    return placed >= all;
  };
  double below =
      leastOf(problem, leastBottleneck(problem), sum, /*orSlower=*/true);
  below *= 1 - 1e-9;
  double above = below;
  do {
    if (below >= problem.worth || above > 64 * below)
      return below;
    below = above;
    above *= 1.02;
  } while (!haveAll(above));
  for (int halving = 0; halving < 24; ++halving) {
    double middle = (below + above) / 2;
    (haveAll(middle) ? above : below) = middle;
  }
  return below;
}

double kerf::leastObjective(const StageProblem &problem) {
  return objectiveOf(problem, leastBottleneck(problem), leastSum(problem));
}

double kerf::boundOfSplit(const StageProblem &problem) {
  double slowest = leastBottleneck(problem), sum = leastSum(problem);
  if (!problem.least || !isUniform(problem))
    return leastOf(problem, slowest, sum, /*orSlower=*/true);
  // Equal layers: whole layers and what the stage has besides. Slower points
  // make no stage faster.
  double sec = fastestSec(problem.kinds[problem.layers.front().kind]);
  double best = kNever;
  double placed = leastPlaced(problem, [&](int64_t stage, double most) {
    double room = (most - extraSec(problem, stage)) / sec;
    return std::floor(std::min(room * (1 + 1e-9), double(layersOf(problem))));
  });
  for (int64_t stage : {int64_t(0), problem.stages / 2, problem.stages - 1}) {
    double extra = extraSec(problem, stage);
    double count = std::ceil((slowest - extra) / sec * (1 - 1e-9));
    for (double n = std::max(count, 1.0);; ++n) {
      double at = extra + n * sec;
      if (leastOf(problem, at, sum, /*orSlower=*/true) >= best)
        break;
      best = std::min(best, leastOf(problem, at, sum, /*orSlower=*/false));
    }
  }
  return std::max(best, placed);
}

//===----------------------------------------------------------------------===//
// The dynamic programme
//===----------------------------------------------------------------------===//

/// Sums over the first n layers, n from 0 on, of a number by kind: differences
/// tell how many layers of each kind lie between. None of more kinds than
/// 64 bits have room for.
static std::vector<uint64_t> codesOf(const StageProblem &problem) {
  auto base = static_cast<uint64_t>(layersOf(problem)) + 1;
  std::map<int, uint64_t> numbers; // by kind
  uint64_t next = 1, most = (uint64_t(1) << 62) / (problem.stages * base);
  for (const StageItem &run : problem.layers)
    if (numbers.try_emplace(run.kind, next).second) {
      if (next > most)
        return {};
      next *= base;
    }
  std::vector<uint64_t> codes = {0};
  for (const StageItem &run : problem.layers)
    for (int64_t i = 0; i < run.count; ++i)
      codes.push_back(codes.back() + numbers[run.kind]);
  return codes;
}

namespace {
/// Stages of one chunk each, or of several with equal layers: then only the
/// number of layers of a stage counts.
class Splitter {
public:
  /// `filled`: by stage, the chunks that surely have a layer; then chunks take
  /// what they cannot go below. Empty: all chunks have one, and are filled.
  explicit Splitter(const StageProblem &problem,
                    std::vector<std::vector<int64_t>> filled = {})
      : problem(problem), layers(layersOf(problem)), filled(std::move(filled)) {
    for (const StageItem &run : problem.layers)
      starts.push_back(starts.empty() ? 0 : starts.back() + run.count);
    codes = codesOf(problem);
    for (int64_t stage = 0; stage < problem.stages; ++stage)
      fewest.push_back(this->filled.empty()
                           ? problem.chunks
                           : int64_t(this->filled[stage].size()));
    least = fewest;
    firsts.assign(problem.stages + 1, 0);
    std::partial_sum(least.begin(), least.end(), firsts.begin() + 1);
    most.assign(problem.stages, layers);
  }
  StageSplit solve();
  /// The least objective by what fills cannot go below, as far as it is of use.
  double bound();
  /// The stages that end after layers `stageEnds`, at their best points.
  StageSplit fill(llvm::ArrayRef<int64_t> stageEnds) const;
  /// Whether no other points of these stages are faster.
  bool isExact(llvm::ArrayRef<int64_t> stageEnds) const;
  /// `leastPlaced` by what fills cannot go below; of a single run.
  double placed();

private:
  const StageProblem &problem;
  int64_t layers;
  std::vector<std::vector<int64_t>> filled;
  std::vector<int64_t> starts; ///< of the runs
  /// `codesOf`: of layers [b, e), codes[e] - codes[b] tells the kinds.
  std::vector<uint64_t> codes;
  std::vector<int64_t> least;  ///< layers of each stage
  std::vector<int64_t> firsts; ///< sums of these over earlier stages
  struct Cost {
    double sec = 0, boundSec = 0;
  };
  llvm::DenseMap<uint64_t, Cost> known; ///< by layers and stage
  bool exact = true;                    ///< all fills so far
  bool bounding = false;                ///< count what fills cannot go below
  /// Numbers of layers that a stage may have, by what is known so far.
  std::vector<int64_t> fewest, most;

  double costOf(int64_t stage, int64_t begin, int64_t end);
  Filled fillOf(int64_t stage, int64_t begin, int64_t end) const;
  double worthLimit() const;
  bool narrow(double limit);
  std::vector<double> candidates(double limit);
  struct Best {
    double objective = std::numeric_limits<double>::infinity();
    double bottleneck = std::numeric_limits<double>::infinity();
    double least = std::numeric_limits<double>::infinity();
  };
  Best bestBottleneck(double limit);
  double programme(double limit, std::vector<int64_t> *split);
  int64_t firstBegin(int64_t stage) const { return firsts[stage]; }
  int64_t lastBegin(int64_t stage) const {
    return lastEnd(stage) - least[stage];
  }
  int64_t lastEnd(int64_t stage) const {
    return layers - (firsts.back() - firsts[stage + 1]);
  }
};
} // namespace

Filled Splitter::fillOf(int64_t stage, int64_t begin, int64_t end) const {
  Items items =
      itemsOf(problem, begin, end, stage == 0, stage == problem.stages - 1);
  if (!filled.empty())
    return relaxChunks(problem, stage, items, filled[stage]);
  setFlight(problem, stage, items);
  bool isOne = !problem.kindsOfOne.empty() && problem.inFlight[stage] == 1;
  FillRules rules = {problem.exactFills, {}};
  if (problem.accepts)
    rules.accepts = [&, stage](const Filled &own) {
      return problem.accepts(stage, own);
    };
  return fillStage(isOne ? problem.kindsOfOne : problem.kinds, items,
                   problem.budget[stage], rules);
}

/// Seconds of a stage with layers [begin, end): of each kind their number
/// counts.
double Splitter::costOf(int64_t stage, int64_t begin, int64_t end) {
  uint64_t own =
      codes.empty() ? begin * (layers + 1) + end : codes[end] - codes[begin];
  auto [it, isNew] = known.try_emplace(own * problem.stages + stage);
  if (isNew) {
    Filled filled = fillOf(stage, begin, end);
    exact &= filled.sec <= filled.boundSec;
    it->second = {filled.sec, filled.boundSec};
  }
  return bounding ? it->second.boundSec : it->second.sec;
}

/// In a single run: how many layers a stage can have within `limit` seconds and
/// its memory, and so how few it may have. False when not all layers find a
/// place.
bool Splitter::narrow(double limit) {
  bounding = true;
  double sec = fastestSec(problem.kinds[problem.layers.front().kind]);
  int64_t left = -layers;
  for (int64_t stage = 0; stage < problem.stages; ++stage) {
    int64_t begin = firstBegin(stage);
    int64_t highest = lastEnd(stage) - begin;
    if (limit < kNever)
      highest = std::min(highest, wholeLayers(limit, sec));
    // The most that fit are found by halves: fewer layers are never slower.
    int64_t lowest = least[stage] - 1;
    while (lowest < highest) {
      int64_t middle = (lowest + highest + 1) / 2;
      double cost = costOf(stage, begin, begin + middle);
      if (cost <= limit && cost < kNever)
        lowest = middle;
      else
        highest = middle - 1;
    }
    most[stage] = lowest;
    left += lowest;
  }
  bounding = false;
  for (int64_t stage = 0; stage < problem.stages; ++stage) {
    fewest[stage] = std::max(least[stage], most[stage] - left);
    if (most[stage] < least[stage])
      return false;
  }
  return left >= 0;
}

/// Distinct stage times up to `limit`, ascending.
std::vector<double> Splitter::candidates(double limit) {
  std::vector<double> times;
  for (int64_t stage = 0; stage < problem.stages; ++stage)
    for (int64_t begin = firstBegin(stage); begin <= lastBegin(stage);
         ++begin) {
      if (stage == 0 && begin > 0)
        break;
      int64_t last = std::min(lastEnd(stage), begin + most[stage]);
      for (int64_t end = begin + fewest[stage]; end <= last; ++end) {
        double sec = costOf(stage, begin, end);
        if (sec > limit)
          break;
        times.push_back(sec);
      }
      // In a single run only the number of layers counts.
      if (starts.size() == 1)
        break;
    }
  llvm::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

/// The least sum of stage times of at most `limit` each.
double Splitter::programme(double limit, std::vector<int64_t> *split) {
  std::vector<double> sums(layers + 1, kNever), next;
  std::vector<std::vector<int64_t>> choices;
  sums[0] = 0;
  for (int64_t stage = 0; stage < problem.stages; ++stage) {
    next.assign(layers + 1, kNever);
    std::vector<int64_t> choice(split ? layers + 1 : 0, -1);
    bool isLast = stage + 1 == problem.stages;
    for (int64_t begin = firstBegin(stage); begin <= lastBegin(stage);
         ++begin) {
      if (sums[begin] == kNever)
        continue;
      int64_t last = std::min(lastEnd(stage), begin + most[stage]);
      for (int64_t end = isLast ? layers : begin + fewest[stage]; end <= last;
           ++end) {
        double sec = costOf(stage, begin, end);
        if (sec > limit)
          break;
        if (sums[begin] + sec < next[end]) {
          next[end] = sums[begin] + sec;
          if (split)
            choice[end] = begin;
        }
      }
    }
    std::swap(sums, next);
    choices.push_back(std::move(choice));
  }
  if (split && sums[layers] < kNever) {
    split->assign(problem.stages, layers);
    for (int64_t stage = problem.stages - 1; stage > 0; --stage)
      (*split)[stage - 1] = choices[stage][(*split)[stage]];
  }
  return sums[layers];
}

StageSplit Splitter::fill(llvm::ArrayRef<int64_t> stageEnds) const {
  StageSplit split;
  int64_t begin = 0;
  double slowest = 0, sum = 0;
  for (auto [stage, end] : llvm::enumerate(stageEnds)) {
    Filled filled = fillOf(stage, begin, end);
    if (!filled.fits())
      return {};
    split.slowestSec = std::max(split.slowestSec, filled.sec);
    split.sumSec += filled.sec;
    slowest = std::max(slowest, filled.boundSec);
    sum += filled.boundSec;
    split.stages.push_back({{begin, end, std::move(filled.parts)}});
    begin = end;
  }
  split.objective = objectiveOf(problem, split.slowestSec, split.sumSec);
  split.boundObjective = leastOf(problem, slowest, sum, /*orSlower=*/false);
  return split;
}

bool Splitter::isExact(llvm::ArrayRef<int64_t> stageEnds) const {
  int64_t begin = 0;
  for (auto [stage, end] : llvm::enumerate(stageEnds)) {
    Filled filled = fillOf(stage, begin, end);
    if (filled.boundSec == kNever)
      return true; // no points fit
    if (filled.sec > filled.boundSec)
      return false;
    begin = end;
  }
  return true;
}

double Splitter::placed() {
  if (starts.size() != 1)
    return 0;
  bool was = std::exchange(bounding, true);
  double least = leastPlaced(problem, [&](int64_t stage, double limit) {
    int64_t begin = firstBegin(stage), lowest = this->least[stage] - 1;
    int64_t highest = lastEnd(stage) - begin;
    while (lowest < highest) {
      int64_t middle = (lowest + highest + 1) / 2;
      double cost = costOf(stage, begin, begin + middle);
      if (cost <= limit * (1 + 1e-9) && cost < kNever)
        lowest = middle;
      else
        highest = middle - 1;
    }
    return double(std::max<int64_t>(lowest, 0));
  });
  bounding = was;
  return least;
}

/// Ends of the stages from their numbers of layers.
static std::vector<int64_t> endsOf(llvm::ArrayRef<int64_t> counts) {
  std::vector<int64_t> ends;
  for (int64_t count : counts)
    ends.push_back((ends.empty() ? 0 : ends.back()) + count);
  return ends;
}

/// The best objective among bottlenecks of at most `limit`, and the bottleneck;
/// what no split can go below.
Splitter::Best Splitter::bestBottleneck(double limit) {
  std::vector<double> times = candidates(limit);
  double lowest = firsts.back() == problem.stages * problem.chunks
                      ? leastBottleneck(problem)
                      : leastSum(problem) / double(problem.stages);
  lowest *= 1 - 1e-9;
  auto first = llvm::partition_point(times, [&](double time) {
    return time < lowest || programme(time, nullptr) == kNever;
  });
  Best best;
  if (limit < kNever)
    best.least = leastOf(problem, limit, leastSum(problem), /*orSlower=*/true);
  if (first == times.end())
    return best;
  double leastOfAll = programme(times.back(), nullptr);
  for (auto time = first; time != times.end(); ++time) {
    bool mayImprove = objectiveOf(problem, *time, leastOfAll) < best.objective;
    bool mayLower = problem.least && leastOf(problem, *time, leastOfAll,
                                             /*orSlower=*/true) < best.least;
    if (!mayImprove && !mayLower)
      break;
    double sum = programme(*time, nullptr);
    double objective = objectiveOf(problem, *time, sum);
    if (objective < best.objective)
      best.objective = objective, best.bottleneck = *time;
    best.least =
        std::min(best.least, leastOf(problem, *time, sum, /*orSlower=*/false));
  }
  return best;
}

StageSplit Splitter::solve() {
  double limit = kNever, bound = leastObjective(problem);
  if (isUniform(problem)) {
    // Where memory does not bind, the bound is reached.
    StageSplit even =
        fill(endsOf(spreadLayers(problem, leastBottleneck(problem))));
    if (even.fits() && even.objective <= bound * (1 + 1e-12)) {
      even.boundObjective =
          problem.least ? boundOfSplit(problem) : even.objective;
      return even;
    }
    if (even.fits() && problem.slowestWeight > 0)
      limit = (even.objective - problem.sumWeight * leastSum(problem)) /
              problem.slowestWeight * (1 + 1e-9);
  }
  limit = std::min(limit, worthLimit());
  if (starts.size() == 1 && !narrow(limit))
    return {};
  Best best = bestBottleneck(limit);
  StageSplit result;
  if (best.objective < kNever) {
    std::vector<int64_t> split;
    programme(best.bottleneck, &split);
    result = fill(split);
  }
  if (!exact) {
    bounding = true;
    best = bestBottleneck(limit);
  }
  result.boundObjective = std::max(best.least, placed());
  return result;
}

/// No stage of a split that is of use takes longer.
double Splitter::worthLimit() const {
  if (problem.worth == kNever)
    return kNever;
  double sum = leastSum(problem), below = 0, above = sum;
  auto isWorth = [&](double slowest) {
    return leastOf(problem, slowest, sum, /*orSlower=*/true) < problem.worth;
  };
  if (isWorth(above))
    return kNever;
  for (int halving = 0; halving < 40; ++halving) {
    double middle = (below + above) / 2;
    (isWorth(middle) ? below : above) = middle;
  }
  return above * (1 + 1e-9);
}

double Splitter::bound() {
  double limit = worthLimit();
  if (starts.size() == 1 && !narrow(limit))
    return kNever;
  bounding = true;
  double least = bestBottleneck(limit).least;
  return least < kNever ? std::max(least, placed()) : least;
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

StageSplit kerf::splitStages(const StageProblem &problem) {
  if (layersOf(problem) < problem.stages * problem.chunks)
    return {};
  if (problem.chunks > 1 && !isUniform(problem))
    return splitChunks(problem);
  StageSplit split = Splitter(problem).solve();
  if (problem.chunks == 1)
    return split;
  if (!split.fits()) {
    split.boundObjective = boundOfSplit(problem);
    return split;
  }
  return dealChunks(problem, split);
}

/// The longest run of unlike layers alone, and by stage the chunks that surely
/// have one of its layers: no chunk is empty, so those in front of the run fill
/// no more chunks than they are, nor do those behind it.
static std::pair<StageProblem, std::vector<std::vector<int64_t>>>
longestRun(const StageProblem &problem) {
  StageProblem alone = problem;
  if (isUniform(problem))
    alone.layers = {{problem.layers.front().kind, layersOf(problem)}};
  auto longest = llvm::max_element(
      alone.layers,
      [](const StageItem &a, const StageItem &b) { return a.count < b.count; });
  int64_t before = 0, behind = 0;
  for (auto run = alone.layers.begin(); run != alone.layers.end(); ++run)
    (run < longest ? before : behind) += run == longest ? 0 : run->count;
  std::vector<std::vector<int64_t>> filled(problem.stages);
  int64_t all = problem.stages * problem.chunks;
  for (int64_t k = before; k < all - behind; ++k)
    filled[k % problem.stages].push_back(k / problem.stages);
  alone.layers = {*longest};
  return {std::move(alone), std::move(filled)};
}

double kerf::boundOfChunks(const StageProblem &problem) {
  if (problem.chunks == 1)
    return boundOfSplit(problem);
  if (layersOf(problem) < problem.stages * problem.chunks)
    return kNever;
  auto [alone, filled] = longestRun(problem);
  // What the other layers add to the sum; to the slowest stage maybe nothing.
  double besides = leastSum(problem) - leastSum(alone);
  alone.least = [&](double slowest, double sum, bool orSlower) {
    return leastOf(problem, slowest, sum + besides, orSlower);
  };
  double bound = Splitter(alone, std::move(filled)).bound();
  return isUniform(problem) ? bound : std::max(bound, boundOfSplit(problem));
}

StageSplit kerf::fillBorders(const StageProblem &problem,
                             llvm::ArrayRef<int64_t> ends, bool &isExact) {
  if (problem.chunks == 1) {
    Splitter splitter(problem);
    StageSplit split = splitter.fill(ends);
    isExact = splitter.isExact(ends);
    return split;
  }
  std::vector<std::vector<SplitChunk>> chunks(problem.stages);
  for (auto [k, end] : llvm::enumerate(ends))
    chunks[k % problem.stages].push_back({k ? ends[k - 1] : 0, end, {}});
  StageSplit split = fillChunks(problem, std::move(chunks));
  isExact = split.fits() && split.sumSec <= leastSum(problem) * (1 + 1e-12);
  return split;
}

StageSplit kerf::fillStages(const StageProblem &problem,
                            llvm::ArrayRef<int64_t> counts) {
  assert(int64_t(counts.size()) == problem.stages && "one count per stage");
  if (problem.chunks == 1)
    return Splitter(problem).fill(endsOf(counts));
  std::vector<std::vector<SplitChunk>> chunks(problem.stages);
  int64_t at = 0;
  for (int64_t chunk = 0; chunk < problem.chunks; ++chunk)
    for (int64_t stage = 0; stage < problem.stages; ++stage) {
      int64_t count = dealt(counts[stage], problem.chunks, chunk);
      chunks[stage].push_back({at, at + count, {}});
      at += count;
    }
  return fillChunks(problem, std::move(chunks));
}
