//===- SearchPrice.cpp - a layer, a stage and a step under a choice -------===//
//
// Problem: the table of a layer knows nothing of data parallelism, ZeRO and the
// pipeline. What do these make of a layer's time and bytes?
//
// Per layer and micro-batch: compute, collectives that are not hidden, no less
// than the runtime's least time; the gradient's accumulation; ZeRO-3's gathers,
// ZeRO-2 and 3's reduce-scatters (Rajbhandari et al. 2020, arXiv 1910.02054).
// Per step: ZeRO-0 all-reduces gradients; 1 reduce-scatters them and gathers
// the updated weights; 2 gathers the weights; hybrid sharding adds an
// all-reduce of the shards over the copies (Zhao et al. 2023, arXiv
// 2304.11277).
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search_detail;

//===----------------------------------------------------------------------===//
// Facts of a problem
//===----------------------------------------------------------------------===//

int search_detail::embeddingOf(const SearchProblem &problem) {
  return problem.hasEmbedding ? problem.runs.front().first : -1;
}

int search_detail::headOf(const SearchProblem &problem) {
  return problem.hasHead ? problem.runs.back().first : -1;
}

bool search_detail::isLayer(const SearchProblem &problem, int kind) {
  return kind != embeddingOf(problem) && kind != headOf(problem);
}

int64_t search_detail::layersOf(const SearchProblem &problem) {
  int64_t layers = 0;
  for (auto [kind, count] : problem.runs)
    if (isLayer(problem, kind))
      layers += count;
  return layers;
}

llvm::SmallVector<int, 4> search_detail::kindsOf(const SearchProblem &problem) {
  llvm::SmallVector<int, 4> kinds;
  for (auto [kind, count] : problem.runs)
    if (!llvm::is_contained(kinds, kind))
      kinds.push_back(kind);
  return kinds;
}

/// Ranks that share the stated memory and bandwidth.
static double shareOf(const Machine &machine) {
  return machine.device.shared ? double(machine.describedDevices()) : 1;
}

double kerf::capacityBytes(const SearchProblem &problem) {
  const Device &device = problem.machine->device;
  return (1 - device.headroom) * device.memoryBytes / shareOf(*problem.machine);
}

Reserve kerf::reserveOf(const Machine &machine, const Profile &profile,
                        const OuterChoice &outer, bool exchangesRows) {
  const Device &device = machine.device;
  double share = shareOf(machine);
  Reserve reserve;
  reserve.fixed = device.reservedBytes / share + profile.reservedBytes;
  reserve.context = device.contextBytes / share;
  reserve.libraries = device.libraryBytes / share;
  reserve.connection = device.connectionBytes / share;
  if (outer.ranks() == 1)
    return reserve;
  int64_t experts = exchangesRows ? outer.ep - 1 : outer.ep > 1;
  reserve.connections = 1 + (outer.tp > 1) + (outer.cp > 1) + (outer.dp > 1) +
                        experts + (outer.pp > 1 ? 2 : 0);
  return reserve;
}

double search_detail::reservedOf(const SearchProblem &problem,
                                 const OuterChoice &outer, bool exchangesRows) {
  return reserveOf(*problem.machine, problem.profile, outer,
                   exchangesRows && problem.exchangesRows)
      .total();
}

double search_detail::logitBytesOf(const SearchProblem &problem,
                                   const OuterChoice &outer) {
  double shards =
      double(outer.cp) * (problem.profile.logitsWhole ? 1 : double(outer.tp));
  return problem.profile.logitBytes * double(outer.microBatch) *
         double(problem.sequence) * double(problem.vocabulary) / shards;
}

//===----------------------------------------------------------------------===//
// One layer
//===----------------------------------------------------------------------===//

Pricing::Pricing(const SearchProblem &problem, const OuterChoice &outer,
                 GroupMemo &memo)
    : problem(problem), outer(outer), memo(memo),
      dense(replicasOf(outer, false)), expert(replicasOf(outer, true)),
      whole(replicasOf(outer, true, /*overContext=*/false)),
      data(outerDataGroups(outer)), share(shareOf(*problem.machine)) {
  const Device &device = problem.machine->device;
  double reached = device.efficiency.memory > 0 ? device.efficiency.memory : 1;
  bytesPerSec = device.memoryBytesPerSec * reached / share;
}

const Replicas &Pricing::replicas(bool isExpert,
                                  const LayerPoint &point) const {
  return !isExpert ? dense : point.expertsWhole ? whole : expert;
}

int64_t Pricing::shards(bool isExpert, const LayerPoint &point) const {
  return ranksOf(replicas(isExpert, point).shard);
}

void ParamTraffic::add(const ParamTraffic &other, double count) {
  gradients += count * other.gradients;
  weights += count * other.weights;
  gathers += count * other.gathers;
  // Layers of a stage have theirs in one stack.
  tensors += std::min(1.0, count) * other.tensors;
  trained += std::min(1.0, count) * other.trained;
}

