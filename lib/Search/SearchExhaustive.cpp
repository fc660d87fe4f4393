//===- SearchExhaustive.cpp - everything tried ----------------------------===//
//
// The judge of `search` on small problems. The space and the price of a layer
// are the same; everything that is clever there is plain here: no bounds, no
// hulls, no dynamic programme. Every split of the layers, every point of every
// layer.
//
//===----------------------------------------------------------------------===//

#include "SearchRun.h"
#include "StagesDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::search_detail;

namespace {
/// All splits of one candidate plan.
class Enumerator {
public:
  /// `secondsOf`: of a split, on the timeline. `fitsPrograms`: whether the
  /// program of a stage does.
  Enumerator(
      const StageProblem &problem,
      llvm::function_ref<double(const StageSplit &)> secondsOf,
      llvm::function_ref<bool(const StageSplit &, int64_t stage)> fitsPrograms)
      : problem(problem), secondsOf(secondsOf), fitsPrograms(fitsPrograms) {}
  StageSplit run();

private:
  const StageProblem &problem;
  llvm::function_ref<double(const StageSplit &)> secondsOf;
  llvm::function_ref<bool(const StageSplit &, int64_t stage)> fitsPrograms;
  double leastSec = HUGE_VAL;
  std::vector<int> kinds; ///< of each layer
  StageSplit best;
  std::vector<int64_t> ends; ///< of chunk c x p + i
  /// The layers of one stage while their points are tried.
  struct Layer {
    int kind = 0, chunk = 0;
    size_t point = 0;
  };
  std::vector<Layer> layers;
  StageSplit tried; ///< all stages; one of them with the points of `layers`
  std::vector<size_t> bestPoints;
  double bestSec = 0;

  void splitFrom(int64_t begin);
  bool isDealt() const;
  void judge();
  void tryPoints(size_t layer, int64_t stage, double sec);
  bool fits(int64_t stage) const;
  std::vector<SplitChunk> beginStage(int64_t stage);
  void setParts(std::vector<SplitChunk> &chunks) const;
  std::vector<SplitChunk> solveStage(int64_t stage, double &sec);
};
} // namespace

bool Enumerator::fits(int64_t stage) const {
  double state = 0, work = 0, buffer = 0, most = 0;
  std::vector<double> saved(problem.chunks, 0);
  bool isOne = !problem.kindsOfOne.empty() && problem.inFlight[stage] == 1;
  const std::vector<StageKind> &kinds =
      isOne ? problem.kindsOfOne : problem.kinds;
  for (const Layer &layer : layers) {
    const StagePoint &point = kinds[layer.kind].points[layer.point];
    state += point.stateBytes;
    saved[layer.chunk] += point.savedBytes;
    if (!problem.late.empty())
      state += problem.late[stage] * point.lateBytes +
               problem.handed[stage] * point.handedBytes;
    work = std::max(work, point.workBytes);
    buffer = std::max(buffer, point.bufferBytes);
  }
  if (problem.chunks == 1)
    most = saved[0] * problem.inFlight[stage];
  else
    for (const std::vector<double> &held : problem.held[stage]) {
      double bytes = 0;
      for (auto [count, each] : llvm::zip(held, saved))
        bytes += count * each;
      most = std::max(most, bytes);
    }
  return state + work + buffer + most <= problem.budget[stage];
}

void Enumerator::tryPoints(size_t index, int64_t stage, double sec) {
  if (sec >= bestSec)
    return;
  if (index == layers.size()) {
    setParts(tried.stages[stage]);
    if (!fits(stage) || !fitsPrograms(tried, stage))
      return;
    bestSec = sec;
    bestPoints.clear();
    for (const Layer &layer : layers)
      bestPoints.push_back(layer.point);
    return;
  }
  Layer &layer = layers[index];
  const std::vector<StagePoint> &points = problem.kinds[layer.kind].points;
  for (layer.point = 0; layer.point < points.size(); ++layer.point)
    tryPoints(index + 1, stage, sec + points[layer.point].sec);
}

/// A stage's chunks for the borders in `ends`, and its layers at first points.
std::vector<SplitChunk> Enumerator::beginStage(int64_t stage) {
  layers.clear();
  std::vector<SplitChunk> chunks;
  for (int64_t chunk = 0; chunk < problem.chunks; ++chunk) {
    int64_t index = chunk * problem.stages + stage;
    SplitChunk own{index ? ends[index - 1] : 0, ends[index], {}};
    int position = static_cast<int>(chunk);
    if (index == 0 && problem.first >= 0)
      layers.push_back({problem.first, position});
    for (int64_t layer = own.begin; layer < own.end; ++layer)
      layers.push_back({kinds[layer], position});
    if (index + 1 == problem.stages * problem.chunks && problem.last >= 0)
      layers.push_back({problem.last, position});
    chunks.push_back(std::move(own));
  }
  return chunks;
}

void Enumerator::setParts(std::vector<SplitChunk> &chunks) const {
  for (SplitChunk &chunk : chunks)
    chunk.parts.clear();
  for (const Layer &layer : layers)
    chunks[layer.chunk].parts.push_back(
        {layer.kind, static_cast<int>(layer.point), 1});
}

/// The best points of a stage's layers.
std::vector<SplitChunk> Enumerator::solveStage(int64_t stage, double &sec) {
  std::vector<SplitChunk> chunks = beginStage(stage);
  bestSec = HUGE_VAL;
  tryPoints(0, stage, 0);
  sec = bestSec;
  if (sec == HUGE_VAL)
    return chunks;
  for (auto [layer, point] : llvm::zip(layers, bestPoints))
    layer.point = point;
  setParts(chunks);
  return chunks;
}

