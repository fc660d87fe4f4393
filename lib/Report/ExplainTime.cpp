//===- ExplainTime.cpp - what the time of a step is spent on --------------===//
//
// Problem: a step of P stages takes T. Say what T is spent on, in parts that
// add to T.
//
// Idea: every stage has its T seconds. Of these, its compute engine works on
// layers (known part by part from the points of its layers), waits for data
// traffic (known from the timeline), and is idle for the rest. Parts are means
// over the stages, so they add to T again.
//
//   work of stage i:  b_i = compute + exposed layer traffic + launch gaps +
//   update own time:         o_i = b_i + exposed data traffic imbalance: mean
//   of max(o) - o_i bubble:           T - constant - max(o), of which the part
//   that vanishes with
//                     free sends is exposed pipeline traffic
//
// Launch gaps are what a chunk takes beyond its parts: a layer that is launched
// slower than it computes.
//
// Example: two stages with o = 3 s and 2 s, T = 4 s: imbalance (0 + 1) / 2 =
// 0.5 s, bubble 1 s, and 2.5 s of work: 4 s.
//
//===----------------------------------------------------------------------===//

#include "kerf/Report/ExplainDetail.h"
#include "kerf/Search/Pricing.h"

#include "kerf/Cost/Kernels.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <bitset>

using namespace kerf;
using namespace kerf::explain_detail;

namespace {
/// What one chunk spends per micro-batch, forward and backward together where
/// the direction does not matter.
struct ChunkParts {
  TimeParts forward, backward, recompute;
  double forwardLaunch = 0, backwardLaunch = 0;
  double accumulateSec = 0; ///< adding up gradients; part of the backward
  double forwardMaxima = 0, backwardMaxima = 0; ///< seconds: data ranks' maxima
};

/// The resources whose absence is asked for.
enum RoofIndex { Compute, Memory, Network, Launches, Pipeline, kRoofs };
constexpr const char *kRoofNames[kRoofs] = {"compute", "memory", "network",
                                            "launches", "pipeline"};
using Without = std::bitset<kRoofs>;

/// Accounts for one plan.
struct Accountant {
  const StepModel &step;
  const Machine &machine; ///< as a rank sees it
  const Profile &profile;
  const PlanPoint &plan;
  std::vector<std::vector<ChunkParts>> parts; ///< [stage][chunk]

  void readParts();
  void addStage(TimePart &time, const Timeline &timeline, size_t stage) const;
  void addIdle(TimePart &time, const Timeline &timeline) const;
  TrafficRow &traffic(TimePart &time, const char *axis, Group group) const;
  double recomputedFlops() const;
  double bytesSent(const TimePart &time) const;
  double stepWithout(const Without &without) const;
  void findRoofs(TimePart &time) const;

  double exposed() const { return 1 - profile.tensorOverlap; }
  double stages() const { return static_cast<double>(plan.work.stages.size()); }
  double microBatches() const {
    return static_cast<double>(plan.work.microBatches);
  }
};
} // namespace

static void addTimes(TimeParts &sum, const TimeParts &part, double times) {
  sum.matmulSec += times * part.matmulSec;
  sum.attentionSec += times * part.attentionSec;
  sum.rowSec += times * part.rowSec;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    sum.commSec[axis] += times * part.commSec[axis];
  for (int axis = 0; axis < kInnerAxes; ++axis)
    sum.hiddenSec[axis] += times * part.hiddenSec[axis];
}

/// The backward pass of a layer under a schedule.
static TimeParts backwardOf(const LayerPoint &point, ScheduleKind schedule) {
  TimeParts parts = point.backward;
  if (!splitsWeightGradient(schedule))
    return parts;
  parts.rowSec += point.deferredCopySec;
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    parts.hiddenSec[axis] -= point.deferredHiddenSec[axis];
    parts.commSec[axis] += point.deferredCommSec[axis];
  }
  return parts;
}

/// Time of the compute engine under the plain rule, nothing added.
static double plainSec(const TimeParts &parts, double exposed) {
  return parts.computeSec() + exposed * parts.allCommSec();
}