void ParamTraffic::keepLeast(const ParamTraffic &other) {
  for (double ParamTraffic::*part :
       {&ParamTraffic::gradients, &ParamTraffic::weights,
        &ParamTraffic::gathers, &ParamTraffic::tensors, &ParamTraffic::trained})
    this->*part = std::min(this->*part, other.*part);
}

/// Compute, and of collectives what it does not hide.
static double exposedSec(const TimeParts &parts, const Profile &profile) {
  return parts.computeSec() + (1 - profile.tensorOverlap) * parts.allCommSec();
}

/// What recomputation takes at least: our programs launch what it needs, other
/// runtimes the part of the forward pass that its time is of that.
static double leastRecompute(const Profile &profile, const Device &device,
                             const LayerPoint &point, double leastForward) {
  if (profile.fused)
    return point.kernelsAgain * device.launchSec;
  double all = point.forward.computeSec();
  return all > 0 ? leastForward * point.recompute.computeSec() / all : 0;
}

double search_detail::gradientOverlapOf(const Profile &profile,
                                        const OuterChoice &outer) {
  bool isBehind =
      profile.fused && outer.zero < 2 && !outer.sumsBesideBackward();
  return isBehind ? 0 : profile.gradientOverlap;
}

double search_detail::addingSec(const LayerPoint &point, int64_t microBatches) {
  auto m = static_cast<double>(microBatches);
  return point.addingSec * (m - 1) / m;
}

/// Forward and backward of one layer without data traffic.
static ChunkWork computeOf(const Pricing &pricing, int kind,
                           const LayerPoint &point) {
  const Profile &profile = pricing.problem.profile;
  // A backward pass launches about two kernels for one of the forward pass (one
  // matmul becomes two).
  const Device &device = pricing.problem.machine->device;
  int kernels = point.kernels + (profile.fused ? 0 : point.kernelsAgain);
  double launches = kernels * device.launchSec;
  double leastForward = launches / 3, leastBackward = 2 * launches / 3;
  if (isLayer(pricing.problem, kind)) {
    leastForward = std::max(leastForward, profile.leastForwardSec);
    leastBackward = std::max(leastBackward, profile.leastBackwardSec);
  }
  ChunkWork work;
  work.forwardSec = std::max(exposedSec(point.forward, profile), leastForward);
  double adding = addingSec(point, pricing.outer.microBatches);
  double backward = exposedSec(point.backward, profile) + adding;
  work.backwardSec = std::max(backward, leastBackward);
  // Of the two kernels one is the weight gradient's: the others' launches are
  // waited for, and of time that is launches alone the rest can be deferred.
  if (point.weightGradientSec > 0)
    work.weightGradientSec =
        std::min(point.weightGradientSec + adding + work.backwardSec - backward,
                 work.backwardSec - leastBackward / 2);
  if (splitsWeightGradient(pricing.outer.schedule)) {
    TimeParts more;
    more.commSec = point.deferredCommSec;
    work.backwardSec += exposedSec(more, profile) + point.deferredCopySec;
    work.weightGradientSec += exposedSec(more, profile);
    more.commSec = point.deferredHiddenSec;
    work.backwardSec += exposedSec(more, profile);
  }
  // What is recomputed is launched again.
  work.backwardSec +=
      std::max(exposedSec(point.recompute, profile),
               leastRecompute(profile, device, point, leastForward));
  return work;
}

/// Bytes per element of an accumulated gradient: the step's, unless the profile
/// has a runtime with other habits.
static double gradientBytesOf(const Profile &profile, const LayerPoint &point) {
  return profile.gradientBytes != Profile().gradientBytes
             ? profile.gradientBytes * point.trainedShare
             : point.gradientBytes;
}

/// What accumulated gradients take besides, lying as ops make them.
static double excessOf(const Profile &profile, const LayerPoint &point,
                       bool isExpert) {
  double bytes = isExpert ? point.expertExcessBytes : point.denseExcessBytes;
  return bytes > 0
             ? bytes * gradientBytesOf(profile, point) / point.gradientBytes
             : 0;
}

/// Elements of a layer's dense parameters; a tied one counts once where
/// embedding and head lie on one stage.
static double denseElementsOf(const Pricing &pricing, const LayerPoint &point) {
  return point.denseElements -
         (pricing.outer.pp == 1 ? point.sharedElements : 0);
}

double search_detail::tiedBytes(const Pricing &pricing,
                                const LayerPoint &point) {
  return point.sharedElements * gradientBytesOf(pricing.problem.profile, point);
}