/// Equal layers are dealt evenly to the chunks of a stage, the later ones take
/// the remainder: others are not in the space.
bool Enumerator::isDealt() const {
  if (problem.chunks == 1 || !stages_detail::isUniform(problem))
    return true;
  for (int64_t stage = 0; stage < problem.stages; ++stage) {
    llvm::SmallVector<int64_t, 8> counts;
    for (size_t k = stage; k < ends.size(); k += problem.stages)
      counts.push_back(ends[k] - (k ? ends[k - 1] : 0));
    if (!llvm::is_sorted(counts) || counts.back() > counts.front() + 1)
      return false;
  }
  return true;
}

void Enumerator::judge() {
  if (!isDealt())
    return;
  tried.stages.clear();
  for (int64_t stage = 0; stage < problem.stages; ++stage) {
    tried.stages.push_back(beginStage(stage));
    setParts(tried.stages.back());
  }
  StageSplit split;
  for (int64_t stage = 0; stage < problem.stages; ++stage) {
    double sec = 0;
    split.stages.push_back(solveStage(stage, sec));
    split.slowestSec = std::max(split.slowestSec, sec);
    split.sumSec += sec;
  }
  if (split.sumSec == HUGE_VAL)
    return;
  double sec = secondsOf(split);
  if (sec < leastSec) {
    leastSec = sec;
    best = std::move(split);
  }
}

void Enumerator::splitFrom(int64_t begin) {
  int64_t all = problem.stages * problem.chunks;
  auto layersCount = static_cast<int64_t>(kinds.size());
  auto left = all - static_cast<int64_t>(ends.size());
  if (left == 0)
    return judge();
  for (int64_t end = left == 1 ? layersCount : begin + 1;
       end <= layersCount - (left - 1); ++end) {
    ends.push_back(end);
    splitFrom(end);
    ends.pop_back();
  }
}

StageSplit Enumerator::run() {
  for (const StageItem &item : problem.layers)
    kinds.insert(kinds.end(), item.count, item.kind);
  splitFrom(0);
  return std::move(best);
}

namespace {
/// All candidate plans.
struct ExhaustiveSearch {
  const SearchProblem &problem;
  GroupMemo memo;
  SearchResult result;

  void tryNode(const OuterChoice &node, llvm::ArrayRef<Schedule> schedules);
  void tryCandidate(const Pricing &pricing, const LayoutChoice &layouts,
                    const TableList &tables, const PriceList &prices);
};
} // namespace

void ExhaustiveSearch::tryCandidate(const Pricing &pricing,
                                    const LayoutChoice &layouts,
                                    const TableList &tables,
                                    const PriceList &prices) {
  Certificate &certificate = result.certificate;
  CandidateTimes times;
  StageProblem stages = stageProblemOf(pricing, layouts, tables, prices,
                                       /*forBound=*/false, times);
  if (stages.kinds.empty())
    return;
  if (auto programs =
          programsOf(pricing, tables, stages, problem.measureLayers))
    stages = std::move(*programs);
  auto secondsOf = [&](const StageSplit &split) {
    return stepSecOf(problem, pricing.outer, placedOf(stages, split, tables));
  };
  auto fitsPrograms = [&](const StageSplit &split, int64_t stage) {
    PlanPoint plan;
    plan.outer = pricing.outer;
    plan.stages = placedOf(stages, split, tables);
    return !problem.measure || measuredOf(problem, plan)[stage].total() <=
                                   capacityBytes(problem) * (1 + 1e-12);
  };
  StageSplit split = Enumerator(stages, secondsOf, fitsPrograms).run();
  ++certificate.evaluated;
  if (!split.fits())
    return;
  PlanPoint plan =
      evaluatePlan(problem, pricing.outer, placedOf(stages, split, tables));
  if (!result.best || better(plan, *result.best))
    result.best = std::move(plan);
  certificate.bestSec = certificate.boundSec = result.best->stepSec;
}

void ExhaustiveSearch::tryNode(const OuterChoice &node,
                               llvm::ArrayRef<Schedule> schedules) {
  TableList tables = tablesOf(problem, node);
  for (int kind : kindsOf(problem))
    if (tables[kind]->points.empty()) {
      ++result.certificate.illegal;
      return;
    }
  for (StateSharding sharding : stateShardingsOf(problem, node)) {
    OuterChoice outer = node;
    std::tie(outer.zero, outer.shardGroup) = sharding;
    Pricing pricing(problem, outer, memo);
    PriceList prices = pricesOf(pricing, tables);
    for (Schedule schedule : schedules) {
      std::tie(outer.schedule, outer.chunks, outer.defer) = schedule;
      bool all = true;
      for (const LayoutChoice &layouts : layoutsOf(problem, tables, all))
        tryCandidate(pricing, layouts, tables, prices);
    }
  }
}

SearchResult kerf::searchExhaustively(const SearchProblem &problem) {
  ExhaustiveSearch search{
      problem, GroupMemo(*problem.machine, problem.profile), {}};
  Certificate &certificate = search.result.certificate;
  for (const Shape &shape : shapesOf(problem)) {
    std::vector<Schedule> schedules = schedulesOf(problem, shape);
    for (const std::vector<MeshAxis> &order : ordersOf(problem, shape)) {
      ++certificate.nodes;
      OuterChoice node = shape.outer();
      node.order = order;
      certificate.space +=
          static_cast<double>(schedules.size()) *
          static_cast<double>(stateShardingsOf(problem, node).size());
      search.tryNode(node, schedules);
    }
  }
  certificate.tablesSolved = problem.tables->solved();
  certificate.complete = true;
  certificate.model = "everything tried";
  return std::move(search.result);
}