void Accountant::readParts() {
  const Device &device = machine.device;
  double rate = device.memoryBytesPerSec * device.efficiency.memory;
  // Gradients that are sharded are added up where they rest.
  auto shards = static_cast<double>(
      plan.outer.zero >= 2 ? std::max<int64_t>(plan.outer.shardGroup, 1) : 1);
  auto expertShards = [&](const LayerPoint &point) {
    int64_t others = plan.outer.ep * (point.expertsWhole ? plan.outer.cp : 1);
    return std::max(1.0, shards / static_cast<double>(others));
  };
  auto added = [&](const PlacedLayers &layers, double elements, double ranks) {
    bool isEmbedding = layers.kind == step.embedding();
    return elements / ranks *
           search_detail::accumulatedBytes(profile, plan.outer.microBatches,
                                           ranks > 1, isEmbedding);
  };
  search_detail::GroupMemo memo(machine, profile);
  auto maxima = [&](int count) {
    return profile.fused
               ? search_detail::maximaSec(
                     memo, search_detail::outerDataGroups(plan.outer), count)
               : 0;
  };
  for (auto [stage, work] : llvm::zip(plan.stages, plan.work.stages)) {
    parts.emplace_back();
    for (auto [chunk, chunkWork] : llvm::zip(stage.chunks, work.chunks)) {
      ChunkParts &sum = parts.back().emplace_back();
      double bytes = 0;
      for (const PlacedLayers &layers : chunk.layers) {
        auto count = static_cast<double>(layers.count);
        addTimes(sum.forward, layers.point.forward, count);
        addTimes(sum.backward, backwardOf(layers.point, plan.outer.schedule),
                 count);
        addTimes(sum.recompute, layers.point.recompute, count);
        bytes += count * layers.point.trainedShare *
                 (added(layers, layers.point.denseElements, shards) +
                  added(layers, layers.point.expertElements,
                        expertShards(layers.point)));
        sum.backward.matmulSec +=
            count *
            search_detail::addingSec(layers.point, plan.outer.microBatches);
        sum.forwardMaxima += count * maxima(layers.point.forwardMaxima);
        sum.backwardMaxima += count * maxima(layers.point.backwardMaxima);
      }
      double forward = chunkWork.forwardSec - sum.forwardMaxima -
                       plainSec(sum.forward, exposed());
      double backward = chunkWork.backwardSec - sum.backwardMaxima -
                        plainSec(sum.backward, exposed()) -
                        plainSec(sum.recompute, exposed());
      double accumulate = rate > 0 ? bytes / rate : 0;
      // What rounding leaves is nothing.
      double least = 1e-12 * (chunkWork.forwardSec + chunkWork.backwardSec);
      auto atLeast = [&](double sec) { return sec > least ? sec : 0; };
      sum.forwardLaunch = atLeast(forward);
      sum.accumulateSec = std::clamp(backward, 0.0, accumulate);
      sum.backwardLaunch = atLeast(backward - sum.accumulateSec);
    }
  }
}

TrafficRow &Accountant::traffic(TimePart &time, const char *axis,
                                Group group) const {
  auto row = llvm::find_if(time.traffic, [&](const TrafficRow &known) {
    return known.axis == axis;
  });
  if (row != time.traffic.end())
    return *row;
  return time.traffic.emplace_back(
      TrafficRow{axis, outermostTier(machine, group).str(), 0, 0});
}

/// Adds the part of a stage to the means.
void Accountant::addStage(TimePart &time, const Timeline &timeline,
                          size_t stage) const {
  const StageWork &work = plan.work.stages[stage];
  double times = microBatches() / stages(), once = 1 / stages();
  double data = once * (work.gradientSyncSec + work.weightGatherSec);
  double maxima = 0;
  for (auto [sum, chunk] : llvm::zip(parts[stage], work.chunks)) {
    time.matmulSec += times * (sum.forward.matmulSec + sum.backward.matmulSec);
    time.attentionSec +=
        times * (sum.forward.attentionSec + sum.backward.attentionSec);
    time.rowSec +=
        times * (sum.forward.rowSec + sum.backward.rowSec + sum.accumulateSec);
    time.launchSec += times * (sum.forwardLaunch + sum.backwardLaunch);
    time.recomputeSec += times * sum.recompute.computeSec();
    for (InnerAxis axis :
         {InnerAxis::Tensor, InnerAxis::Context, InnerAxis::Expert}) {
      auto index = static_cast<size_t>(axis);
      double sec = 0, hidden = 0;
      for (const TimeParts *parts :
           {&sum.forward, &sum.backward, &sum.recompute}) {
        sec += times * parts->commSec[index];
        hidden += times * parts->hiddenSec[index];
      }
      TrafficRow &row = traffic(time, explain_detail::axisName(axis),
                                groupOf(plan.outer, axis));
      row.totalSec += sec;
      row.exposedSec += exposed() * (sec - hidden);
    }
    data += times * (chunk.forwardGatherSec + chunk.backwardGatherSec +
                     chunk.gradientSec);
    maxima += times * (sum.forwardMaxima + sum.backwardMaxima);
  }
  time.optimizerSec += once * work.updateSec;
  // Without data ranks: what the ends of the pipeline tell each other about
  // parameters that both hold; of one stage, sums and tables of tensor ranks.
  Group group = dataGroup(plan.outer);
  const char *name = "data";
  if (group.size == 1 && plan.outer.pp > 1) {
    name = kTiedWeights.data();
    group = groupOf(plan.outer, MeshAxis::Pipeline);
  } else if (group.size == 1) {
    name = explain_detail::axisName(InnerAxis::Tensor);
    group = groupOf(plan.outer, InnerAxis::Tensor);
  }
  TrafficRow &row = traffic(time, name, group);
  row.totalSec += data + maxima;
  row.exposedSec += once * timeline.exposedDataSec[stage] + maxima;
}

