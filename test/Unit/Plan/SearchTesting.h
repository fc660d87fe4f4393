//===- SearchTesting.h - layers and machines made up for the search -------===//

#ifndef KERF_TEST_UNIT_PLAN_SEARCHTESTING_H
#define KERF_TEST_UNIT_PLAN_SEARCHTESTING_H

#include "kerf/Cost/Collectives.h"
#include "kerf/Cost/Timeline.h"
#include "kerf/Search/Search.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>

namespace kerf::search_testing {

/// A kind of layer by a few numbers, per sequence and unsharded.
struct SyntheticKind {
  double forwardSec = 0;   ///< on one device; backward takes twice that
  double messageBytes = 0; ///< reduced on each inner axis, forward and backward
  double savedBytes = 0;   ///< nothing recomputed
  double boundaryBytes = 0; ///< kept in any case, and handed on
  double workBytes = 0;
  double denseElements = 0, expertElements = 0, sharedElements = 0;
  /// Part of the saved bytes that each further point keeps, and what it makes
  /// again as a part of the forward.
  std::vector<std::pair<double, double>> points = {{1, 0}, {0.4, 0.3}, {0, 1}};
  int64_t heads = 1 << 20; ///< a tensor cut must divide them
  /// A second layout that is slower by this and keeps half; 1: none.
  double secondLayout = 1;
  /// With a second layout: how many times as many parameters as it could the
  /// first one holds on tensor ranks.
  double replicated = 1;
};

/// Tables by formulas: compute and saved bytes are cut by all inner axes,
/// parameters by the tensor axis (experts by the expert axis too).
class SyntheticTables : public LayerTables {
public:
  SyntheticTables(std::vector<SyntheticKind> kinds, const Machine &machine,
                  Profile profile = {})
      : kinds(std::move(kinds)), machine(machine), profile(profile) {}

  const LayerTable &get(const TableKey &key) override {
    auto [it, isNew] = tables.try_emplace(key);
    if (isNew)
      fill(key, it->second);
    return it->second;
  }
  double lowerBoundSec(const TableKey &key) override {
    return 3 * kinds[key.kind].forwardSec * part(key);
  }
  double lowerBoundSavedBytes(const TableKey &key) override {
    return kinds[key.kind].boundaryBytes * part(key);
  }
  /// Less than `programBytes` of the tests say.
  double lowerBoundDeferredBytes(const TableKey &key) override {
    return 0.3 * lowerBoundSavedBytes(key);
  }
  /// Under the points of both layouts, each by the lines through any two.
  KeptCurve lowerBoundKept(const TableKey &key) override {
    const SyntheticKind &kind = kinds[key.kind];
    KeptCurve points;
    for (double keeps : {1.0, kind.secondLayout > 1 ? 0.5 : 1.0})
      for (auto [kept, again] : kind.points)
        points.push_back(
            {(kind.boundaryBytes + keeps * kept * kind.savedBytes) * part(key),
             again * kind.forwardSec * part(key)});
    return hull(std::move(points));
  }
  StateBound lowerBoundState(const TableKey &key) override {
    const SyntheticKind &kind = kinds[key.kind];
    auto tp = static_cast<double>(key.groups[0].size);
    auto ep = static_cast<double>(key.groups[2].size);
    double dense = (kind.denseElements - kind.sharedElements) / tp;
    double expert = kind.expertElements / (tp * ep);
    double sec = lowerBoundSec(key);
    KeptCurve points = {{firstHolds(key) * (dense + expert), sec}};
    if (kind.secondLayout > 1)
      points.push_back({dense + expert, kind.secondLayout * sec});
    return {dense, expert, hull(std::move(points))};
  }
  int64_t solved() const override {
    return static_cast<int64_t>(tables.size());
  }

  std::vector<SyntheticKind> kinds;

private:
  const Machine &machine;
  Profile profile;
  std::map<TableKey, LayerTable> tables;

  /// The lower convex hull of points, as far as it falls.
  static KeptCurve hull(KeptCurve points) {
    std::sort(points.begin(), points.end());
    KeptCurve curve;
    for (auto point : points) {
      if (!curve.empty() && point.second >= curve.back().second)
        continue;
      auto above = [&] {
        auto [x0, y0] = curve[curve.size() - 2];
        auto [x1, y1] = curve.back();
        return (y1 - y0) * (point.first - x0) >=
               (point.second - y0) * (x1 - x0);
      };
      while (curve.size() > 1 && above())
        curve.pop_back();
      curve.push_back(point);
    }
    return curve;
  }

