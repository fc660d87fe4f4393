//===- Block.cpp - blocks of threads and launches -------------------------===//

#include "Machine.h"
#include "Race.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace kerf::sim;

void kerf::sim::trap(const Warp &warp, int lane, Status status,
                     const std::string &text) {
  const Block &block = *warp.block;
  auto triple = [](uint32_t x, uint32_t y, uint32_t z) {
    return "(" + std::to_string(x) + "," + std::to_string(y) + "," +
           std::to_string(z) + ")";
  };
  uint32_t thread = warp.index * lanes + lane;
  const Extent &size = block.threads;
  std::string where = "kernel '" + block.entry->name + "', block " +
                      triple(block.index.x, block.index.y, block.index.z) +
                      ", thread " +
                      triple(thread % size.x, thread / size.x % size.y,
                             thread / size.x / size.y);
  if (block.current) {
    int line = block.current->line;
    where += ", line " + std::to_string(line);
    if (line > 0 && size_t(line) <= warp.program->lines.size())
      where += " '" + warp.program->lines[line - 1] + "'";
  }
  throw Trap{status, where + ": " + text};
}

/// Values of special registers that the block or the lane fixes.
static uint32_t specialValue(const Block &block, SpecialRegister which,
                             uint32_t thread) {
  const Extent &size = block.threads;
  uint32_t lane = thread % lanes, bit = 1u << lane;
  switch (which) {
  case SpecialRegister::TidX:
    return thread % size.x;
  case SpecialRegister::TidY:
    return thread / size.x % size.y;
  case SpecialRegister::TidZ:
    return thread / size.x / size.y;
  case SpecialRegister::NtidX:
    return size.x;
  case SpecialRegister::NtidY:
    return size.y;
  case SpecialRegister::NtidZ:
    return size.z;
  case SpecialRegister::CtaidX:
    return block.index.x;
  case SpecialRegister::CtaidY:
    return block.index.y;
  case SpecialRegister::CtaidZ:
    return block.index.z;
  case SpecialRegister::NctaidX:
    return block.grid.x;
  case SpecialRegister::NctaidY:
    return block.grid.y;
  case SpecialRegister::NctaidZ:
    return block.grid.z;
  case SpecialRegister::Laneid:
    return lane;
  case SpecialRegister::Warpid:
    return thread / lanes;
  case SpecialRegister::LanemaskEq:
    return bit;
  case SpecialRegister::LanemaskLt:
    return bit - 1;
  case SpecialRegister::LanemaskLe:
    return bit | (bit - 1);
  case SpecialRegister::LanemaskGt:
    return ~(bit | (bit - 1));
  case SpecialRegister::LanemaskGe:
    return ~(bit - 1);
  case SpecialRegister::Smid:
  case SpecialRegister::Zero:
  case SpecialRegister::Count:
    break;
  }
  return 0;
}

static void fillConstants(Warp &warp, const Entry &entry) {
  for (const Constant &constant : entry.constants)
    for (int lane = 0; lane < lanes; ++lane)
      if (constant.isDouble)
        reinterpret_cast<uint64_t *>(warp.registers + constant.slot)[lane] =
            constant.bits;
      else
        reinterpret_cast<uint32_t *>(warp.registers + constant.slot)[lane] =
            constant.bits;
}

static std::unique_ptr<Warp> makeWarp(Block &block, uint32_t index) {
  auto warp = std::make_unique<Warp>();
  const Entry &entry = *block.entry;
  warp->block = &block;
  warp->program = block.program;
  warp->index = index;
  warp->registerStore.assign(entry.registerBytes / 8 + 1, 0);
  warp->registers = reinterpret_cast<uint8_t *>(warp->registerStore.data());
  warp->predicateStore.assign(entry.predicates, 0);
  warp->predicates = warp->predicateStore.data();
  warp->predicates[truePredicate] = ~0u;
  fillConstants(*warp, entry);
  if (entry.hasMatrices) {
    warp->matrices = std::make_unique<WarpMatrices>();
    warp->matrices->registers.resize(entry.registerBytes / (lanes * 4));
  }
  return warp;
}