/// Work of a stage's compute engine in a step.
static double busySec(const StepWork &step, const StageWork &work) {
  double sec = work.updateSec;
  for (const ChunkWork &chunk : work.chunks)
    sec += static_cast<double>(step.microBatches) *
           (chunk.forwardSec + chunk.backwardSec);
  return sec;
}

/// Adds waiting: bubble, imbalance, and sends that nothing hides.
void Accountant::addIdle(TimePart &time, const Timeline &timeline) const {
  double longest = 0, sum = 0;
  for (auto [work, data] :
       llvm::zip(plan.work.stages, timeline.exposedDataSec)) {
    double own = busySec(plan.work, work) + data;
    longest = std::max(longest, own);
    sum += own;
  }
  time.constantSec = plan.work.constantSec;
  time.imbalanceSec = longest - sum / stages();
  // Equal stages: what rounding leaves is nothing.
  if (time.imbalanceSec < 1e-12 * longest)
    time.imbalanceSec = 0;
  double waiting =
      std::max(timeline.totalSec - time.constantSec - longest, 0.0);
  if (plan.work.stages.size() > 1) {
    StepWork free = plan.work;
    free.sendSec.clear();
    double lost = timeline.totalSec - simulate(free).totalSec;
    TrafficRow &row =
        traffic(time, "pipeline", groupOf(plan.outer, MeshAxis::Pipeline));
    // An activation and a gradient of every micro-batch cross all borders; the
    // mean stage's share.
    row.totalSec = 2 * microBatches() * plan.work.journeySec() / stages();
    row.exposedSec = std::clamp(lost, 0.0, std::min(waiting, row.totalSec));
    waiting -= row.exposedSec;
  }
  time.bubbleSec = waiting;
}

/// Recomputed flops: forward flops of a kind times the part of its
/// forward time that is spent again, matmuls and attention apart.
double Accountant::recomputedFlops() const {
  double flops = 0;
  for (const PlacedStage &stage : plan.stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers) {
        double matmul = 0, attention = 0;
        for (const LayerOp &op : step.kinds[layers.kind].ops)
          if (op.phase == LayerPhase::Forward) {
            matmul += op.work.matmulFlops;
            attention += op.work.attentionFlops;
          }
        const TimeParts &once = layers.point.forward;
        const TimeParts &again = layers.point.recompute;
        auto count = static_cast<double>(layers.count);
        if (once.matmulSec > 0)
          flops += count * matmul * again.matmulSec / once.matmulSec;
        if (once.attentionSec > 0)
          flops += count * attention * again.attentionSec / once.attentionSec;
      }
  return flops;
}

/// Bytes that a rank sends in a step: link time times the bandwidth of the
/// outermost tier.
double Accountant::bytesSent(const TimePart &time) const {
  double bytes = 0;
  for (const TrafficRow &row : time.traffic)
    for (const Tier &tier : machine.tiers)
      if (row.tier == tier.name)
        bytes += row.totalSec * tier.bytesPerSec / tier.oversubscription *
                 machine.device.efficiency.network;
  return bytes;
}

/// Time of one direction of a chunk without some resources. Traffic that
/// compute hid comes to light when there is no compute to hide it.
static double directionWithout(const TimeParts &own, const TimeParts &again,
                               double launch, double extra,
                               const Without &without, double exposed) {
  double compute = 0, waited = 0, comm = 0;
  for (const TimeParts *parts : {&own, &again}) {
    if (!without[Compute])
      compute += parts->matmulSec + parts->attentionSec;
    if (!without[Memory])
      compute += parts->rowSec;
    if (without[Network])
      continue;
    waited += parts->allCommSec();
    comm += parts->linkSec();
  }
  compute += without[Memory] ? 0 : extra;
  compute += without[Launches] ? 0 : launch;
  return compute + std::max(exposed * waited, comm - compute);
}