double search_detail::accumulatedBytes(const Profile &profile,
                                       int64_t microBatches, bool isSharded,
                                       bool isEmbedding) {
  if (!profile.fused)
    return profile.accumulateBytes;
  if (microBatches == 1 || (!isSharded && !isEmbedding))
    return 0;
  // The first one is copied: it is read and written, there is nothing to add.
  constexpr double kCopy = 2. / 3;
  auto m = static_cast<double>(microBatches);
  return profile.accumulateBytes * (m - 1 + kCopy) / m;
}

/// Adds a group of parameters: bytes at rest and traffic of every micro-batch.
static void addState(LayerPrice &price, const Pricing &pricing, int kind,
                     const LayerPoint &point, double elements, bool isExpert) {
  const Profile &profile = pricing.problem.profile;
  int zero = pricing.outer.zero;
  double fraction = 1 / double(pricing.shards(isExpert, point));
  double gradientBytes = elements * gradientBytesOf(profile, point);
  double weightBytes = elements * point.weightBytes;
  double trained = elements * point.trainedShare;
  price.weights += weightBytes * (zero >= 3 ? fraction : 1);
  price.masters += elements * point.masterBytes * (zero >= 1 ? fraction : 1);
  bool isSharded = zero >= 2 && fraction < 1;
  price.gradients += isSharded
                         ? gradientBytes * fraction
                         : gradientBytes + excessOf(profile, point, isExpert);
  price.optimizer += elements * point.stateBytes * (zero >= 1 ? fraction : 1);
  price.updateElements += trained * (zero >= 1 ? fraction : 1);
  // Whole weights of this layer and the next one, and this one's gradient, in
  // the type of the weights, before it is sharded.
  if (fraction < 1)
    price.bufferBytes += weightBytes * ((zero >= 3 ? 2 : 0) +
                                        (zero >= 2 ? point.trainedShare : 0));
  ParamTraffic &traffic = !isExpert            ? price.dense
                          : point.expertsWhole ? price.whole
                                               : price.expert;
  traffic.gradients += gradientBytes;
  traffic.weights += trained * point.trainedWeightBytes;
  traffic.gathers += weightBytes;
  traffic.tensors += isExpert ? point.expertTensors : point.denseTensors;
  traffic.trained += isExpert ? point.expertTrained : point.denseTrained;
  // On GPUs its rows are added where the sum rests.
  bool isAddedUp =
      kind == embeddingOf(pricing.problem) &&
      pricing.problem.machine->device.target != BackendTarget::Cuda;
  double accumulate = accumulatedBytes(profile, pricing.outer.microBatches,
                                       isSharded, isAddedUp) *
                      trained * (isSharded ? fraction : 1) /
                      pricing.bytesPerSec;
  price.work.backwardSec += accumulate;
  price.work.weightGradientSec += accumulate;
}

/// The part of a layer's work that has an exchange of a micro-batch.
static double ChunkWork::*secOf(DataTime time) {
  switch (time) {
  case DataTime::Gradient:
    return &ChunkWork::gradientSec;
  case DataTime::ForwardGather:
    return &ChunkWork::forwardGatherSec;
  case DataTime::BackwardGather:
    return &ChunkWork::backwardGatherSec;
  case DataTime::ForwardMaxima:
    return &ChunkWork::forwardSec;
  default:
    return &ChunkWork::backwardSec;
  }
}

/// Programs shard a gradient over data ranks before tensor ranks sum it.
static double tensorSyncOf(const Pricing &pricing, const LayerPoint &point) {
  double sec = point.tensorSyncSec;
  if (!pricing.problem.profile.fused)
    return sec;
  for (auto [isExpert, sums] :
       {std::pair(false, point.denseSumSec), {true, point.expertSumSec}})
    sec -= sums * (1 - 1 / double(pricing.shards(isExpert, point)));
  return sec;
}

int search_detail::gathersOf(const SearchProblem &problem, int kind) {
  return isLayer(problem, kind) ? 2 : 1;
}

LayerPrice search_detail::priceOf(const Pricing &pricing, int kind,
                                  const LayerPoint &point) {
  const OuterChoice &outer = pricing.outer;
  LayerPrice price;
  price.gathers = gathersOf(pricing.problem, kind);
  price.work = computeOf(pricing, kind, point);
  // A value that collectives gather or reduce; one received and one that
  // leaves.
  int values = (outer.tp * outer.cp > 1 ? 1 : 0) + (outer.pp > 1 ? 2 : 0);
  price.bufferBytes = values * point.boundaryBytes;
  double dense = denseElementsOf(pricing, point);
  if (dense > 0)
    addState(price, pricing, kind, point, dense, false);
  if (point.expertElements > 0)
    addState(price, pricing, kind, point, point.expertElements, true);
  price.tensorSyncSec = tensorSyncOf(pricing, point);
  price.updateSec = point.updateSec;
  if (pricing.problem.profile.fused) {
    price.forwardMaxima = point.forwardMaxima;
    price.backwardMaxima = point.backwardMaxima;
  }
  visitLayerExchanges(pricing, price, [&](const DataExchange &exchange) {
    price.work.*secOf(exchange.time) += exchange.sec(pricing.memo);
  });
  return price;
}