void Block::start() {
  std::fill(shared.begin(), shared.end(), 0xFF);
  std::fill(sharedWritten.begin(), sharedWritten.end(), 0);
  std::fill(local.begin(), local.end(), 0xFF);
  std::fill(std::begin(barriers), std::end(barriers), BlockBarrier());
  if (races)
    races->start(shared.size());
  if (proxy)
    proxy->start();
  warpgroups.assign(warpgroups.size(), {});
  for (auto &warp : warps) {
    uint32_t first = warp->index * lanes;
    uint32_t count = std::min<uint32_t>(lanes, threadCount - first);
    warp->live = count == lanes ? ~0u : (1u << count) - 1;
    warp->atBarrier = warp->waiting = 0;
    warp->epoch = 1;
    warp->known.fill(0);
    if (warp->matrices)
      warp->matrices->start();
    warp->copies.clear();
    for (int lane = 0; lane < lanes; ++lane) {
      warp->place[lane] = entry->begin;
      warp->returns[lane].clear();
      warp->copyGroup[lane] = 0;
    }
    for (auto [slot, which] : entry->specials)
      for (int lane = 0; lane < lanes; ++lane)
        reinterpret_cast<uint32_t *>(warp->registers + slot)[lane] =
            specialValue(*this, which, first + lane);
  }
}

/// Lanes of `warp` at barrier `number`.
static uint32_t lanesAt(const Warp &warp, int number) {
  uint32_t result = 0;
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.atBarrier >> lane & 1 && warp.barrier[lane] == number)
      result |= 1u << lane;
  return result;
}

/// What was done before arrivals that `from` knows of is over for `to`.
static void learn(Arrivals &to, const Arrivals &from) {
  for (int warp = 0; warp < mostWarps; ++warp)
    to[warp] = std::max(to[warp], from[warp]);
}

void Block::arrive(Warp &warp, uint32_t here, int number) {
  BlockBarrier &barrier = barriers[number];
  auto fail = [&](const std::string &text) {
    trap(warp, __builtin_ctz(here), LaunchFailed,
         "barrier " + std::to_string(number) + text);
  };
  uint32_t wanted = current->offset ? current->offset : threadCount;
  if (barrier.isComplete())
    release(number);
  if (!barrier.arrived)
    barrier.wanted = wanted;
  if (wanted != barrier.wanted)
    fail(" is one of " + std::to_string(wanted) + " threads here and of " +
         std::to_string(barrier.wanted) + " elsewhere");
  if (barrier.passing >> warp.index & 1)
    fail(": the warp has arrived there before and the barrier is not complete");
  barrier.arrived += __builtin_popcount(here);
  if (!current->mode) { // does not wait
    if (here != warp.live)
      fail(": a part of the warp arrives without waiting");
    barrier.passing |= 1u << warp.index;
    ++warp.known[warp.index];
    learn(barrier.known, warp.known);
  }
}

/// Lets the threads of every complete barrier go on. True if there was one.
bool Block::releaseAll() {
  bool any = false;
  for (int number = 0; number < int(std::size(barriers)); ++number)
    if (barriers[number].isComplete()) {
      release(number);
      any = true;
    }
  return any;
}

/// Lets the threads of a complete barrier go on.
void Block::release(int number) {
  BlockBarrier &barrier = barriers[number];
  ++statistics.barriers;
  for (auto &warp : warps) {
    uint32_t here = lanesAt(*warp, number);
    if (!here)
      continue;
    uint32_t first = warp->place[__builtin_ctz(here)];
    for (int lane = 0; lane < lanes; ++lane)
      if (here >> lane & 1 && warp->place[lane] != first) {
        current = &program->code[first];
        trap(*warp, lane, LaunchFailed,
             "barrier divergence: lanes of the warp are at another barrier");
      }
    if (here != warp->live)
      trap(*warp, __builtin_ctz(here), LaunchFailed,
           "barrier divergence: other lanes of the warp are not there");
    ++warp->known[warp->index];
    learn(barrier.known, warp->known);
  }
  for (auto &warp : warps)
    if (uint32_t here = lanesAt(*warp, number)) {
      learn(warp->known, barrier.known);
      for (int lane = 0; lane < lanes; ++lane)
        warp->place[lane] += here >> lane & 1;
      warp->atBarrier &= ~here;
      ++warp->epoch;
    }
  barrier = BlockBarrier();
}

/// Whoever arrived at a barrier was waited for.
void Block::requireComplete() {
  for (BlockBarrier &barrier : barriers)
    if (barrier.arrived)
      trap(*warps[__builtin_ctz(barrier.passing)], 0, LaunchFailed,
           "the block ends and " + std::to_string(barrier.arrived) + " of " +
               std::to_string(barrier.wanted) +
               " threads have arrived at barrier " +
               std::to_string(&barrier - barriers));
}

