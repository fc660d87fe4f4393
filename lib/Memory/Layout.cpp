//===- Layout.cpp - when buffers live -------------------------------------===//
//
// Time counts the commands of the unrolled schedule; a layer loop counts once,
// since each iteration reuses what the one before used. A buffer lives from its
// first to its last access in
//
//   function scope: each call; inside a loop only, if every iteration writes
//                   it before reading it, else the whole loop
//   slot scope:     the calls of one micro-batch
//   step scope:     the calls of a step
//
// Calls whose interplay repeats (the same functions in the same order with as
// many slots in use) are counted once: see `relevantCalls`.
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

using namespace mlir;
using namespace kerf;

namespace {
/// Accesses of one function to one buffer, in commands of the function.
struct Access {
  int64_t first = -1, last = -1;
  bool isUsed() const { return first >= 0; }
};

/// A call at a time.
struct TimedCall {
  unsigned func;
  int64_t micro;
  int64_t start;
  unsigned schedule;
};

struct LifeBuilder {
  const StorageMap &map;
  llvm::ArrayRef<PlannedFunc> funcs;
  /// Per function and buffer.
  std::vector<std::vector<Access>> accesses;
  std::vector<TimedCall> calls;
  int64_t end = 0;

  void scan(unsigned func);
  void schedule(spmd::ProgramOp program);
  llvm::SmallVector<LifeInterval> livesOf(unsigned buffer) const;
};
} // namespace

/// Commands [first, last] of each loop of a function.
static std::vector<Access> loopRanges(const PlannedFunc &func) {
  std::vector<Access> ranges(func.loops.size());
  for (auto [at, command] : llvm::enumerate(func.commands)) {
    if (command.loop < 0)
      continue;
    Access &range = ranges[command.loop];
    if (!range.isUsed())
      range.first = at;
    range.last = at;
  }
  return ranges;
}

void LifeBuilder::scan(unsigned index) {
  const PlannedFunc &func = funcs[index];
  std::vector<Access> &all = accesses[index];
  all.resize(map.buffers.size());
  std::vector<Access> ranges = loopRanges(func);
  // The loop that holds all accesses so far, -1: none or several.
  std::vector<int64_t> loopOf(map.buffers.size(), -2);
  std::vector<bool> readFirst(map.buffers.size(), false);
  auto see = [&](unsigned buffer, int64_t at) {
    Access &access = all[buffer];
    access.first = access.isUsed() ? std::min(access.first, at) : at;
    access.last = std::max(access.last, at);
  };
  for (auto [at, command] : llvm::enumerate(func.commands)) {
    // Reads first: a command may read and write one buffer.
    for (int64_t kind : {KERF_READ, KERF_WRITE})
      for (const PlannedOperand &operand : command.operands) {
        if (operand.buffer < 0 || operand.access != kind)
          continue;
        unsigned buffer = operand.buffer;
        if (loopOf[buffer] == -2) {
          loopOf[buffer] = command.loop;
          readFirst[buffer] = kind == KERF_READ;
        } else if (loopOf[buffer] != command.loop) {
          loopOf[buffer] = -1;
        }
        // What moves with the iteration is a stack: it lives through the loop.
        if (operand.iter != 0)
          readFirst[buffer] = true;
        see(buffer, at);
      }
  }
  // Whole loops, where a value crosses iterations or the loop's border.
  for (const PlannedCommand &command : func.commands) {
    if (command.loop < 0)
      continue;
    for (const PlannedOperand &operand : command.operands) {
      if (operand.buffer < 0)
        continue;
      unsigned buffer = operand.buffer;
      if (loopOf[buffer] != command.loop || readFirst[buffer]) {
        see(buffer, ranges[command.loop].first);
        see(buffer, ranges[command.loop].last);
      }
    }
  }
}

/// Drops calls in the middle of long schedules: with s slots in use, what
/// overlaps repeats after s + 1 micro-batches of the same function.
static std::vector<spmd::CallOp>
relevantCalls(spmd::ScheduleOp schedule, int64_t slots, int64_t microBatches) {
  std::vector<spmd::CallOp> calls;
  for (auto call : schedule.getBody().getOps<spmd::CallOp>()) {
    int64_t micro = call.getMicro().value_or(0);
    if (slots < microBatches && micro > slots + 1 && micro < microBatches - 1)
      continue;
    calls.push_back(call);
  }
  return calls;
}

void LifeBuilder::schedule(spmd::ProgramOp program) {
  unsigned index = 0;
  for (auto schedule : program.getBody().getOps<spmd::ScheduleOp>()) {
    for (spmd::CallOp call : relevantCalls(schedule, program.getSlots(),
                                           program.getMicroBatches())) {
      unsigned func = 0;
      while (funcs[func].name != call.getCallee())
        ++func;
      calls.push_back({func, call.getMicro().value_or(0), end, index});
      end += std::max<int64_t>(1, funcs[func].commands.size());
    }
    ++index;
  }
}

