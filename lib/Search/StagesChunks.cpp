//===- StagesChunks.cpp - stages of several chunks each -------------------===//
//
// Problem: p x v chunks are dealt to p stages in turn (interleaved schedule),
// so a stage's layers are no range and there is no dynamic programme over
// stages.
//
// Idea: start with even chunks, the remainder at one of three places; then move
// one layer over a border between chunks while the objective falls. The bound
// of any distribution (`boundOfSplit`) says how far from the best this may be.
// Equal layers need no search: any numbers of layers per stage can be dealt to
// its chunks.
//
//===----------------------------------------------------------------------===//

#include "StagesDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>

using namespace kerf;
using namespace kerf::stages_detail;

namespace {
/// The points of one stage's chunks.
struct ChunkFiller {
  const StageProblem &problem;
  int64_t stage;
  std::vector<SplitChunk> &chunks;

  double run();

private:
  Items items(size_t chunk) const;
  double bytes() const;
  void deal(const Filled &filled);
};
} // namespace

Items ChunkFiller::items(size_t chunk) const {
  return itemsOf(problem, chunks[chunk].begin, chunks[chunk].end,
                 stage == 0 && chunk == 0,
                 stage + 1 == problem.stages && chunk + 1 == chunks.size());
}

/// Bytes in the schedule's worst state.
double ChunkFiller::bytes() const {
  double fixed = 0, work = 0, buffer = 0, most = 0;
  llvm::SmallVector<double, 8> saved(chunks.size(), 0.0);
  for (auto [index, chunk] : llvm::enumerate(chunks))
    for (const Filled::Part &part : chunk.parts) {
      const StagePoint &point = problem.kinds[part.kind].points[part.point];
      fixed += part.count * point.stateBytes;
      saved[index] += part.count * point.savedBytes;
      work = std::max(work, point.workBytes);
      buffer = std::max(buffer, point.bufferBytes);
    }
  for (const std::vector<double> &held : problem.held[stage]) {
    double sum = 0;
    for (auto [count, each] : llvm::zip(held, saved))
      sum += count * each;
    most = std::max(most, sum);
  }
  return fixed + work + buffer + most;
}

/// Gives the points to the chunks: those that keep the least go first, to the
/// chunks that are held longest.
void ChunkFiller::deal(const Filled &filled) {
  std::vector<Filled::Part> left = filled.parts;
  llvm::sort(left, [&](const Filled::Part &a, const Filled::Part &b) {
    auto rank = [&](const Filled::Part &part) {
      return std::make_tuple(
          part.kind, problem.kinds[part.kind].points[part.point].savedBytes,
          part.point);
    };
    return rank(a) < rank(b);
  });
  for (auto [index, chunk] : llvm::enumerate(chunks)) {
    chunk.parts.clear();
    for (StageItem item : items(index))
      for (Filled::Part &part : left) {
        int64_t taken = std::min(item.count, part.count);
        if (part.kind != item.kind || taken == 0)
          continue;
        chunk.parts.push_back({part.kind, part.point, taken});
        part.count -= taken;
        item.count -= taken;
      }
  }
}

/// Fills the stage; its seconds, or never. The points are chosen as if chunks
/// were equal; where they are not and do not fit, with so much less memory.
double ChunkFiller::run() {
  constexpr int kTries = 4;
  Items all;
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
    for (const StageItem &item : items(chunk)) {
      auto same = llvm::find_if(
          all, [&](const StageItem &other) { return other.kind == item.kind; });
      if (same == all.end())
        all.push_back(item);
      else
        same->count += item.count;
    }
  setFlight(problem, stage, all);
  double budget = problem.budget[stage];
  for (int i = 0; i < kTries; ++i) {
    Filled filled = fillStage(problem.kinds, all, budget);
    if (!filled.fits())
      return kNever;
    deal(filled);
    double over = bytes() - problem.budget[stage];
    if (over <= 0)
      return filled.sec;
    budget -= over;
  }
  return kNever;
}