void search_detail::visitLayerExchanges(const Pricing &pricing,
                                        const LayerPrice &price,
                                        VisitExchange visit) {
  int zero = pricing.outer.zero;
  const DataTime times[] = {DataTime::ForwardGather, DataTime::BackwardGather};
  auto gathers = llvm::ArrayRef(times).take_front(price.gathers);
  bool isFused = pricing.problem.profile.fused;
  auto calls = [&](double tensors) {
    return isFused ? std::max(1.0, tensors) : 1;
  };
  auto group = [&](const Groups &shard, const ParamTraffic &own) {
    if (zero >= 2)
      visit({DataTime::Gradient, CollectiveKind::ReduceScatter, &shard,
             own.gradients, calls(own.trained)});
    if (zero >= 3)
      for (DataTime time : gathers)
        visit({time, CollectiveKind::AllGather, &shard, own.gathers,
               calls(own.tensors)});
  };
  group(pricing.dense.shard, price.dense);
  group(pricing.expert.shard, price.expert);
  group(pricing.whole.shard, price.whole);
  for (auto [time, count] :
       {std::pair(DataTime::ForwardMaxima, price.forwardMaxima),
        {DataTime::BackwardMaxima, price.backwardMaxima}})
    if (count > 0)
      visit({time, CollectiveKind::AllReduce, &pricing.data, 4.0 * count,
             double(count)});
}

double LayerPrice::stageSec(const Profile &profile) const {
  double exposed = 1 - profile.weightOverlap;
  return std::max(work.forwardSec + exposed * work.forwardGatherSec,
                  work.forwardGatherSec) +
         std::max(work.backwardSec + exposed * work.backwardGatherSec,
                  work.backwardGatherSec) +
         (1 - profile.gradientOverlap) * work.gradientSec;
}

//===----------------------------------------------------------------------===//
// Once per step
//===----------------------------------------------------------------------===//

void search_detail::addOnce(LayerPrice &sum, const LayerPrice &layer,
                            double count) {
  sum.updateElements += count * layer.updateElements;
  sum.updateSec += count * layer.updateSec;
  sum.dense.add(layer.dense, count);
  sum.expert.add(layer.expert, count);
  sum.whole.add(layer.whole, count);
}

void search_detail::keepLeast(LayerPrice &least, const LayerPrice &price) {
  least.updateElements = std::min(least.updateElements, price.updateElements);
  least.updateSec = std::min(least.updateSec, price.updateSec);
  least.dense.keepLeast(price.dense);
  least.expert.keepLeast(price.expert);
  least.whole.keepLeast(price.whole);
}

double search_detail::callsOf(const Profile &profile, double tensors,
                              double bytes) {
  if (profile.fused)
    return std::max(1.0, tensors);
  double bucket = profile.bucketBytes;
  return bucket > 0 ? std::max(1.0, std::ceil(bytes / bucket)) : 1;
}

void search_detail::visitStepExchanges(const Pricing &pricing,
                                       const LayerPrice &sum,
                                       VisitExchange visit) {
  int zero = pricing.outer.zero;
  const Profile &profile = pricing.problem.profile;
  auto group = [&](const Replicas &replicas, const ParamTraffic &own) {
    auto calls = [&](double bytes) {
      return callsOf(profile, own.trained, bytes);
    };
    if (zero == 1)
      visit({DataTime::Sync, CollectiveKind::ReduceScatter, &replicas.shard,
             own.gradients, calls(own.gradients)});
    if (zero == 1 || zero == 2)
      visit({DataTime::Update, CollectiveKind::AllGather, &replicas.shard,
             own.weights, calls(own.weights)});
    double part = own.gradients / double(ranksOf(replicas.shard));
    visit({DataTime::Sync, CollectiveKind::AllReduce, &replicas.rest, part,
           calls(part)});
  };
  group(pricing.dense, sum.dense);
  group(pricing.expert, sum.expert);
  group(pricing.whole, sum.whole);
}

StepPrice search_detail::stepPrice(const Pricing &pricing,
                                   const LayerPrice &sum) {
  StepPrice price;
  visitStepExchanges(pricing, sum, [&](const DataExchange &exchange) {
    (exchange.time == DataTime::Sync ? price.gradientSyncSec
                                     : price.weightGatherSec) +=
        exchange.sec(pricing.memo);
  });
  price.updateSec = pricing.problem.profile.updateBytes * sum.updateElements /
                        pricing.bytesPerSec +
                    sum.updateSec;
  return price;
}
