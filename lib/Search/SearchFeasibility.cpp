//===- SearchFeasibility.cpp - why nothing fits ---------------------------===//
//
// Problem: no plan fits. Say what clashes, in bytes, and what is the cheapest
// way out.
//
// Idea: of all shapes take those whose lower bound of memory is smallest, shard
// state as far as allowed, compute everything again, and look at the stage that
// needs the most. Then relax one thing at a time (a pin, the number of devices)
// and search again with few tables.
//
//===----------------------------------------------------------------------===//

#include "SearchBounds.h"

#include "kerf/Search/Pins.h"
#include "kerf/Search/Relief.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace kerf;
using namespace kerf::search_detail;

/// How many times the devices are tried.
constexpr int64_t kMostTimes = 64;
/// Shapes that are worked out to find the one that needs the least.
constexpr size_t kShapesTried = 16;

namespace {
struct Need {
  PlanPoint plan;
  size_t stage = 0;
  double bytes = HUGE_VAL;
};
} // namespace

/// The most loaded stage of a plan.
static Need needOf(PlanPoint plan) {
  Need need;
  need.bytes = 0;
  for (auto [index, stage] : llvm::enumerate(plan.stages))
    if (stage.memory.total() > need.bytes) {
      need.bytes = stage.memory.total();
      need.stage = index;
    }
  need.plan = std::move(plan);
  return need;
}

/// The least that a shape comes to: state sharded the most, everything
/// recomputed.
static Need leastOf(const SearchProblem &problem, const Shape &shape) {
  Need least;
  OuterChoice outer = shape.outer();
  outer.order = ordersOf(problem, shape).front();
  std::vector<Schedule> schedules = schedulesOf(problem, shape);
  if (schedules.empty())
    return least;
  std::tie(outer.schedule, outer.chunks, outer.defer) = schedules.front();
  TableList tables = tablesOf(problem, outer);
  for (int kind : kindsOf(problem))
    if (tables[kind]->points.empty())
      return least;
  for (StateSharding sharding : stateShardingsOf(problem, outer)) {
    std::tie(outer.zero, outer.shardGroup) = sharding;
    auto plan = placeBest(problem, outer, tables, evenLayers(problem, outer),
                          /*mustFit=*/false);
    if (!plan)
      continue;
    Need need = needOf(std::move(*plan));
    if (need.bytes < least.bytes)
      least = std::move(need);
  }
  return least;
}

/// Of each combination of degrees the shape with the smallest micro-batch: the
/// larger ones need no less.
static std::vector<Shape> smallMicroBatches(std::vector<Shape> shapes) {
  auto degrees = [](const Shape &s) {
    return std::make_tuple(s.tp, s.cp, s.ep, s.pp, s.dp);
  };
  llvm::sort(shapes, [&](const Shape &a, const Shape &b) {
    return std::make_pair(degrees(a), a.microBatch) <
           std::make_pair(degrees(b), b.microBatch);
  });
  auto isSame = [&](const Shape &a, const Shape &b) {
    return degrees(a) == degrees(b);
  };
  shapes.erase(std::unique(shapes.begin(), shapes.end(), isSame), shapes.end());
  return shapes;
}

/// Shapes in order of the memory that they need at least; of equal ones first
/// those whose layers take less.
static std::vector<Shape> smallestShapes(const SearchProblem &problem) {
  GroupMemo memo(*problem.machine, problem.profile);
  ShapeBounds bounds(problem, memo);
  std::vector<std::tuple<double, double, size_t>> order;
  std::vector<Shape> shapes = smallMicroBatches(shapesOf(problem)), smallest;
  for (auto [index, shape] : llvm::enumerate(shapes))
    order.push_back({bounds.bytesOf(shape), bounds.layerBytesOf(shape), index});
  llvm::sort(order);
  for (const auto &[bytes, own, index] : order) {
    if (smallest.size() == kShapesTried)
      break;
    smallest.push_back(shapes[index]);
  }
  return smallest;
}

/// The largest class of a stage's memory, in words.
static std::string largestPart(const StageMemory &memory) {
  std::pair<double, const char *> parts[] = {
      {memory.weights, "weights"},
      {memory.masters, "master weights"},
      {memory.gradients, "gradients"},
      {memory.optimizer, "optimizer state"},
      {memory.activations, "activations"},
      {memory.temporaries, "temporaries"},
      {memory.communication, "communication buffers"}};
  auto largest = *std::max_element(std::begin(parts), std::end(parts));
  return std::string(largest.second) + " (" + formatBytes(largest.first) + ")";
}

