#include "SmallPlan.h"

#include "kerf/Dialect/Kerf/Chunks.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace mlir;
using namespace kerf;

static int64_t smallestFactor(int64_t size) {
  for (int64_t factor = 2; factor * factor <= size; ++factor)
    if (size % factor == 0)
      return factor;
  return size;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

namespace {
/// Layers of one repeat, alike, in one chunk of the plan.
struct Piece {
  size_t repeat;
  int64_t count;
  LayersAttr run; ///< null where the plan gives no runs
};
/// What a chunk holds, in order; embedding and head are pieces of no repeat.
using Chunk = llvm::SmallVector<Piece>;
} // namespace

static constexpr size_t kNoRepeat = SIZE_MAX;

static bool isLayer(LayersAttr run) {
  return run.getKind().starts_with("layer");
}

/// Runs, or even shares, split where repeats end.
static std::vector<Chunk> chunksOf(PlanAttr plan,
                                   llvm::ArrayRef<int64_t> layers) {
  std::vector<Chunk> chunks(getChunkCount(plan));
  size_t repeat = 0;
  int64_t left = layers.empty() ? 0 : layers.front();
  auto give = [&](Chunk &chunk, int64_t count, LayersAttr run) {
    while (count > 0 && repeat < layers.size()) {
      int64_t taken = std::min(count, left);
      if (taken > 0)
        chunk.push_back({repeat, taken, run});
      count -= taken;
      left -= taken;
      if (left == 0 && ++repeat < layers.size())
        left = layers[repeat];
    }
  };
  if (ArrayAttr stages = plan.getStages()) {
    for (auto [chunk, entry] : llvm::zip(chunks, stages))
      for (LayersAttr run : PlanAttr::getRuns(entry))
        if (isLayer(run))
          give(chunk, run.getCount(), run);
        else
          chunk.push_back({kNoRepeat, run.getCount(), run});
    return chunks;
  }
  int64_t total = 0, count = chunks.size();
  for (int64_t own : layers)
    total += own;
  for (auto [c, chunk] : llvm::enumerate(chunks))
    give(chunk, total / count + (int64_t(c) < total % count), {});
  return chunks;
}

/// A kind of layers: of a repeat, by what they recompute.
using Kind = std::pair<size_t, const void *>;

static Kind kindOf(const Piece &piece) {
  return {piece.repeat,
          piece.run ? piece.run.getRecompute().getAsOpaquePointer() : nullptr};
}

/// Which chunks of the plan those of the small one stand for.
static llvm::SmallVector<size_t> pickChunks(llvm::ArrayRef<Chunk> chunks,
                                            size_t count) {
  auto kindsOf = [&](size_t c) {
    return llvm::map_to_vector(chunks[c], kindOf);
  };
  std::set<size_t> picked = {0, chunks.size() - 1};
  llvm::SmallVector<llvm::SmallVector<Kind>> seen;
  for (size_t c : picked)
    seen.push_back(kindsOf(c));
  for (size_t c = 1; c + 1 < chunks.size() && picked.size() < count; ++c)
    if (!llvm::is_contained(seen, kindsOf(c))) {
      seen.push_back(kindsOf(c));
      picked.insert(c);
    }
  for (size_t c = 1; c + 1 < chunks.size() && picked.size() < count; ++c)
    picked.insert(c);
  return llvm::SmallVector<size_t>(picked.begin(), picked.end());
}

/// Behind the last piece of this repeat or an earlier one, else behind the
/// embedding.
static void insertPiece(std::vector<Chunk> &chunks, const Piece &piece) {
  Chunk *chunk = &chunks.front();
  size_t at = 0;
  while (at < chunk->size() && (*chunk)[at].repeat == kNoRepeat)
    ++at;
  for (Chunk &own : chunks)
    for (auto [p, other] : llvm::enumerate(own))
      if (other.repeat <= piece.repeat) {
        chunk = &own;
        at = p + 1;
      }
  chunk->insert(chunk->begin() + at, piece);
}

/// Kinds of layers that no picked chunk has get one.
static void addMissing(std::vector<Chunk> &chunks, llvm::ArrayRef<Chunk> all) {
  std::set<Kind> seen;
  for (const Chunk &chunk : chunks)
    for (const Piece &piece : chunk)
      seen.insert(kindOf(piece));
  for (const Chunk &chunk : all)
    for (const Piece &piece : chunk)
      if (piece.repeat != kNoRepeat && seen.insert(kindOf(piece)).second)
        insertPiece(chunks, {piece.repeat, 1, piece.run});
}

/// A run becomes one layer, the first longer one of each repeat two.
static void shorten(std::vector<Chunk> &chunks) {
  std::set<size_t> seen;
  for (Chunk &chunk : chunks)
    for (Piece &piece : chunk)
      if (piece.repeat != kNoRepeat)
        piece.count =
            piece.count > 1 && seen.insert(piece.repeat).second ? 2 : 1;
}

static ArrayAttr stagesOf(PlanAttr plan, llvm::ArrayRef<Chunk> chunks) {
  MLIRContext *context = plan.getContext();
  llvm::SmallVector<Attribute> entries;
  for (const Chunk &chunk : chunks) {
    llvm::SmallVector<Attribute> runs;
    for (const Piece &piece : chunk)
      runs.push_back(LayersAttr::get(
          context, piece.run ? piece.run.getKind() : "layer", piece.count,
          piece.run ? piece.run.getRecompute() : DenseI64ArrayAttr()));
    entries.push_back(ArrayAttr::get(context, runs));
  }
  return ArrayAttr::get(context, entries);
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

/// Stages: a first, a middle and a last one; two of an interleaved plan, whose
/// chunks are first, middle and last.
static int64_t stagesOf(PlanAttr plan) {
  int64_t most = plan.getChunks() > 1 ? 2 : 3;
  return std::min(plan.getStageCount(), most);
}

/// More than a stage keeps at once, so that slots are used again.
static int64_t microBatchesOf(PlanAttr plan, int64_t stages, int64_t chunks) {
  int64_t wanted = stages == 1 ? 3 : stages + 1;
  if (chunks > 1)
    wanted = 2 * stages;
  int64_t count = std::min(plan.getMicroBatches(), wanted);
  return chunks > 1 ? std::max<int64_t>(1, count / stages) * stages : count;
}

static MeshAttr shrinkMesh(PlanAttr plan, int64_t stages) {
  MeshAttr mesh = plan.getMesh();
  llvm::SmallVector<int64_t> sizes;
  for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes()))
    sizes.push_back(name == kPipelineAxis ? stages : smallestFactor(size));
  return MeshAttr::get(plan.getContext(), mesh.getNames(), sizes);
}

