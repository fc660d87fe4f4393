//===- Schedule.cpp - the order of work on a pipeline stage ---------------===//
//
// All schedules are one pattern: so many forwards to warm up, then one forward
// and one backward in turn, then the backwards that are left. They differ in
// the length of the warm-up, in the order of chunks, and in when weight
// gradients are made.
//
//   4 stages, 6 micro-batches, 1F1B, stage 1:  F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4
//   B5 the same in ZB-H1:                F0 F1 F2 B0 F3 B1 W0 F4 B2 W1 F5 B3 W2
//   B4 ...
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Timeline.h"

#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <cmath>

using namespace kerf;

llvm::StringRef kerf::nameOf(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::GPipe:
    return "gpipe";
  case ScheduleKind::OneFOneB:
    return "1f1b";
  case ScheduleKind::Interleaved:
    return "interleaved";
  case ScheduleKind::ZeroBubble:
    return "zb-h1";
  }
  return "";
}

std::optional<ScheduleKind> kerf::scheduleNamed(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<ScheduleKind>>(name)
      .Case("gpipe", ScheduleKind::GPipe)
      .Case("1f1b", ScheduleKind::OneFOneB)
      .Case("interleaved", ScheduleKind::Interleaved)
      .Case("zb-h1", ScheduleKind::ZeroBubble)
      .Default(std::nullopt);
}

/// Forwards before the first backward can follow a forward (Megatron's
/// `get_num_warmup`-rule for interleaving).
static int64_t warmUpOf(ScheduleKind kind, int64_t stages, int64_t stage,
                        int64_t microBatches, int64_t chunks) {
  int64_t all = microBatches * chunks;
  int64_t behind = stages - 1 - stage;
  if (kind == ScheduleKind::GPipe)
    return all;
  if (kind == ScheduleKind::Interleaved)
    return std::min(all, 2 * behind + (chunks - 1) * stages);
  return std::min(all, behind);
}

/// The `number`-th forward or backward of a stage: `stages` micro-batches go
/// through a chunk, then the same through the next chunk; backwards begin with
/// the last chunk. One chunk: micro-batch after micro-batch.
static Task taskAt(EventKind kind, int64_t number, int64_t stages,
                   int64_t chunks) {
  int64_t round = stages * chunks;
  int64_t chunk = number % round / stages;
  if (kind == EventKind::Backward)
    chunk = chunks - 1 - chunk;
  return {kind, int(chunk), number / round * stages + number % stages};
}

std::vector<Task> kerf::stageOrder(ScheduleKind kind, int64_t stages,
                                   int64_t stage, int64_t microBatches,
                                   int64_t chunks) {
  int64_t all = microBatches * chunks, forwards = 0, weights = 0;
  bool split = kind == ScheduleKind::ZeroBubble;
  std::vector<Task> order;
  order.reserve(size_t(all) * (split ? 3 : 2));
  auto forward = [&] {
    order.push_back(taskAt(EventKind::Forward, forwards++, stages, chunks));
  };
  int64_t warmUp = warmUpOf(kind, stages, stage, microBatches, chunks);
  while (forwards < warmUp)
    forward();
  for (int64_t b = 0; b < all; ++b) {
    if (forwards < all)
      forward();
    order.push_back(taskAt(EventKind::Backward, b, stages, chunks));
    if (split && b >= stage)
      order.push_back({EventKind::WeightGradient, 0, weights++});
  }
  while (split && weights < all)
    order.push_back({EventKind::WeightGradient, 0, weights++});
  return order;
}

double kerf::chunksInFlight(ScheduleKind kind, int64_t stages, int64_t stage,
                            int64_t microBatches, int64_t chunks) {
  int64_t all = microBatches * chunks;
  if (kind == ScheduleKind::ZeroBubble)
    return double(std::min(all, stages));
  return double(
      std::min(all, warmUpOf(kind, stages, stage, microBatches, chunks) + 1));
}

HeldParts kerf::partsInFlight(ScheduleKind kind, int64_t stages, int64_t stage,
                              int64_t microBatches) {
  double all = chunksInFlight(kind, stages, stage, microBatches, 1);
  if (kind != ScheduleKind::ZeroBubble)
    return {all, all, 0};
  return {double(std::min(microBatches, stages - stage)), all,
          double(std::min(microBatches, stage + 1))};
}

static bool isTime(double sec) { return std::isfinite(sec) && sec >= 0; }

static std::string checkChunk(const ChunkWork &work) {
  for (double sec :
       {work.forwardSec, work.backwardSec, work.weightGradientSec,
        work.forwardGatherSec, work.backwardGatherSec, work.gradientSec})
    if (!isTime(sec))
      return "a time of a chunk is negative or not finite";
  if (work.weightGradientSec > work.backwardSec)
    return "the weight gradient of a chunk takes longer than its backward";
  return "";
}

static std::string checkStages(const StepWork &step) {
  for (const StageWork &stage : step.stages) {
    if (int64_t(stage.chunks.size()) != step.chunks)
      return "a stage has " + std::to_string(stage.chunks.size()) +
             " chunks, expected " + std::to_string(step.chunks);
    for (double sec :
         {stage.gradientSyncSec, stage.weightGatherSec, stage.updateSec})
      if (!isTime(sec))
        return "a time of a stage is negative or not finite";
    for (const ChunkWork &chunk : stage.chunks)
      if (std::string problem = checkChunk(chunk); !problem.empty())
        return problem;
  }
  return "";
}

std::string StepWork::check() const {
  int64_t p = int64_t(stages.size());
  if (p == 0)
    return "no stages";
  if (microBatches < 1)
    return "no micro-batches";
  if (chunks < 1 || (chunks > 1 && schedule != ScheduleKind::Interleaved))
    return std::to_string(chunks) + " chunks per stage, '" +
           nameOf(schedule).str() + "' has 1";
  if (schedule == ScheduleKind::Interleaved && microBatches % p != 0)
    return "interleaving needs micro-batches in multiples of the " +
           std::to_string(p) + " stages, found " + std::to_string(microBatches);
  if (!isTime(sendSec) || !isTime(constantSec) || !isTime(bubble))
    return "a time of the step is negative or not finite";
  auto isShare = [](double part) { return part >= 0 && part <= 1; };
  if (!isShare(gradientOverlap) || !isShare(weightOverlap))
    return "the overlap of data traffic is not between 0 and 1";
  return checkStages(*this);
}