  /// Of a sequence, per rank: an expert rank brings its own sequences.
  static double part(const TableKey &key) {
    return static_cast<double>(key.microBatch) /
           static_cast<double>(key.groups[0].size * key.groups[1].size);
  }

  double firstHolds(const TableKey &key) const {
    const SyntheticKind &kind = kinds[key.kind];
    bool cut = key.groups[0].size > 1 && kind.secondLayout > 1;
    return cut ? kind.replicated : 1;
  }

  void fill(const TableKey &key, LayerTable &table) {
    const SyntheticKind &kind = kinds[key.kind];
    if (kind.heads % key.groups[0].size != 0)
      return;
    addLayout(key, kind, 1, 1, firstHolds(key), table);
    if (kind.secondLayout > 1)
      addLayout(key, kind, kind.secondLayout, 0.5, 1, table);
    auto rank = [](const LayerPoint &point) {
      return std::make_tuple(secondsOf(point), point.layout, point.point);
    };
    std::sort(table.points.begin(), table.points.end(),
              [&](const LayerPoint &a, const LayerPoint &b) {
                return rank(a) < rank(b);
              });
  }

  static double secondsOf(const LayerPoint &point) {
    double sec = 0;
    for (const TimeParts *parts :
         {&point.forward, &point.backward, &point.recompute})
      sec += parts->computeSec() + parts->allCommSec();
    return sec;
  }

