//===- Layout.cpp - when buffers live and where they are placed -----------===//
//
// A buffer of a function is used from its first to its last access there; what
// crosses the iterations of a layer loop, or the loop's border, is used through
// the loop, else from command to command: a loop counts once, since each
// iteration reuses what the one before used. How uses become lives over the
// calls of a step is in `Lives.cpp`.
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

#include "kerf/Memory/Lives.h"

using namespace mlir;
using namespace kerf;

namespace {
/// Accesses of one function to one buffer, in commands of the function.
struct Access {
  int64_t first = -1, last = -1;
  bool isUsed() const { return first >= 0; }
};
} // namespace

/// Commands [first, last] of each loop of a function.
static std::vector<Access> loopRanges(const FuncUses &func) {
  std::vector<Access> ranges;
  for (auto [at, command] : llvm::enumerate(func.commands)) {
    if (command.loop < 0)
      continue;
    if (command.loop >= std::ssize(ranges))
      ranges.resize(command.loop + 1);
    Access &range = ranges[command.loop];
    if (!range.isUsed())
      range.first = at;
    range.last = at;
  }
  return ranges;
}

/// What a function uses of each of `count` buffers.
static std::vector<Access> scan(const FuncUses &func, size_t count) {
  std::vector<Access> all(count);
  std::vector<Access> ranges = loopRanges(func);
  // The loop that holds all accesses so far, -1: none or several.
  std::vector<int64_t> loopOf(count, -2);
  std::vector<bool> readFirst(count, false);
  auto see = [&](unsigned buffer, int64_t at) {
    Access &access = all[buffer];
    access.first = access.isUsed() ? std::min(access.first, at) : at;
    access.last = std::max(access.last, at);
  };
  for (auto [at, command] : llvm::enumerate(func.commands)) {
    // Reads first: a command may read and write one buffer.
    for (int64_t kind : {KERF_READ, KERF_WRITE})
      for (const BufferUse &use : command.uses) {
        if (!(use.access & kind))
          continue;
        unsigned buffer = use.buffer;
        if (loopOf[buffer] == -2) {
          loopOf[buffer] = command.loop;
          readFirst[buffer] = kind == KERF_READ;
        } else if (loopOf[buffer] != command.loop) {
          loopOf[buffer] = -1;
        }
        // What moves with the iteration is a stack: it lives through the loop.
        if (use.moves)
          readFirst[buffer] = true;
        see(buffer, at);
      }
  }
  // Whole loops, where a value crosses iterations or the loop's border.
  for (const FuncUses::Command &command : func.commands) {
    if (command.loop < 0)
      continue;
    for (const BufferUse &use : command.uses)
      if (loopOf[use.buffer] != command.loop || readFirst[use.buffer]) {
        see(use.buffer, ranges[command.loop].first);
        see(use.buffer, ranges[command.loop].last);
      }
  }
  return all;
}

static LifeScope scopeOf(const Buffer &buffer) {
  switch (buffer.scope) {
  case BufferScope::Slot:
    return LifeScope::MicroBatch;
  case BufferScope::Step:
    return LifeScope::Step;
  default:
    return LifeScope::Call;
  }
}

static LifeProblem describeLives(exec::ProgramOp program,
                                 llvm::ArrayRef<Buffer> buffers,
                                 llvm::ArrayRef<FuncUses> funcs) {
  LifeProblem problem;
  for (const Buffer &buffer : buffers)
    problem.buffers.push_back(scopeOf(buffer));
  llvm::StringMap<unsigned> numbers;
  for (const FuncUses &func : funcs) {
    numbers[func.name] = problem.funcs.size();
    LifeProblem::Func &uses = problem.funcs.emplace_back();
    uses.commands = func.commands.size();
    for (auto [i, access] : llvm::enumerate(scan(func, buffers.size())))
      if (access.isUsed() && buffers[i].scope != BufferScope::Always)
        uses.uses.push_back({unsigned(i), access.first, access.last});
  }
  unsigned index = 0;
  for (auto schedule : program.getBody().getOps<exec::ScheduleOp>()) {
    for (auto call : schedule.getBody().getOps<exec::CallOp>())
      problem.calls.push_back({numbers.lookup(call.getCallee()),
                               static_cast<int64_t>(call.getMicro()), index});
    ++index;
  }
  return problem;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// No copy may hold two micro-batches at one time.
static LogicalResult checkSlots(exec::ProgramOp program,
                                llvm::ArrayRef<Buffer> buffers,
                                const LifeProblem &problem) {
  std::vector<int64_t> copies;
  for (const Buffer &buffer : buffers)
    copies.push_back(buffer.copies);
  std::optional<Crowd> crowd = findCrowd(problem, copies);
  if (!crowd)
    return success();
  const Buffer &buffer = buffers[crowd->buffer];
  return program.emitOpError()
         << "has " << buffer.copies << " slots of @" << buffer.name
         << ", but micro-batches " << crowd->first << " and " << crowd->second
         << " would be in one of them at one time";
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

namespace {
/// What is placed, and which buffers these are.
struct Items {
  PlaceProblem problem;
  std::vector<unsigned> buffers;
};
} // namespace

/// Buffers that are used, with their lives, which the layout gets too.
static Items collectItems(llvm::ArrayRef<Buffer> buffers,
                          const LifeProblem &lives, ArenaLayout &layout) {
  Items items;
  items.problem.alignment = KERF_ARENA_ALIGN;
  layout.lives = findLives(lives);
  int64_t end = 1;
  for (llvm::ArrayRef<LifeInterval> all : layout.lives)
    if (!all.empty())
      end = std::max(end, all.back().second + 1);
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    PlaceProblem::Buffer item;
    item.name = buffer.name;
    item.sizeBytes = buffer.scope == BufferScope::Slot
                         ? buffer.slotStride() * buffer.copies
                         : std::max<int64_t>(1, buffer.bytes);
    item.lives = layout.lives[i];
    if (buffer.scope == BufferScope::Always)
      item.lives = {{0, end - 1}};
    if (item.lives.empty())
      continue;
    items.buffers.push_back(i);
    items.problem.buffers.push_back(std::move(item));
  }
  return items;
}

FailureOr<ArenaLayout> kerf::layOut(exec::ProgramOp program,
                                    llvm::ArrayRef<Buffer> buffers,
                                    llvm::ArrayRef<FuncUses> funcs) {
  LifeProblem lives = describeLives(program, buffers, funcs);
  if (failed(checkSlots(program, buffers, lives)))
    return failure();
  ArenaLayout layout;
  layout.offsets.assign(buffers.size(), -1);
  Items items = collectItems(buffers, lives, layout);
  const PlaceProblem &problem = items.problem;
  std::string error;
  if (failed(problem.check(error)))
    return program.emitOpError() << "cannot be placed in memory: " << error;
  Placement placement = place(problem);
  if (failed(placement.verify(problem, error)))
    return program.emitOpError() << "was placed wrongly: " << error;
  for (auto [buffer, offset] : llvm::zip(items.buffers, placement.offsets))
    layout.offsets[buffer] = offset;
  layout.sizeBytes = std::max<int64_t>(KERF_ARENA_ALIGN, placement.sizeBytes);
  layout.lowerBoundBytes = llvm::alignTo(lowerBound(problem), KERF_ARENA_ALIGN);
  for (int c = 0; c < KERF_CLASS_COUNT; ++c)
    layout.classBytes.push_back(peakOf(problem, [&](size_t i) {
      return buffers[items.buffers[i]].bufferClass == c;
    }));
  return layout;
}
