//===- SearchSpace.cpp - all outer choices --------------------------------===//
//
// Problem: list what may be chosen outside layers, nothing twice.
//
// Shapes are degrees and micro-batches; each has a few orders of its axes over
// the tiers, schedules, and ways to shard state. Data parallelism takes what
// the other degrees leave: the largest legal size and those down to half of it,
// so that clusters without a good factorisation keep spares.
//
//===----------------------------------------------------------------------===//

#include "SearchDetail.h"

#include "kerf/Search/Pins.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

using namespace kerf;
using namespace kerf::search_detail;

OuterChoice Shape::outer() const {
  OuterChoice choice;
  choice.tp = tp;
  choice.cp = cp;
  choice.ep = ep;
  choice.pp = pp;
  choice.dp = dp;
  choice.microBatch = microBatch;
  choice.microBatches = microBatches;
  return choice;
}

static std::vector<int64_t> divisorsOf(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d * d <= number; ++d)
    if (number % d == 0) {
      divisors.push_back(d);
      if (d * d != number)
        divisors.push_back(number / d);
    }
  llvm::sort(divisors);
  return divisors;
}

/// Divisors of `useful` and powers of two up to it, at most `devices`.
static std::vector<int64_t> degreesUpTo(int64_t useful, int64_t devices) {
  std::vector<int64_t> degrees = divisorsOf(useful);
  for (int64_t power = 1; power <= useful; power *= 2)
    degrees.push_back(power);
  llvm::erase_if(degrees, [&](int64_t d) { return d > devices; });
  llvm::sort(degrees);
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  return degrees;
}

std::vector<int64_t>
search_detail::tensorDegrees(const SearchProblem &problem) {
  const Machine &machine = *problem.machine;
  int64_t devices = machine.describedDevices();
  std::vector<int64_t> degrees = degreesUpTo(problem.maxTensor, devices);
  // More than there are heads leave some without work: small models may be ever
  // so little faster so.
  constexpr int64_t few = 16;
  for (int64_t power = 2; power <= std::min(few, devices); power *= 2)
    if (problem.maxTensor > 1)
      degrees.push_back(power);
  // What fills a part of the innermost tier: 3 and 6 of 6, 36 of 72.
  if (!machine.tiers.empty())
    for (int64_t d : divisorsOf(machine.tiers.front().size))
      if (d <= problem.maxTensor && d <= devices)
        degrees.push_back(d);
  llvm::sort(degrees);
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  return degrees;
}

std::vector<int64_t>
search_detail::contextDegrees(const SearchProblem &problem) {
  std::vector<int64_t> degrees =
      degreesUpTo(problem.maxContext, problem.machine->describedDevices());
  llvm::erase_if(degrees, [&](int64_t d) { return problem.sequence % d != 0; });
  return degrees;
}

std::vector<int64_t>
search_detail::expertDegrees(const SearchProblem &problem) {
  std::vector<int64_t> degrees = divisorsOf(problem.maxExpert);
  llvm::erase_if(degrees, [&](int64_t d) {
    return d > problem.machine->describedDevices();
  });
  return degrees;
}

namespace {
/// Lists shapes; divisors of the batch are worked out once.
struct ShapeLister {
  const SearchProblem &problem;
  int64_t devices, layers;
  std::vector<int64_t> batchDivisors;
  std::vector<Shape> shapes;

  bool allowed(const char *key, const std::vector<int64_t> &list,
               int64_t value) const {
    return allows(problem.pins, key, list, value);
  }
  /// Of the values those that pins allow; a value that is pinned alone is tried
  /// whether it makes sense or not.
  std::vector<int64_t> filtered(const char *key,
                                const std::vector<int64_t> &list,
                                std::vector<int64_t> values) const {
    if (list.size() == 1 && list[0] <= devices &&
        !llvm::is_contained(values, list[0]))
      values.push_back(list[0]);
    llvm::erase_if(values,
                   [&](int64_t value) { return !allowed(key, list, value); });
    return values;
  }
  std::vector<int64_t> dataDegrees(int64_t inner) const;
  void addBatches(const Shape &shape);
  void run();
};
} // namespace

/// Degrees of data parallelism beside `inner` ranks.
std::vector<int64_t> ShapeLister::dataDegrees(int64_t inner) const {
  const Pins &pins = problem.pins;
  std::vector<int64_t> degrees;
  for (int64_t d : batchDivisors)
    if (d * inner <= devices && allowed("dp", pins.dp, d) &&
        allowed("devices", pins.devices, d * inner))
      degrees.push_back(d);
  // A pin speaks for itself; else smaller ones only waste devices, but for the
  // smallest of models, which most ranks would hold up.
  constexpr int64_t few = 16;
  if (!degrees.empty() && pins.dp.empty() && pins.devices.empty()) {
    int64_t largest = degrees.back();
    llvm::erase_if(
        degrees, [&](int64_t d) { return 2 * d < largest && d * inner > few; });
  }
  return degrees;
}

void ShapeLister::addBatches(const Shape &base) {
  int64_t own = problem.batch / base.dp;
  for (int64_t size : batchDivisors) {
    if (size > own)
      break;
    if (own % size != 0 || !allowed("mb", problem.pins.microBatch, size) ||
        !allowed("m", problem.pins.microBatches, own / size))
      continue;
    Shape shape = base;
    shape.microBatch = size;
    shape.microBatches = own / size;
    shapes.push_back(shape);
  }
}

