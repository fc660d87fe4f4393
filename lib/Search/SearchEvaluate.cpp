//===- SearchEvaluate.cpp - from placed layers to a whole plan ------------===//
//
// Everything of a plan that follows from its outer choice and the points of its
// layers: the work that the timeline simulates, the memory of each stage, the
// time.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace kerf;
using namespace kerf::search_detail;

std::string OuterChoice::print() const {
  std::string axes;
  for (MeshAxis axis : order) {
    constexpr const char *kNames[] = {"tp", "cp", "dp", "pp"};
    axes += (axes.empty() ? "" : ".") +
            std::string(kNames[static_cast<size_t>(axis)]);
  }
  std::string text =
      llvm::formatv("tp {0} cp {1} ep {2} pp {3} dp {4} | {5} x {6} | {7}", tp,
                    cp, ep, pp, dp, microBatches, microBatch, nameOf(schedule));
  if (chunks > 1)
    text += " v " + std::to_string(chunks);
  if (defer >= 0)
    text += " defer " + std::to_string(defer);
  text += " | zero " + std::to_string(zero);
  if (zero > 0)
    text += " over " + std::to_string(shardGroup);
  return text + " | " + axes;
}

std::string search_detail::formatBytes(double bytes) {
  constexpr std::pair<double, const char *> kUnits[] = {
      {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};
  const auto *unit =
      llvm::find_if(kUnits, [&](const auto &u) { return bytes >= u.first; });
  if (unit == std::end(kUnits))
    --unit;
  return llvm::formatv("{0:f1} {1}", bytes / unit->first, unit->second);
}

HeldChunks search_detail::heldChunks(int64_t stages, int64_t stage,
                                     int64_t microBatches, int64_t chunks) {
  // The order repeats every `stages` micro-batches once it is warm.
  int64_t counted = std::min(microBatches, 4 * stages);
  std::vector<double> held(chunks, 0);
  std::vector<std::vector<double>> largest;
  auto covers = [](llvm::ArrayRef<double> a, llvm::ArrayRef<double> b) {
    return llvm::all_of(llvm::zip(a, b), [](auto pair) {
      return std::get<0>(pair) >= std::get<1>(pair);
    });
  };
  bool grew = false;
  auto note = [&] {
    if (!grew || llvm::any_of(largest, [&](const std::vector<double> &known) {
          return covers(known, held);
        }))
      return;
    llvm::erase_if(largest, [&](const std::vector<double> &known) {
      return covers(held, known);
    });
    largest.push_back(held);
  };
  for (const Task &task : stageOrder(
           {ScheduleKind::Interleaved, stages, counted, chunks}, stage)) {
    bool forward = task.kind == EventKind::Forward;
    if (!forward)
      note();
    held[task.chunk] += forward ? 1 : -1;
    grew = forward;
  }
  return largest;
}

const std::vector<HeldChunks> &
GroupMemo::heldBy(int64_t stages, int64_t microBatches, int64_t chunks) {
  auto [it, isNew] = held.try_emplace({stages, microBatches, chunks});
  for (int64_t stage = 0; isNew && stage < stages; ++stage)
    it->second.push_back(heldChunks(stages, stage, microBatches, chunks));
  return it->second;
}

namespace {
/// Works out one plan.
struct Evaluator {
  const SearchProblem &problem;
  PlanPoint &plan;
  GroupMemo memo;
  Pricing pricing;
  bool isTimed = false; ///< memory is of no interest

  Evaluator(const SearchProblem &problem, PlanPoint &plan)
      : problem(problem), plan(plan), memo(*problem.machine, problem.profile),
        pricing(problem, plan.outer, memo) {}
  void run();

private:
  void addStage(size_t stage);
  void addActivations(size_t stage, llvm::ArrayRef<double> saved);
  void addTiedSync();
  void addTiedMoves();
  std::vector<double> sendSecs() const;
};
} // namespace

void Evaluator::addActivations(size_t stage, llvm::ArrayRef<double> saved) {
  const OuterChoice &outer = plan.outer;
  if (isTimed)
    return;
  double &bytes = plan.stages[stage].memory.activations;
  if (outer.chunks == 1) {
    bytes = saved[0] *
            chunksInFlight(outer.pipelining(), static_cast<int64_t>(stage));
    return;
  }
  for (const std::vector<double> &held :
       heldChunks(outer.pp, static_cast<int64_t>(stage), outer.microBatches,
                  outer.chunks)) {
    double sum = 0;
    for (auto [count, each] : llvm::zip(held, saved))
      sum += count * each;
    bytes = std::max(bytes, sum);
  }
}

bool PlanPoint::exchangesRows() const {
  for (const PlacedStage &stage : stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        if (layers.point.exchangesRows)
          return true;
  return false;
}

void Evaluator::addStage(size_t index) {
  PlacedStage &stage = plan.stages[index];
  StageWork &work = plan.work.stages.emplace_back();
  StageMemory &memory = stage.memory = StageMemory();
  LayerPrice once;
  std::vector<double> saved;
  double tensorSync = 0;
  for (const PlacedChunk &chunk : stage.chunks) {
    ChunkWork &sum = work.chunks.emplace_back();
    saved.push_back(0);
    for (const PlacedLayers &layers : chunk.layers) {
      auto count = static_cast<double>(layers.count);
      LayerPrice price = priceOf(pricing, layers.kind, layers.point);
      sum.forwardSec += count * price.work.forwardSec;
      sum.backwardSec += count * price.work.backwardSec;
      sum.weightGradientSec += count * price.work.weightGradientSec;
      sum.forwardGatherSec += count * price.work.forwardGatherSec;
      sum.backwardGatherSec += count * price.work.backwardGatherSec;
      sum.gradientSec += count * price.work.gradientSec;
      saved.back() += count * layers.point.savedBytes;
      memory.weights += count * price.weights;
      memory.masters += count * price.masters;
      memory.gradients += count * price.gradients;
      memory.optimizer += count * price.optimizer;
      memory.temporaries = std::max(memory.temporaries, layers.point.workBytes);
      memory.communication = std::max(memory.communication, price.bufferBytes);
      tensorSync += count * price.tensorSyncSec;
      addOnce(once, price, count);
    }
  }
  addActivations(index, saved);
  if (index + 1 == plan.stages.size())
    memory.temporaries += logitBytesOf(problem, plan.outer);
  memory.reserved = reservedOf(problem, plan.outer, plan.exchangesRows());
  StepPrice price = stepPrice(pricing, once);
  work.gradientSyncSec = price.gradientSyncSec + tensorSync;
  work.weightGatherSec = price.weightGatherSec;
  work.updateSec = price.updateSec;
}

/// The gradients of a tied parameter are added up between the first and the
/// last stage, once per step.
void Evaluator::addTiedSync() {
  const OuterChoice &outer = plan.outer;
  if (outer.pp == 1)
    return;
  for (const PlacedLayers &layers : plan.stages.back().chunks.back().layers) {
    double sec = tiedSec(problem, outer, tiedBytes(pricing, layers.point));
    plan.work.stages.front().gradientSyncSec += sec;
    plan.work.stages.back().gradientSyncSec += sec;
  }
}

/// The point of a kind among layers; null if it is not there.
static const LayerPoint *pointOf(llvm::ArrayRef<PlacedLayers> all, int kind) {
  const auto *found = llvm::find_if(
      all, [&](const PlacedLayers &layers) { return layers.kind == kind; });
  return found == all.end() ? nullptr : &found->point;
}

double TiedMove::sec(GroupMemo &memo) const {
  return calls * memo.of(group, bytes).of(kind)(bytes);
}

/// Where both shard the table, parts are exchanged; where one has it whole, the
/// other's are gathered for it.
std::vector<TiedMove> search_detail::tiedMoves(const Pricing &pricing,
                                               const PlanPoint &plan) {
  const SearchProblem &problem = pricing.problem;
  const OuterChoice &outer = plan.outer;
  const LayerPoint *first =
      pointOf(plan.stages.front().chunks.front().layers, embeddingOf(problem));
  const LayerPoint *last =
      pointOf(plan.stages.back().chunks.back().layers, headOf(problem));
  if (!problem.tiedShards || !first || !last || last->sharedElements == 0)
    return {};
  double weight = last->sharedElements * last->weightBytes;
  double gradient = tiedBytes(pricing, *last);
  bool isOnce = outer.zero < 3 && outer.microBatches > 1;
  double calls = isOnce ? 1 : 2 * double(outer.microBatches);
  std::vector<TiedMove> moves;
  auto add = [&](CollectiveKind kind, Group group, double bytes, double times,
                 bool isGradient) {
    if (bytes > 0 && group.size > 1)
      moves.push_back({kind, group, bytes, times, isGradient});
  };
  TableKey key = keyOf(outer, headOf(problem));
  for (auto [states, group] :
       llvm::zip_equal(problem.tiedShards(outer, *first, *last), key.groups)) {
    auto [rests, needed] = states;
    if (rests == needed)
      continue;
    bool exchanges = rests > 0 && needed > 0;
    if (rests > 0)
      add(exchanges ? CollectiveKind::AllToAll : CollectiveKind::AllGather,
          group, weight, calls, false);
    if (exchanges)
      add(CollectiveKind::AllToAll, group, gradient, 1, true);
    else if (needed > 0)
      add(CollectiveKind::AllGather, group, gradient * double(group.size), 1,
          true);
  }
  return moves;
}

void Evaluator::addTiedMoves() {
  for (const TiedMove &move : tiedMoves(pricing, plan)) {
    double sec = move.sec(memo);
    if (!move.isGradient) {
      plan.work.stages.back().weightGatherSec += sec;
      continue;
    }
    plan.work.stages.front().gradientSyncSec += sec;
    if (plan.outer.pp > 1)
      plan.work.stages.back().gradientSyncSec += sec;
  }
}

std::vector<double> search_detail::sendSecs(const SearchProblem &problem,
                                            const OuterChoice &outer,
                                            double bytes) {
  return messageSecs(*problem.machine, problem.profile,
                     {outer.pp, outer.strideOf(MeshAxis::Pipeline)},
                     outer.ranks(), bytes);
}

double search_detail::tiedSec(const SearchProblem &problem,
                              const OuterChoice &outer, double bytes) {
  std::vector<double> secs = sendSecs(problem, outer, bytes);
  return secs.empty() ? 0 : secs.back();
}

MessageBytes search_detail::messageBytes(const SearchProblem &problem,
                                         const PlanPoint &plan) {
  MessageBytes bytes;
  for (const PlacedStage &stage : plan.stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        if (isLayer(problem, layers.kind)) {
          const LayerPoint &point = layers.point;
          bytes.forward = std::max(bytes.forward, point.boundaryBytes);
          bytes.backward =
              std::max(bytes.backward, point.boundaryGradientBytes);
        }
  return bytes;
}

std::vector<double> Evaluator::sendSecs() const {
  MessageBytes bytes = messageBytes(problem, plan);
  return search_detail::sendSecs(problem, plan.outer,
                                 (bytes.forward + bytes.backward) / 2);
}

void Evaluator::run() {
  plan.work.schedule = plan.outer.schedule;
  plan.work.microBatches = plan.outer.microBatches;
  plan.work.chunks = plan.outer.chunks;
  plan.work.defer = plan.outer.defer;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    addStage(stage);
  addTiedSync();
  addTiedMoves();
  plan.work.sendSec = sendSecs();
  plan.work.gradientOverlap = gradientOverlapOf(problem.profile, plan.outer);
  plan.work.weightOverlap = problem.profile.weightOverlap;
  plan.work.updatedOverlap = problem.profile.updatedOverlap;
  plan.work.bubble = problem.profile.bubble;
  plan.work.constantSec = problem.profile.stepSec;
  plan.stepSec = simulate(plan.work).totalSec;
}

double search_detail::stepSecOf(const SearchProblem &problem,
                                const OuterChoice &outer,
                                std::vector<PlacedStage> stages) {
  PlanPoint plan;
  plan.outer = outer;
  plan.stages = std::move(stages);
  Evaluator evaluator(problem, plan);
  evaluator.isTimed = true;
  evaluator.run();
  return plan.stepSec;
}

std::vector<StageMemory> search_detail::measuredOf(const SearchProblem &problem,
                                                   const PlanPoint &plan) {
  if (!problem.measure)
    return {};
  std::vector<StageMemory> measured = problem.measure(plan);
  for (StageMemory &stage : measured)
    stage.reserved = reservedOf(problem, plan.outer, plan.exchangesRows());
  return measured;
}

PlanPoint kerf::evaluatePlan(const SearchProblem &problem,
                             const OuterChoice &outer,
                             std::vector<PlacedStage> stages) {
  PlanPoint plan;
  plan.outer = outer;
  plan.stages = std::move(stages);
  std::vector<StageMemory> measured = measuredOf(problem, plan);
  Evaluator evaluator(problem, plan);
  evaluator.isTimed = !measured.empty();
  evaluator.run();
  for (auto [stage, memory] : llvm::zip(plan.stages, measured))
    stage.memory = memory;
  return plan;
}

bool kerf::fits(const SearchProblem &problem, const PlanPoint &plan) {
  return llvm::all_of(plan.stages, [&](const PlacedStage &stage) {
    return stage.memory.total() <= capacityBytes(problem) * (1 + 1e-12);
  });
}