/// Fills one stage; its seconds, or never.
static double fillOne(const StageProblem &problem, int64_t stage,
                      std::vector<SplitChunk> &chunks) {
  return ChunkFiller{problem, stage, chunks}.run();
}

//===----------------------------------------------------------------------===//
// What no chunks can go below
//===----------------------------------------------------------------------===//

/// The items, layers of one kind, when a chunk `c` is held `held[c]` times: one
/// layer lies in each of `filled`, all others in that which is held least.
static Items inChunks(const StageProblem &problem, const Items &items,
                      llvm::ArrayRef<int64_t> filled,
                      llvm::ArrayRef<double> held) {
  Items relaxed;
  double least = *llvm::min_element(held);
  assert(isUniform(problem) && "one layer of each kind in each chunk");
  for (StageItem item : items) {
    bool isEnd = item.kind == problem.first || item.kind == problem.last;
    if (isEnd && item.count == 1) {
      item.inFlight = item.kind == problem.first ? held.front() : held.back();
      relaxed.push_back(item);
      continue;
    }
    auto own = int64_t(filled.size());
    assert(item.count >= own && "no chunk is empty");
    auto addTo = [&](double each, int64_t count) {
      auto same = llvm::find_if(relaxed, [&](const StageItem &other) {
        return other.kind == item.kind && other.inFlight == each;
      });
      if (same != relaxed.end())
        same->count += count;
      else
        relaxed.push_back({item.kind, count, each});
    };
    for (int64_t chunk : filled)
      addTo(held[chunk], 1);
    if (item.count > own)
      addTo(least, item.count - own);
  }
  return relaxed;
}

/// Any mean of the schedule's states is a state that must fit: that of all of
/// them, and the one that holds most, bound the stage.
Filled stages_detail::relaxChunks(const StageProblem &problem, int64_t stage,
                                  const Items &items,
                                  llvm::ArrayRef<int64_t> filled) {
  const std::vector<std::vector<double>> &states = problem.held[stage];
  std::vector<double> mean(problem.chunks, 0), most;
  double largest = -1;
  for (const std::vector<double> &held : states) {
    double sum = 0;
    for (auto [all, each] : llvm::zip_equal(mean, held)) {
      all += each / double(states.size());
      sum += each;
    }
    if (sum > largest) {
      largest = sum;
      most = held;
    }
  }
  // What rounding may have taken from a budget.
  double budget = problem.budget[stage] * (1 + 1e-9);
  Filled bound =
      fillStage(problem.kinds, inChunks(problem, items, filled, mean), budget);
  if (states.size() == 1 || !bound.fits())
    return bound;
  Filled other =
      fillStage(problem.kinds, inChunks(problem, items, filled, most), budget);
  return other.boundSec > bound.boundSec ? other : bound;
}

StageSplit stages_detail::dealChunks(const StageProblem &problem,
                                     const StageSplit &byCount) {
  std::vector<int64_t> counts;
  for (const std::vector<SplitChunk> &stage : byCount.stages)
    counts.push_back(stage.front().end - stage.front().begin);
  return fillStages(problem, counts);
}

StageSplit
stages_detail::fillChunks(const StageProblem &problem,
                          std::vector<std::vector<SplitChunk>> chunks) {
  StageSplit split;
  for (int64_t stage = 0; stage < problem.stages; ++stage) {
    double sec = fillOne(problem, stage, chunks[stage]);
    if (sec == kNever) {
      split = {};
      split.boundObjective = boundOfSplit(problem);
      return split;
    }
    split.slowestSec = std::max(split.slowestSec, sec);
    split.sumSec += sec;
  }
  split.stages = std::move(chunks);
  split.objective = objectiveOf(problem, split.slowestSec, split.sumSec);
  split.boundObjective = problem.least
                             ? boundOfSplit(problem)
                             : std::min(boundOfSplit(problem), split.objective);
  return split;
}