  void addLayout(const TableKey &key, const SyntheticKind &kind, double slower,
                 double keeps, double holds, LayerTable &table) {
    int layout = table.layouts++;
    double share = part(key);
    auto tp = static_cast<double>(key.groups[0].size);
    auto ep = static_cast<double>(key.groups[2].size);
    for (size_t i = 0; i < kind.points.size(); ++i) {
      auto [kept, again] = kind.points[i];
      LayerPoint point;
      point.forward.matmulSec = slower * kind.forwardSec * share;
      point.backward.matmulSec = 2 * point.forward.matmulSec;
      point.recompute.matmulSec = again * point.forward.matmulSec;
      for (int axis = 0; axis < kInnerAxes; ++axis) {
        double sec = allReduceSec(machine, profile, key.groups[axis],
                                  kind.messageBytes *
                                      static_cast<double>(key.microBatch));
        point.forward.commSec[axis] = point.backward.commSec[axis] = sec;
        point.recompute.commSec[axis] = again * sec;
      }
      point.weightGradientSec = point.forward.matmulSec;
      point.boundaryBytes = kind.boundaryBytes * share;
      point.boundaryGradientBytes = point.boundaryBytes;
      point.savedBytes =
          point.boundaryBytes + keeps * kept * kind.savedBytes * share;
      point.workBytes = kind.workBytes * share;
      point.denseElements = holds * kind.denseElements / tp;
      point.sharedElements = holds * kind.sharedElements / tp;
      point.expertElements = holds * kind.expertElements / (tp * ep);
      point.layout = layout;
      point.point = static_cast<int>(i);
      point.recomputed = i == 0 ? "nothing" : again >= 1 ? "all" : "attention";
      table.points.push_back(point);
    }
  }
};

/// Micro-batches that a stage holds of each chunk at most, each by itself: the
/// slots of its program.
inline std::vector<double> slotsOf(const OuterChoice &outer, int64_t stage) {
  std::vector<double> held(outer.chunks, 0), most = held;
  if (outer.chunks == 1)
    return {partsInFlight(outer.pipelining(), stage).early};
  for (const Task &task : stageOrder(outer.pipelining(), stage)) {
    held[task.chunk] += task.kind == EventKind::Forward    ? 1
                        : task.kind == EventKind::Backward ? -1
                                                           : 0;
    most[task.chunk] = std::max(most[task.chunk], held[task.chunk]);
  }
  return most;
}

/// Bytes that the layers of a stage add up to, as `LayerBytes` says; `bytesOf`
/// gives those of a layer, `embedding` and `head` are kinds.
template <typename BytesOf>
double addUp(const OuterChoice &outer, int64_t stage, const PlacedStage &placed,
             int embedding, int head, BytesOf bytesOf) {
  std::vector<double> slots = slotsOf(outer, stage);
  HeldParts held = partsInFlight(outer.pipelining(), stage);
  bool putsOff = outer.schedule == ScheduleKind::ZeroBubble;
  bool isSummed = outer.microBatches > 1;
  bool isOne = outer.chunks == 1 && slots[0] == 1;
  double sum = 0, most = 0, least = HUGE_VAL, ends = 0;
  for (auto [chunk, count] : llvm::zip_equal(placed.chunks, slots)) {
    double once = HUGE_VAL;
    for (const PlacedLayers &layers : chunk.layers) {
      LayerBytes bytes = bytesOf(layers);
      sum += double(layers.count) *
             (bytes.rest + count * bytes.kept + held.late * bytes.late +
              held.handed * bytes.handed);
      if (layers.kind == embedding || layers.kind == head) {
        bool counts = layers.kind == head || !isOne;
        ends = std::max(ends, counts ? bytes.work : 0);
        continue;
      }
      once = std::min(once, bytes.once);
      most = std::max(most, bytes.work);
      least = std::min(least, bytes.work);
    }
    sum += once < HUGE_VAL ? count * once : 0;
  }
  if (putsOff || !isSummed || outer.endsByChunk())
    return sum + (least < HUGE_VAL ? least : 0);
  return sum + std::max(isOne && least < HUGE_VAL ? least : most, ends);
}

/// Nodes of `inner` devices with fast links, `outer` nodes with slow ones.
inline Machine twoTiers(int64_t inner, int64_t outer, double memoryBytes) {
  Machine machine;
  machine.name = "made up";
  machine.device.name = "device";
  machine.device.memoryBytes = memoryBytes;
  machine.device.memoryBytesPerSec = 2e12;
  machine.device.peak = {{"bf16", 1e15}};
  machine.device.efficiency = {0.8, 0.5, 0.9, 0.8, 0.8};
  Tier fast, slow;
  fast.name = "node";
  fast.size = inner;
  fast.bytesPerSec = 4e11;
  fast.latencySec = 2e-6;
  slow.name = "leaf";
  slow.size = outer;
  slow.bytesPerSec = 5e10;
  slow.latencySec = 5e-6;
  machine.tiers = {fast, slow};
  return machine;
}

/// A problem with its machine and tables.
struct Instance {
  Machine machine;
  std::unique_ptr<SyntheticTables> tables;
  SearchProblem problem;

  void connect(std::vector<SyntheticKind> kinds) {
    tables = std::make_unique<SyntheticTables>(std::move(kinds), machine,
                                               problem.profile);
    problem.machine = &machine;
    problem.tables = tables.get();
  }
};

/// One kind of numbers that can be followed by hand: 4 layers of 1 ms forward
/// per sequence on 8 devices.
inline std::unique_ptr<Instance> handInstance() {
  auto instance = std::make_unique<Instance>();
  instance->machine = twoTiers(8, 1, 80e9);
  instance->machine.device.efficiency.memory = 1;
  SyntheticKind embedding, layer, head;
  layer.forwardSec = 1e-3;
  layer.savedBytes = 1e9;
  layer.boundaryBytes = 1e8;
  layer.workBytes = 2e8;
  layer.denseElements = 1e8;
  layer.points = {{1, 0}, {0, 1}};
  embedding.denseElements = 5e7;
  embedding.points = {{1, 0}};
  head.forwardSec = 0.5e-3;
  head.denseElements = 5e7;
  head.points = {{1, 0}};
  SearchProblem &problem = instance->problem;
  problem.runs = {{0, 1}, {1, 4}, {2, 1}};
  problem.batch = 8;
  problem.sequence = 128;
  problem.maxTensor = 8;
  // Only what is asked for.
  problem.profile.accumulateBytes = 0;
  problem.profile.updateBytes = 0;
  instance->connect({embedding, layer, head});
  return instance;
}

} // namespace kerf::search_testing

#endif // KERF_TEST_UNIT_PLAN_SEARCHTESTING_H
