//===- Machine.cpp - numbers of devices -----------------------------------===//

#include "kerf/Machine/Machine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cassert>

using namespace kerf;

int64_t Machine::devicesWithin(size_t tier) const {
  assert(tier < tiers.size() && "no such tier");
  int64_t devices = 1;
  for (size_t i = 0; i <= tier; ++i)
    devices *= tiers[i].size;
  return devices;
}

int64_t Machine::describedDevices() const {
  return tiers.empty() ? 1 : devicesWithin(tiers.size() - 1);
}

/// All divisors of `count`, ascending.
static llvm::SmallVector<int64_t> divisorsOf(int64_t count) {
  llvm::SmallVector<int64_t> small, large;
  for (int64_t i = 1; i * i <= count; ++i) {
    if (count % i != 0)
      continue;
    small.push_back(i);
    if (i * i != count)
      large.push_back(count / i);
  }
  small.append(large.rbegin(), large.rend());
  return small;
}

llvm::SmallVector<int64_t, 3> kerf::torusDims(int64_t count, size_t dims) {
  assert(count >= 1 && dims >= 1 && "a torus has units and dimensions");
  if (dims == 1)
    return {count};
  // The first divisor that bounds the best shape of the rest is the smallest
  // largest dimension that any shape has.
  for (int64_t largest : divisorsOf(count)) {
    llvm::SmallVector<int64_t, 3> rest = torusDims(count / largest, dims - 1);
    if (rest.front() > largest)
      continue;
    rest.insert(rest.begin(), largest);
    return rest;
  }
  assert(false && "count itself bounds a rest of ones");
  return {};
}

static void resize(Tier &tier, int64_t size) {
  if (tier.size == size)
    return;
  tier.size = size;
  if (tier.kind == TierKind::Torus)
    tier.dims = torusDims(size, tier.dims.size());
}

/// The figures of the ranks that now share a computer.
static void shareBy(Machine &machine) {
  int64_t ranks = machine.tiers.empty() ? 1 : machine.tiers.front().size;
  const SharedFigures *suited = nullptr;
  for (const SharedFigures &figures : machine.sharedBy)
    if (figures.ranks <= ranks)
      suited = &figures;
  if (!suited)
    return;
  machine.device.memoryBytesPerSec = suited->memoryBytesPerSec;
  machine.device.peak = suited->peak;
  machine.device.efficiency = suited->efficiency;
  if (suited->bytesPerSec > 0 && !machine.tiers.empty())
    machine.tiers.front().bytesPerSec = suited->bytesPerSec;
  if (suited->latencySec > 0 && !machine.tiers.empty())
    machine.tiers.front().latencySec = suited->latencySec;
}

Machine Machine::withDevices(int64_t count) const {
  assert(count >= 1 && "a machine has devices");
  Machine result = *this;
  int64_t units = count; // of the tier below, that are not connected yet
  for (Tier &tier : result.tiers) {
    bool isOutermost = &tier == &result.tiers.back();
    resize(tier, isOutermost ? units : std::min(tier.size, units));
    units = llvm::divideCeil(units, tier.size);
  }
  shareBy(result);
  return result;
}

Machine Machine::withDevicesSpread(int64_t count, int64_t perUnit) const {
  if (perUnit == 0)
    return withDevices(count);
  Machine spread = *this;
  resize(spread.tiers.front(), perUnit);
  return spread.withDevices(count);
}

/// Of `count` devices or fewer, three quarters at least, as many as make the
/// torus whose longest dimension is shortest; `count` where others are no
/// better, or where a torus is full.
static int64_t shortestTorus(int64_t count, const Tier &torus) {
  if (count > torus.size)
    return count;
  int64_t best = count;
  int64_t longest = torusDims(count, torus.dims.size()).front();
  for (int64_t other = count - 1; 4 * other >= 3 * count && other > 0; --other)
    if (int64_t own = torusDims(other, torus.dims.size()).front();
        own < longest) {
      best = other;
      longest = own;
    }
  return best;
}

std::vector<Placement> kerf::placementsOf(const Machine &described,
                                          int64_t count) {
  std::vector<Placement> placements = {
      {described.withDevices(count), count, 0}};
  if (described.device.shared || described.tiers.empty())
    return placements;
  auto add = [&](Machine machine, int64_t devices, int64_t perUnit) {
    bool isKnown = llvm::any_of(placements, [&](const Placement &known) {
      return known.machine == machine && known.devices == devices;
    });
    if (!isKnown && 4 * devices >= 3 * count)
      placements.push_back({std::move(machine), devices, perUnit});
  };
  const Tier &inner = described.tiers.front();
  if (inner.kind == TierKind::Torus)
    for (auto other : {static_cast<int64_t>(llvm::bit_floor(uint64_t(count))),
                       shortestTorus(count, inner)})
      add(described.withDevices(other), other, 0);
  if (count <= inner.size)
    return placements;
  int64_t whole = count / inner.size * inner.size;
  add(described.withDevices(whole), whole, 0);
  int64_t units = llvm::divideCeil(count, inner.size);
  auto each = static_cast<int64_t>(llvm::bit_floor(uint64_t(count / units)));
  if (each == inner.size)
    return placements;
  add(described.withDevicesSpread(each * units, each), each * units, each);
  return placements;
}

Machine Machine::perRank() const {
  Machine result = *this;
  if (!device.shared)
    return result;
  double ranks = tiers.empty() ? 1 : tiers.front().size;
  Device &own = result.device;
  own.shared = false;
  result.sharedBy.clear();
  own.memoryBytes /= ranks;
  for (double *part : {&own.reservedBytes, &own.contextBytes, &own.libraryBytes,
                       &own.connectionBytes})
    *part /= ranks;
  own.memoryBytesPerSec /= ranks;
  own.powerWatt /= ranks;
  for (auto &[type, flopPerSec] : own.peak)
    flopPerSec /= ranks;
  if (!tiers.empty())
    result.tiers.front().bytesPerSec /= ranks;
  if (result.host)
    result.host->bytesPerSec /= ranks;
  if (result.price)
    result.price->deviceHour /= ranks;
  return result;
}