/// Ranks that share the state: a part of the innermost data axis stays one.
static int64_t shrinkShardGroup(PlanAttr plan, MeshAttr &mesh) {
  int64_t rest = plan.getShardGroup(), group = 1;
  if (rest == 0)
    return 0;
  llvm::SmallVector<int64_t> sizes(mesh.getSizes());
  for (int64_t axis = sizes.size(); axis-- > 0 && rest > 1;) {
    llvm::StringRef name = mesh.getNames()[axis].getValue();
    int64_t size = plan.getMesh().getSizes()[axis];
    if (name == kTensorAxis || name == kPipelineAxis || size == 1)
      continue;
    if (rest % size == 0) {
      rest /= size;
      group *= sizes[axis];
      continue;
    }
    int64_t inner = smallestFactor(rest);
    sizes[axis] = inner * smallestFactor(size / rest);
    group *= inner;
    rest = 1;
  }
  mesh = MeshAttr::get(plan.getContext(), mesh.getNames(), sizes);
  return group;
}

SmallPlan kerf::shrinkPlan(PlanAttr plan, llvm::ArrayRef<int64_t> layers) {
  SmallPlan small;
  int64_t stages = stagesOf(plan);
  int64_t perStage = std::min<int64_t>(plan.getChunks(), 2);
  MeshAttr mesh = shrinkMesh(plan, stages);
  int64_t shardGroup = shrinkShardGroup(plan, mesh);
  std::vector<Chunk> all = chunksOf(plan, layers), chunks;
  for (size_t c : pickChunks(all, stages * perStage))
    chunks.push_back(all[c]);
  shorten(chunks);
  addMissing(chunks, all);
  small.layers.assign(layers.size(), 0);
  for (const Chunk &chunk : chunks)
    for (const Piece &piece : chunk)
      if (piece.repeat != kNoRepeat)
        small.layers[piece.repeat] += piece.count;
  bool hasRuns = plan.getStages() || getChunkCount(plan) > 1;
  // All rows of a few tokens may go to one rank: there is room for them.
  double buffer = plan.getMoeBuffer();
  if (buffer > 0)
    buffer = std::max(buffer, double(mesh.getRankCount()));
  ArrayAttr stagesAttr = hasRuns ? stagesOf(plan, chunks) : ArrayAttr();
  if (stagesAttr && !PlanAttr::checkStages(stagesAttr, perStage, mesh).empty())
    return small;
  small.plan = PlanAttr::get(
      plan.getContext(), mesh, microBatchesOf(plan, stages, perStage),
      plan.getSchedule(), plan.getRecomputeAll(), plan.getRecompute(), perStage,
      plan.getDefer(), plan.getZero(), shardGroup, stagesAttr, buffer,
      plan.getPlainOrder());
  if (plan.getMicroBatches() > 1 && small.plan.getMicroBatches() == 1)
    small.differs.push_back("one micro-batch");
  if (buffer != plan.getMoeBuffer())
    small.differs.push_back("moe_buffer");
  return small;
}
