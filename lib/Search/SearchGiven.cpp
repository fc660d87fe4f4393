//===- SearchGiven.cpp - the stages of a plan that is given ---------------===//
//
// A given plan says which layers lie on which chunk and what they recompute.
// What is left are points that differ in nothing that a plan says: those that
// fit a stage are chosen as in a search.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"
#include "StagesDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::search_detail;
using namespace kerf::stages_detail;

namespace {
/// Layers of one chunk, and their points as positions in their kind's.
struct GivenRun {
  int64_t chunk = 0;
  GivenLayers layers;
  std::vector<int> points;
};

/// Gives each run of a given plan a point.
class GivenFiller {
public:
  GivenFiller(const StageProblem &stages, const TableList &tables,
              llvm::ArrayRef<std::vector<GivenLayers>> given)
      : stages(stages), tables(tables), given(given) {}

  StageSplit run();

private:
  const StageProblem &stages;
  const TableList &tables;
  llvm::ArrayRef<std::vector<GivenLayers>> given;

  bool isEnd(int kind) const {
    return kind == stages.first || kind == stages.last;
  }
  const std::vector<StageKind> &kindsOf(int64_t stage) const {
    bool isOne = !stages.kindsOfOne.empty() && stages.inFlight[stage] == 1;
    return isOne ? stages.kindsOfOne : stages.kinds;
  }
  /// Micro-batches held of each chunk: vectors that all must fit.
  std::vector<std::vector<double>> heldBy(int64_t stage) const {
    if (stages.chunks > 1)
      return stages.held[stage];
    return {{stages.inFlight[stage]}};
  }
  /// The layers of a run where `held` micro-batches are.
  StageItem itemOf(int64_t stage, const GivenRun &run,
                   llvm::ArrayRef<double> held) const {
    if (stages.chunks == 1)
      return stages.itemOn(stage, run.layers.kind, run.layers.count);
    return {run.layers.kind, run.layers.count, held[run.chunk]};
  }
  std::vector<int> pointsOf(const GivenLayers &layers) const;
  std::vector<GivenRun> runsOf(int64_t stage) const;
  Filled fill(int64_t stage, llvm::ArrayRef<GivenRun> runs) const;
  bool fits(int64_t stage, llvm::ArrayRef<GivenRun> runs,
            const Filled &filled) const;
  void place(llvm::ArrayRef<GivenRun> runs, const Filled &filled,
             StageSplit &split) const;
};
} // namespace

/// The points with the plan's list; all where a search has given that up.
std::vector<int> GivenFiller::pointsOf(const GivenLayers &layers) const {
  std::vector<int> own, all;
  for (auto [i, point] : llvm::enumerate(stages.kinds[layers.kind].points)) {
    all.push_back(static_cast<int>(i));
    if (tables[layers.kind]->points[point.id].list == layers.list)
      own.push_back(static_cast<int>(i));
  }
  return own.empty() ? all : own;
}

/// The layers of a stage; the first and the last kind stand where they must.
std::vector<GivenRun> GivenFiller::runsOf(int64_t stage) const {
  std::vector<GivenRun> runs;
  auto add = [&](int64_t chunk, const GivenLayers &layers) {
    runs.push_back({chunk, layers, pointsOf(layers)});
  };
  for (int64_t chunk = 0; chunk < stages.chunks; ++chunk) {
    if (stage == 0 && chunk == 0 && stages.first >= 0)
      add(chunk, {stages.first, 1, -1});
    for (const GivenLayers &layers : given[chunk * stages.stages + stage])
      if (!isEnd(layers.kind))
        add(chunk, layers);
    if (stage + 1 == stages.stages && chunk + 1 == stages.chunks &&
        stages.last >= 0)
      add(chunk, {stages.last, 1, -1});
  }
  return runs;
}

/// Whether points, chosen for one vector of held micro-batches, fit all.
bool GivenFiller::fits(int64_t stage, llvm::ArrayRef<GivenRun> runs,
                       const Filled &filled) const {
  const std::vector<StageKind> &kinds = kindsOf(stage);
  return llvm::all_of(heldBy(stage), [&](llvm::ArrayRef<double> held) {
    double bytes = 0, work = 0, buffer = 0;
    for (const Filled::Part &part : filled.parts) {
      const GivenRun &run = runs[part.kind];
      const StagePoint &point =
          kinds[run.layers.kind].points[run.points[part.point]];
      auto count = static_cast<double>(part.count);
      bytes += count * itemOf(stage, run, held).bytesAt(point);
      work = std::max(work, point.workBytes);
      buffer = std::max(buffer, point.bufferBytes);
    }
    return bytes + work + buffer <= stages.budget[stage];
  });
}

/// The fastest points of a stage that fit; each run is a kind of its own here.
Filled GivenFiller::fill(int64_t stage, llvm::ArrayRef<GivenRun> runs) const {
  const std::vector<StageKind> &kinds = kindsOf(stage);
  std::vector<StageKind> own;
  for (const GivenRun &run : runs) {
    StageKind &kind = own.emplace_back();
    for (int point : run.points)
      kind.points.push_back(kinds[run.layers.kind].points[point]);
  }
  for (llvm::ArrayRef<double> held : heldBy(stage)) {
    Items items;
    for (auto [i, run] : llvm::enumerate(runs)) {
      items.push_back(itemOf(stage, run, held));
      items.back().kind = static_cast<int>(i);
    }
    Filled filled = fillStage(own, items, stages.budget[stage]);
    if (filled.fits() && fits(stage, runs, filled))
      return filled;
  }
  return {};
}

void GivenFiller::place(llvm::ArrayRef<GivenRun> runs, const Filled &filled,
                        StageSplit &split) const {
  std::vector<SplitChunk> &chunks = split.stages.emplace_back();
  chunks.resize(stages.chunks);
  for (const Filled::Part &part : filled.parts) {
    const GivenRun &run = runs[part.kind];
    chunks[run.chunk].parts.push_back(
        {run.layers.kind, run.points[part.point], part.count});
    if (!isEnd(run.layers.kind))
      chunks[run.chunk].end += part.count;
  }
  split.slowestSec = std::max(split.slowestSec, filled.sec);
  split.sumSec += filled.sec;
}

StageSplit GivenFiller::run() {
  StageSplit split;
  for (int64_t stage = 0; stage < stages.stages; ++stage) {
    std::vector<GivenRun> runs = runsOf(stage);
    Filled filled = fill(stage, runs);
    if (!filled.fits())
      return {};
    place(runs, filled, split);
  }
  // Chunks follow each other over all stages.
  int64_t at = 0;
  for (int64_t chunk = 0; chunk < stages.chunks; ++chunk)
    for (std::vector<SplitChunk> &own : split.stages) {
      own[chunk].begin = at;
      at = own[chunk].end += at;
    }
  split.objective = objectiveOf(stages, split.slowestSec, split.sumSec);
  split.boundObjective = stages.least
                             ? stages.least(split.slowestSec, split.sumSec,
                                            /*orSlower=*/false)
                             : split.objective;
  return split;
}

StageSplit search_detail::splitOf(const SearchProblem &problem,
                                  const StageProblem &stages,
                                  const TableList &tables) {
  const Pins &pins = problem.pins;
  auto chunks = static_cast<size_t>(stages.stages * stages.chunks);
  if (pins.chunkLayers.size() == chunks)
    return GivenFiller(stages, tables, pins.chunkLayers).run();
  return pins.stageLayers.empty() ? splitStages(stages)
                                  : fillStages(stages, pins.stageLayers);
}