void ShapeLister::run() {
  const Pins &pins = problem.pins;
  batchDivisors = divisorsOf(problem.batch);
  std::vector<int64_t> stageDegrees;
  for (int64_t p = 1; p <= std::min(layers, devices); ++p)
    stageDegrees.push_back(p);
  if (!pins.stageLayers.empty())
    llvm::erase_if(stageDegrees, [&](int64_t p) {
      return p != static_cast<int64_t>(pins.stageLayers.size());
    });
  llvm::erase_if(stageDegrees,
                 [&](int64_t p) { return !allowed("pp", pins.pp, p); });
  std::vector<int64_t> experts =
      filtered("ep", pins.ep, expertDegrees(problem));
  std::vector<int64_t> contexts =
      filtered("cp", pins.cp, contextDegrees(problem));
  llvm::erase_if(contexts,
                 [&](int64_t cp) { return problem.sequence % cp != 0; });
  for (int64_t tp : filtered("tp", pins.tp, tensorDegrees(problem)))
    for (int64_t cp : contexts)
      for (int64_t pp : stageDegrees) {
        if (tp * cp * pp > devices)
          continue;
        for (int64_t dp : dataDegrees(tp * cp * pp))
          for (int64_t ep : experts)
            if (dp % ep == 0)
              addBatches({tp, cp, ep, pp, dp, 1, 1});
      }
}

std::vector<Shape> search_detail::shapesOf(const SearchProblem &problem) {
  ShapeLister lister{
      problem, problem.machine->describedDevices(), layersOf(problem), {}, {}};
  lister.run();
  return std::move(lister.shapes);
}

std::vector<std::vector<MeshAxis>>
search_detail::ordersOf(const SearchProblem &problem, const Shape &shape) {
  std::vector<MeshAxis> all = {MeshAxis::Tensor, MeshAxis::Context,
                               MeshAxis::Data, MeshAxis::Pipeline};
  if (!problem.pins.order.empty())
    return {problem.pins.order};
  OuterChoice outer = shape.outer();
  // Axes of one rank have no place: they come last.
  std::vector<MeshAxis> real, single;
  for (MeshAxis axis : all)
    (outer.sizeOf(axis) > 1 ? real : single).push_back(axis);
  std::vector<std::vector<MeshAxis>> orders;
  do {
    orders.push_back(real);
    llvm::append_range(orders.back(), single);
  } while (std::next_permutation(real.begin(), real.end()));
  return orders;
}

/// What ZB-H1 may defer, the least first: nothing, powers of four, or as much
/// as fills the bubble.
static std::vector<int64_t> deferralsOf(const Pins &pins, int64_t stages) {
  std::set<int64_t> limits;
  for (int64_t pinned : pins.defer)
    limits.insert(std::min(pinned, stages - 1));
  if (limits.empty()) {
    limits = {0, stages - 1};
    for (int64_t limit = 1; limit < stages - 1; limit *= 4)
      limits.insert(limit);
  }
  std::vector<int64_t> deferrals;
  for (int64_t limit : limits)
    if (allows(pins, "defer", {}, limit))
      deferrals.push_back(deferOf(limit, stages));
  return deferrals;
}

std::vector<Schedule> search_detail::schedulesOf(const SearchProblem &problem,
                                                 const Shape &shape) {
  const Pins &pins = problem.pins;
  auto wanted = [&](ScheduleKind kind) {
    return pins.schedules.empty() || llvm::is_contained(pins.schedules, kind);
  };
  bool oneChunk = allows(pins, "v", pins.chunks, 1);
  std::vector<Schedule> schedules;
  for (ScheduleKind kind :
       {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::ZeroBubble})
    // With one stage all of them are 1F1B.
    if (oneChunk && wanted(kind) &&
        (shape.pp > 1 || kind == ScheduleKind::OneFOneB ||
         !pins.schedules.empty()))
      for (int64_t defer : splitsWeightGradient(kind)
                               ? deferralsOf(pins, shape.pp)
                               : std::vector<int64_t>{kDeferAll})
        schedules.push_back({kind, 1, defer});
  if (shape.pp > 1 && wanted(ScheduleKind::Interleaved) &&
      shape.microBatches % shape.pp == 0)
    for (int64_t v = 2; v * shape.pp <= layersOf(problem); ++v)
      if (allows(pins, "v", pins.chunks, v))
        schedules.push_back({ScheduleKind::Interleaved, v, kDeferAll});
  return schedules;
}

std::vector<StateSharding>
search_detail::stateShardingsOf(const SearchProblem &problem,
                                const OuterChoice &outer) {
  const Pins &pins = problem.pins;
  int64_t all = outer.dp * outer.cp;
  std::vector<int64_t> groups = {all};
  for (size_t tier = 0; tier < problem.machine->tiers.size(); ++tier)
    groups.push_back(dataRanksWithin(*problem.machine, outer, tier));
  llvm::append_range(groups, pins.shardGroup);
  llvm::sort(groups, std::greater<>());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  llvm::erase_if(groups, [&](int64_t group) {
    return group > all || (group == 1 && all > 1) || !canShard(outer, group) ||
           !allows(pins, "shard", pins.shardGroup, group);
  });
  std::vector<StateSharding> shardings;
  if (allows(pins, "zero", pins.zero, 0))
    shardings.push_back({0, 1});
  for (int zero = 1; zero <= 3; ++zero)
    // Over one rank nothing is sharded, unless a pin says it in so many words.
    if (allows(pins, "zero", pins.zero, zero) &&
        (all > 1 || !pins.zero.empty()))
      for (int64_t group : groups)
        shardings.push_back({zero, group});
  return shardings;
}