/// Says who waits for whom.
void Block::deadlock() {
  uint32_t atBarrier = 0, waiting = 0, ended = 0;
  const Warp *who = nullptr;
  int lane = 0;
  for (auto &warp : warps) {
    atBarrier += __builtin_popcount(warp->atBarrier);
    waiting += __builtin_popcount(warp->waiting);
    ended += lanes - __builtin_popcount(warp->live);
    if (uint32_t stuck = warp->waiting ? warp->waiting : warp->atBarrier;
        stuck && (!who || warp->waiting)) {
      who = warp.get();
      lane = __builtin_ctz(stuck);
    }
  }
  ended -= warps.size() * lanes - threadCount;
  current = &program->code[who->place[lane]];
  trap(*who, lane, LaunchFailed,
       std::string(waiting ? "deadlock of lanes: " : "barrier divergence: ") +
           std::to_string(atBarrier) + " threads wait at barriers, " +
           std::to_string(waiting) + " for lanes of their warp, " +
           std::to_string(ended) + " have ended");
}

static bool isReversed() {
  const char *text = getenv("KERF_SIM_ORDER");
  return text && strcmp(text, "reverse") == 0;
}

void Block::run() {
  start();
  bool reversed = isReversed();
  for (;;) {
    bool moved = false, alive = false;
    for (size_t at = 0; at < warps.size(); ++at) {
      Warp &warp = *warps[reversed ? warps.size() - 1 - at : at];
      moved |= warp.run();
      alive |= warp.live != 0;
    }
    if (!alive) {
      releaseAll();
      requireComplete();
      if (proxy)
        endWarpgroups(*this);
      return;
    }
    if (!releaseAll() && !moved)
      deadlock();
  }
}

void kerf::sim::checkLaunch(const Entry &entry, Extent grid, Extent threads,
                            uint64_t sharedBytes) {
  auto refuse = [&](const std::string &text) {
    throw Trap{LaunchOutOfResources, "kernel '" + entry.name + "': " + text};
  };
  if (!grid.count() || grid.y > 65535 || grid.z > 65535 || grid.x > 0x7FFFFFFF)
    throw Trap{InvalidValue, "kernel '" + entry.name +
                                 "': a grid has 1..2147483647 x "
                                 "1..65535 x 1..65535 blocks"};
  if (!threads.count() || threads.count() > 1024 || threads.z > 64)
    throw Trap{InvalidValue,
               "kernel '" + entry.name + "': a block has 1..1024 threads"};
  if (sharedBytes > 227 * 1024)
    refuse(std::to_string(sharedBytes) + " bytes of shared memory");
  if (entry.maxThreads[0] && threads.count() > uint64_t(entry.maxThreads[0]) *
                                                   entry.maxThreads[1] *
                                                   entry.maxThreads[2])
    refuse("more threads than its .maxntid allows");
  const uint32_t *required = entry.requiredThreads;
  if (required[0] && (threads.x != required[0] || threads.y != required[1] ||
                      threads.z != required[2]))
    refuse("other threads than its .reqntid demands");
}

static uint64_t instructionLimit() {
  const char *text = getenv("KERF_SIM_LIMIT");
  uint64_t limit = text ? strtoull(text, nullptr, 10) : 0;
  return limit ? limit : 2'000'000'000ull;
}

Statistics kerf::sim::launch(const Program &program, const Entry &entry,
                             Extent grid, Extent threads,
                             uint32_t dynamicShared,
                             std::vector<uint8_t> params, bool countAccesses) {
  uint64_t sharedBytes = uint64_t(entry.sharedBytes) + dynamicShared;
  checkLaunch(entry, grid, threads, sharedBytes);
  static uint64_t launches = 0;
  Block block;
  block.program = &program;
  block.entry = &entry;
  block.grid = grid;
  block.threads = threads;
  block.threadCount = threads.count();
  block.params = std::move(params);
  block.countAccesses = countAccesses;
  block.races = raceCheck();
  if (block.races)
    block.races->launch = ++launches;
  uint64_t limit = instructionLimit();
  block.shared.resize(sharedBytes);
  block.sharedWritten.resize(sharedBytes);
  uint32_t warps = (block.threadCount + lanes - 1) / lanes;
  block.local.resize(uint64_t(entry.localBytes) * warps * lanes);
  for (uint32_t index = 0; index < warps; ++index)
    block.warps.push_back(makeWarp(block, index));
  if (entry.hasMatrices) {
    block.proxy = std::make_unique<AsyncProxy>(sharedBytes, warps * lanes);
    block.warpgroups.resize((warps + warpsOfGroup - 1) / warpsOfGroup);
  }
  bool reversed = isReversed();
  for (uint64_t at = 0, count = grid.count(); at < count; ++at) {
    block.number = reversed ? count - 1 - at : at;
    block.index = {uint32_t(block.number % grid.x),
                   uint32_t(block.number / grid.x % grid.y),
                   uint32_t(block.number / grid.x / grid.y)};
    block.instructionLimit = block.statistics.warpInstructions + limit;
    block.run();
  }
  return block.statistics;
}
