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
// In ZB-H1 stage i makes a weight gradient i micro-batches after its input
// gradient, here one; a limit (`defer`) makes it earlier on late stages, which
// then hold less and idle more. With none deferred it follows at once, and only
// the gradient's message leaves earlier than in 1F1B.
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Timeline.h"
#include "kerf/Support/Schedules.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;

static const ScheduleFacts &factsOf(ScheduleKind kind) {
  return kSchedules[static_cast<size_t>(kind)];
}

llvm::StringRef kerf::nameOf(ScheduleKind kind) { return factsOf(kind).name; }

std::optional<ScheduleKind> kerf::scheduleNamed(llvm::StringRef name) {
  const ScheduleFacts *found = findSchedule(name);
  return found ? std::optional(static_cast<ScheduleKind>(found - kSchedules))
               : std::nullopt;
}

std::vector<ScheduleKind> kerf::allSchedules() {
  std::vector<ScheduleKind> kinds;
  for (size_t i = 0; i < std::size(kSchedules); ++i)
    kinds.push_back(static_cast<ScheduleKind>(i));
  return kinds;
}

bool kerf::splitsWeightGradient(ScheduleKind kind) {
  return factsOf(kind).splitsWeightGradient;
}

int64_t Pipelining::lateBy(int64_t stage) const {
  if (!splitsWeightGradient(schedule))
    return 0;
  return defer < 0 ? stage : std::min(stage, defer);
}

/// Forwards before the first backward can follow a forward (Megatron's
/// `get_num_warmup`-rule for interleaving).
static int64_t warmUpOf(const Pipelining &own, int64_t stage) {
  int64_t all = own.microBatches * own.chunks;
  int64_t behind = own.stages - 1 - stage;
  if (own.schedule == ScheduleKind::GPipe)
    return all;
  if (own.schedule == ScheduleKind::Interleaved)
    return std::min(all, 2 * behind + (own.chunks - 1) * own.stages);
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

std::vector<Task> kerf::stageOrder(const Pipelining &pipelining,
                                   int64_t stage) {
  int64_t stages = pipelining.stages, chunks = pipelining.chunks;
  int64_t all = pipelining.microBatches * chunks, forwards = 0, weights = 0;
  bool split = splitsWeightGradient(pipelining.schedule);
  std::vector<Task> order;
  order.reserve(size_t(all) * (split ? 3 : 2));
  auto forward = [&] {
    order.push_back(taskAt(EventKind::Forward, forwards++, stages, chunks));
  };
  int64_t warmUp = warmUpOf(pipelining, stage);
  int64_t late = pipelining.lateBy(stage);
  while (forwards < warmUp)
    forward();
  for (int64_t b = 0; b < all; ++b) {
    if (forwards < all)
      forward();
    order.push_back(taskAt(EventKind::Backward, b, stages, chunks));
    if (split && b >= late)
      order.push_back({EventKind::WeightGradient, 0, weights++});
  }
  while (split && weights < all)
    order.push_back({EventKind::WeightGradient, 0, weights++});
  return order;
}

double kerf::chunksInFlight(const Pipelining &pipelining, int64_t stage) {
  int64_t all = pipelining.microBatches * pipelining.chunks;
  return double(std::min(all, warmUpOf(pipelining, stage) + 1 +
                                  pipelining.lateBy(stage)));
}

HeldParts kerf::partsInFlight(const Pipelining &pipelining, int64_t stage) {
  double all = chunksInFlight(pipelining, stage);
  if (!splitsWeightGradient(pipelining.schedule))
    return {all, all, 0};
  int64_t m = pipelining.microBatches;
  return {double(std::min(m, pipelining.stages - stage)), all,
          double(std::min(m, pipelining.lateBy(stage) + 1))};
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

double kerf::journeySec(llvm::ArrayRef<double> sendSec, int64_t chunks) {
  if (sendSec.empty())
    return 0;
  double once = 0;
  for (double sec : sendSec.drop_back())
    once += sec;
  return double(chunks) * once + double(chunks - 1) * sendSec.back();
}

double StepWork::journeySec() const {
  return kerf::journeySec(sendSec, chunks);
}

std::string StepWork::check() const {
  int64_t p = int64_t(stages.size());
  if (p == 0)
    return "no stages";
  if (microBatches < 1)
    return "no micro-batches";
  if (chunks < 1 || (chunks > 1 && !factsOf(schedule).takesChunks))
    return std::to_string(chunks) + " chunks per stage, '" +
           nameOf(schedule).str() + "' has 1";
  if (schedule == ScheduleKind::Interleaved && microBatches % p != 0)
    return "interleaving needs micro-batches in multiples of the " +
           std::to_string(p) + " stages, found " + std::to_string(microBatches);
  if (!sendSec.empty() && sendSec.size() != stages.size())
    return std::to_string(sendSec.size()) + " times of messages between " +
           std::to_string(p) + " stages";
  if (!llvm::all_of(sendSec, isTime) || !isTime(constantSec) || !isTime(bubble))
    return "a time of the step is negative or not finite";
  auto isShare = [](double part) { return part >= 0 && part <= 1; };
  if (!isShare(gradientOverlap) || !isShare(weightOverlap) ||
      !isShare(updatedOverlap))
    return "the overlap of data traffic is not between 0 and 1";
  return checkStages(*this);
}