double Accountant::stepWithout(const Without &without) const {
  StepWork work = plan.work;
  for (auto [stage, sums] : llvm::zip(work.stages, parts)) {
    for (auto [chunk, sum] : llvm::zip(stage.chunks, sums)) {
      double before = chunk.backwardSec;
      chunk.forwardSec = directionWithout(sum.forward, {}, sum.forwardLaunch, 0,
                                          without, exposed());
      chunk.backwardSec =
          directionWithout(sum.backward, sum.recompute, sum.backwardLaunch,
                           sum.accumulateSec, without, exposed());
      if (!without[Network]) {
        chunk.forwardSec += sum.forwardMaxima;
        chunk.backwardSec += sum.backwardMaxima;
      }
      if (before > 0)
        chunk.weightGradientSec *= std::min(1.0, chunk.backwardSec / before);
      if (without[Network])
        chunk.forwardGatherSec = chunk.backwardGatherSec = chunk.gradientSec =
            0;
    }
    if (without[Memory])
      stage.updateSec = 0;
    if (without[Network])
      stage.gradientSyncSec = stage.weightGatherSec = 0;
  }
  if (without[Network])
    work.sendSec.clear();
  Timeline timeline = simulate(work);
  if (!without[Pipeline])
    return timeline.totalSec;
  double sum = 0;
  for (auto [stage, data] : llvm::zip(work.stages, timeline.exposedDataSec))
    sum += busySec(work, stage) + data;
  return work.constantSec + sum / stages();
}

/// The step without each resource, the most binding resource first; then the
/// one that would bind next.
void Accountant::findRoofs(TimePart &time) const {
  std::array<RoofIndex, kRoofs> order = {Compute, Memory, Network, Launches,
                                         Pipeline};
  std::array<double, kRoofs> left;
  for (RoofIndex roof : order)
    left[roof] = stepWithout(Without().set(roof));
  llvm::sort(order, [&](RoofIndex a, RoofIndex b) {
    return left[a] != left[b] ? left[a] < left[b] : a < b;
  });
  for (RoofIndex roof : order)
    time.roofs.push_back({kRoofNames[roof], left[roof]});
  for (RoofIndex roof : llvm::drop_begin(order)) {
    double both = stepWithout(Without().set(order[0]).set(roof));
    if (time.next.name.empty() || both < time.next.stepSec)
      time.next = {kRoofNames[roof], both};
  }
}

double TimePart::exposedSec() const {
  double sum = 0;
  for (const TrafficRow &row : traffic)
    sum += row.exposedSec;
  return sum;
}

/// MFU and what is like it.
static void addRates(TimePart &time, const Accountant &accountant) {
  const StepModel &step = accountant.step;
  const Device &device = accountant.machine.device;
  auto ranks = static_cast<double>(accountant.plan.outer.ranks());
  time.modelFlops = step.stepFlops();
  time.recomputedFlops = accountant.recomputedFlops();
  time.peak = ranks * peakOf(device, step.type);
  double all = time.modelFlops + time.recomputedFlops;
  if (double possible = time.stepSec * time.peak; possible > 0) {
    time.mfu = time.modelFlops / possible;
    time.hfu = all / possible;
    time.ofIdeal =
        time.mfu / (device.efficiency.matmul * accountant.profile.matmul);
  }
  if (all > 0)
    time.bytesPerFlop = accountant.bytesSent(time) * ranks / all;
}

/// All but the roofs.
static TimePart partsOf(Accountant &accountant) {
  accountant.readParts();
  Timeline timeline = simulate(accountant.plan.work);
  TimePart time;
  time.stepSec = timeline.totalSec;
  time.closedFormSec = closedFormSec(accountant.plan.work);
  for (size_t stage = 0; stage < accountant.plan.stages.size(); ++stage)
    accountant.addStage(time, timeline, stage);
  accountant.addIdle(time, timeline);
  llvm::erase_if(time.traffic,
                 [](const TrafficRow &row) { return row.totalSec <= 0; });
  addRates(time, accountant);
  return time;
}

TimePart explain_detail::accountParts(const StepModel &step,
                                      const Machine &machine,
                                      const Profile &profile,
                                      const PlanPoint &plan) {
  Machine own = machine.perRank();
  Accountant accountant{step, own, profile, plan, {}};
  return partsOf(accountant);
}

TimePart kerf::accountTime(const StepModel &step, const Machine &machine,
                           const Profile &profile, const PlanPoint &plan) {
  Machine own = machine.perRank();
  Accountant accountant{step, own, profile, plan, {}};
  TimePart time = partsOf(accountant);
  accountant.findRoofs(time);
  return time;
}