/// "72.3 GiB with 3 % kept free".
static std::string capacityWords(const SearchProblem &problem) {
  std::string text = formatBytes(capacityBytes(problem));
  double free = 100 * problem.machine->device.headroom;
  return free > 0
             ? llvm::formatv("{0} with {1:f1} % kept free", text, free).str()
             : text;
}

static void addReasons(const SearchProblem &problem, Infeasible &infeasible) {
  std::vector<Shape> shapes = smallestShapes(problem);
  if (shapes.empty()) {
    infeasible.reasons.push_back(
        "the pins leave no combination of degrees and micro-batches");
    return;
  }
  Need least;
  for (const Shape &shape : shapes) {
    Need need = leastOf(problem, shape);
    if (need.bytes < least.bytes)
      least = std::move(need);
  }
  if (least.bytes == HUGE_VAL) {
    infeasible.reasons.push_back(
        "no layout of the layers divides evenly under the degrees that are "
        "left");
    return;
  }
  const StageMemory &memory = least.plan.stages[least.stage].memory;
  // By sums over layers, at least: programs may need more.
  bool mayFit = least.bytes <= capacityBytes(problem);
  const char *text =
      mayFit
          ? "stage {0} needs {1} per device or more ({2}), '{3}' has {4}, and "
            "nothing was found that fits"
          : "stage {0} needs {1} per device even with state sharded as far "
            "as allowed and the least kept ({2}), '{3}' has {4}";
  infeasible.reasons.push_back(llvm::formatv(
      text, least.stage, formatBytes(least.bytes), least.plan.outer.print(),
      problem.machine->device.name, capacityWords(problem)));
  infeasible.reasons.push_back("largest part is " + largestPart(memory));
  infeasible.least = least.plan;
  if (mayFit && !problem.prove)
    infeasible.reasons.push_back("a plan that fits was not found with as many "
                                 "layer tables as are solved by default; "
                                 "--prove spends more");
}

/// The problem with what a way out may cost.
static SearchProblem reliefOf(const SearchProblem &problem) {
  SearchProblem relief = problem;
  relief.budget = kReliefTables;
  relief.hopeless = kReliefNodes;
  relief.isQuick = true;
  return relief;
}

/// One pin taken away at a time.
static void addPinReliefs(const SearchProblem &problem,
                          Infeasible &infeasible) {
  for (const Pins &relaxed : relaxationsOf(problem.pins)) {
    SearchProblem other = reliefOf(problem);
    other.pins = relaxed;
    if (auto plan = searchQuietly(other))
      infeasible.reliefs.push_back(
          llvm::formatv("fits without the pin {0}: {1:f3} s per step or less "
                        "({2})",
                        differenceOf(problem.pins, relaxed), plan->stepSec,
                        plan->outer.print()));
  }
}

static bool anyMayFit(const SearchProblem &problem) {
  GroupMemo memo(*problem.machine, problem.profile);
  ShapeBounds bounds(problem, memo);
  return llvm::any_of(shapesOf(problem),
                      [&](const Shape &shape) { return bounds.mayFit(shape); });
}

/// What is kept free is used.
static void addHeadroomRelief(const SearchProblem &problem,
                              Infeasible &infeasible) {
  if (problem.machine->device.headroom == 0)
    return;
  Machine full = *problem.machine;
  full.device.headroom = 0;
  SearchProblem other = reliefOf(problem);
  other.machine = &full;
  if (!anyMayFit(other))
    return;
  if (auto plan = searchQuietly(other))
    infeasible.reliefs.push_back(
        llvm::formatv("fits with 'headroom: 0' in the cluster's 'device': "
                      "{0:f3} s per step or less ({1})",
                      plan->stepSec, plan->outer.print()));
}

/// The fewest devices that fit, among doublings.
static void addDeviceRelief(const SearchProblem &problem,
                            Infeasible &infeasible) {
  if (problem.machine->device.shared)
    return;
  int64_t devices = problem.machine->describedDevices();
  for (int64_t times = 2; times <= kMostTimes; times *= 2) {
    Machine larger = problem.machine->withDevices(devices * times);
    SearchProblem other = reliefOf(problem);
    other.machine = &larger;
    if (!anyMayFit(other))
      continue;
    auto plan = problem.tryDevices ? problem.tryDevices(devices * times)
                                   : searchQuietly(other);
    if (plan) {
      infeasible.reliefs.push_back(
          llvm::formatv("fits on {0} devices: {1:f3} s per step or less ({2})",
                        devices * times, plan->stepSec, plan->outer.print()));
      return;
    }
  }
}

Infeasible search_detail::explainMisfit(const SearchProblem &problem) {
  Infeasible infeasible;
  addReasons(problem, infeasible);
  addPinReliefs(problem, infeasible);
  addHeadroomRelief(problem, infeasible);
  addDeviceRelief(problem, infeasible);
  return infeasible;
}