namespace {
/// Seconds of stages by their number and the layers of their chunks.
using KnownSeconds = std::map<std::vector<int64_t>, double>;

/// Borders of chunks in the order of the layers, and what the stages take.
struct ChunkSearch {
  const StageProblem &problem;
  KnownSeconds &known; ///< most borders that are tried were tried before
  std::vector<int64_t> borders; ///< chunk k = c x p + i: [k, k + 1)
  std::vector<double> seconds;  ///< of stages

  std::vector<SplitChunk> chunksOf(int64_t stage) const;
  double secondsOf(int64_t stage);
  double objective() const;
  bool improve();
  void descend();
  StageSplit result() const;
};
} // namespace

std::vector<SplitChunk> ChunkSearch::chunksOf(int64_t stage) const {
  std::vector<SplitChunk> chunks;
  for (int64_t k = stage; k + 1 < int64_t(borders.size()); k += problem.stages)
    chunks.push_back({borders[k], borders[k + 1], {}});
  return chunks;
}

double ChunkSearch::secondsOf(int64_t stage) {
  std::vector<SplitChunk> own = chunksOf(stage);
  std::vector<int64_t> key = {stage};
  for (const SplitChunk &chunk : own) {
    llvm::append_range(key, signatureOf(problem, chunk.begin, chunk.end));
    key.push_back(-1);
  }
  auto [it, isNew] = known.try_emplace(std::move(key));
  if (isNew)
    it->second = fillOne(problem, stage, own);
  return it->second;
}

StageSplit ChunkSearch::result() const {
  std::vector<std::vector<SplitChunk>> chunks;
  for (int64_t stage = 0; stage < problem.stages; ++stage)
    chunks.push_back(chunksOf(stage));
  return fillChunks(problem, std::move(chunks));
}

double ChunkSearch::objective() const {
  double slowest = 0, sum = 0;
  for (double sec : seconds) {
    slowest = std::max(slowest, sec);
    sum += sec;
  }
  return objectiveOf(problem, slowest, sum);
}

/// Moves one border by one layer if that helps; only the two stages beside it
/// change.
bool ChunkSearch::improve() {
  double before = objective();
  for (size_t border = 1; border + 1 < borders.size(); ++border)
    for (int64_t shift : {-1, 1}) {
      int64_t at = borders[border] + shift;
      if (at <= borders[border - 1] || at >= borders[border + 1])
        continue;
      int64_t left = int64_t(border - 1) % problem.stages;
      int64_t right = int64_t(border) % problem.stages;
      double oldLeft = seconds[left], oldRight = seconds[right];
      borders[border] = at;
      seconds[left] = secondsOf(left);
      seconds[right] = secondsOf(right);
      if (objective() < before * (1 - 1e-12))
        return true;
      borders[border] = at - shift;
      seconds[left] = oldLeft;
      seconds[right] = oldRight;
    }
  return false;
}

void ChunkSearch::descend() {
  for (int64_t stage = 0; stage < problem.stages; ++stage)
    seconds.push_back(secondsOf(stage));
  if (objective() == kNever)
    return;
  while (improve()) {
  }
}

StageSplit stages_detail::splitChunks(const StageProblem &problem) {
  int64_t all = problem.stages * problem.chunks, layers = layersOf(problem);
  int64_t rest = layers % all;
  StageSplit best;
  KnownSeconds known;
  double least = leastObjective(problem);
  best.boundObjective = boundOfSplit(problem);
  // The remainder at the end, at the beginning, or in the middle.
  for (int64_t at : {all - rest, int64_t(0), (all - rest) / 2}) {
    ChunkSearch search{problem, known, {0}, {}};
    for (int64_t k = 0; k < all; ++k)
      search.borders.push_back(search.borders.back() + layers / all +
                               (k >= at && k < at + rest));
    search.descend();
    if (search.objective() < best.objective)
      best = search.result();
    if (best.objective <= least * (1 + 1e-9) || rest == 0)
      break;
  }
  return best;
}