/// Joins intervals that touch.
static llvm::SmallVector<LifeInterval>
normalize(llvm::SmallVector<LifeInterval> lives) {
  llvm::sort(lives);
  llvm::SmallVector<LifeInterval> joined;
  for (LifeInterval life : lives) {
    if (!joined.empty() && life.first <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, life.second);
    else
      joined.push_back(life);
  }
  return joined;
}

llvm::SmallVector<LifeInterval> LifeBuilder::livesOf(unsigned buffer) const {
  BufferScope scope = map.buffers[buffer].scope;
  // What one life spans: a call, a micro-batch of a schedule, a schedule.
  llvm::MapVector<std::pair<int64_t, int64_t>, LifeInterval> spans;
  for (auto [index, call] : llvm::enumerate(calls)) {
    const Access &access = accesses[call.func][buffer];
    if (!access.isUsed())
      continue;
    std::pair<int64_t, int64_t> key = {call.schedule, -1};
    if (scope == BufferScope::Slot)
      key.second = call.micro;
    if (scope == BufferScope::Function)
      key = {-1, index};
    LifeInterval life = {call.start + access.first, call.start + access.last};
    auto [at, isNew] = spans.insert({key, life});
    if (!isNew) {
      at->second.first = std::min(at->second.first, life.first);
      at->second.second = std::max(at->second.second, life.second);
    }
  }
  llvm::SmallVector<LifeInterval> lives;
  for (auto &[key, life] : spans)
    lives.push_back(life);
  return normalize(lives);
}

//===----------------------------------------------------------------------===//
// Placing
//===----------------------------------------------------------------------===//

/// Largest sum of the sizes of a class at one time.
static int64_t peakOf(const PlaceProblem &problem,
                      llvm::function_ref<bool(size_t)> belongs) {
  std::vector<std::pair<int64_t, int64_t>> events;
  for (auto [i, buffer] : llvm::enumerate(problem.buffers)) {
    if (!belongs(i))
      continue;
    int64_t bytes = placedBytes(problem, buffer.sizeBytes);
    for (auto [first, last] : buffer.lives) {
      events.push_back({first, bytes});
      events.push_back({last + 1, -bytes});
    }
  }
  llvm::sort(events);
  int64_t now = 0, peak = 0;
  for (auto [time, change] : events)
    peak = std::max(peak, now += change);
  return peak;
}

FailureOr<ArenaLayout> kerf::layOut(spmd::ProgramOp program,
                                    const StorageMap &map,
                                    llvm::ArrayRef<PlannedFunc> funcs) {
  LifeBuilder builder{map, funcs, {}, {}, 0};
  builder.accesses.resize(funcs.size());
  for (unsigned i = 0; i < funcs.size(); ++i)
    builder.scan(i);
  builder.schedule(program);

  PlaceProblem problem;
  problem.alignment = KERF_ARENA_ALIGN;
  std::vector<unsigned> placed;
  ArenaLayout layout;
  layout.offsets.assign(map.buffers.size(), -1);
  layout.lives.resize(map.buffers.size());
  layout.slotStrides.assign(map.buffers.size(), 0);
  int64_t end = std::max<int64_t>(1, builder.end);
  for (auto [i, buffer] : llvm::enumerate(map.buffers)) {
    PlaceProblem::Buffer item;
    item.name = buffer.name;
    item.sizeBytes = std::max<int64_t>(1, buffer.bytes);
    if (buffer.scope == BufferScope::Slot) {
      layout.slotStrides[i] = llvm::alignTo(item.sizeBytes, KERF_ARENA_ALIGN);
      item.sizeBytes = layout.slotStrides[i] * program.getSlots();
    }
    if (buffer.scope == BufferScope::Always) {
      item.lives = {{0, end - 1}};
    } else {
      item.lives = builder.livesOf(i);
      if (item.lives.empty())
        continue;
      layout.lives[i].assign(item.lives.begin(), item.lives.end());
    }
    placed.push_back(i);
    problem.buffers.push_back(std::move(item));
  }
  std::string error;
  if (failed(problem.check(error)))
    return program.emitOpError() << "cannot be placed in memory: " << error;
  Placement placement = place(problem);
  if (failed(placement.verify(problem, error)))
    return program.emitOpError() << "was placed wrongly: " << error;
  for (auto [i, buffer] : llvm::enumerate(placed))
    layout.offsets[buffer] = placement.offsets[i];
  layout.sizeBytes = std::max<int64_t>(KERF_ARENA_ALIGN, placement.sizeBytes);
  layout.lowerBoundBytes = llvm::alignTo(lowerBound(problem), KERF_ARENA_ALIGN);
  for (int c = 0; c < KERF_CLASS_COUNT; ++c)
    layout.classBytes.push_back(peakOf(problem, [&](size_t i) {
      return map.buffers[placed[i]].bufferClass == c;
    }));
  return layout;
}
