//===- VerifyScheduled.cpp - does the order of calls make sense? ----------===//
//
// Replays each schedule: which buffers are written, and for which micro-batch a
// slot holds a value.
//
//===----------------------------------------------------------------------===//

#include "Messages.h"

#include "kerf/Schedule/Passes.h"

#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "kerf/Schedule/Passes.h.inc"
} // namespace kerf

namespace {
/// The state of the buffers while a schedule is replayed.
class Replay {
public:
  explicit Replay(spmd::ProgramOp program)
      : program(program), symbols(program) {}

  LogicalResult run(spmd::ScheduleOp schedule);

private:
  LogicalResult runCall(spmd::CallOp call);
  LogicalResult read(spmd::CallOp call, spmd::ReadOp op);
  void write(spmd::CallOp call, spmd::BufferOp buffer);
  int64_t slotOf(spmd::CallOp call, spmd::BufferOp buffer) {
    bool isSlot = buffer.getKind() == spmd::BufferKind::Slot;
    int64_t slots = program.getSlots();
    if (auto own = buffer->getAttrOfType<IntegerAttr>("slots"))
      slots = own.getInt();
    return isSlot ? call.getMicro().value_or(0) % slots : 0;
  }

  spmd::ProgramOp program;
  SymbolTable symbols;
  /// Micro-batch whose value a copy of a buffer holds; -1 for the step's.
  std::map<std::pair<Operation *, int64_t>, int64_t> holds;
  llvm::StringMap<llvm::SmallVector<int64_t>> called;
};
} // namespace

LogicalResult Replay::read(spmd::CallOp call, spmd::ReadOp op) {
  Operation *source = symbols.lookup(op.getSource());
  auto buffer = dyn_cast_or_null<spmd::BufferOp>(source);
  if (!buffer)
    return success();
  auto found = holds.find({buffer, slotOf(call, buffer)});
  if (found == holds.end())
    return call.emitOpError()
           << "reads @" << op.getSource() << ", which no call before it writes";
  bool isSlot = buffer.getKind() == spmd::BufferKind::Slot;
  if (isSlot && found->second != call.getMicro().value_or(0)) {
    auto diagnostic = call.emitOpError()
                      << "reads @" << op.getSource()
                      << ", whose slot holds micro-batch " << found->second;
    diagnostic.attachNote(program.getLoc())
        << "the program has " << program.getSlots()
        << " slots; forward of a micro-batch may run only when its slot is "
           "free";
    return diagnostic;
  }
  return success();
}

void Replay::write(spmd::CallOp call, spmd::BufferOp buffer) {
  if (buffer)
    holds[{buffer, slotOf(call, buffer)}] = call.getMicro().value_or(-1);
}

LogicalResult Replay::runCall(spmd::CallOp call) {
  auto func = symbols.lookup<spmd::FuncOp>(call.getCallee());
  auto &before = called[func.getCounted()];
  if (func.getContinues() && before.empty())
    return call.emitOpError() << "continues @" << func.getCounted()
                              << ", which no call before it begins";
  before.push_back(call.getMicro().value_or(-1));
  for (Operation &op : func.getBody().front()) {
    auto target = [&](llvm::StringRef name) {
      return symbols.lookup<spmd::BufferOp>(name);
    };
    if (auto access = dyn_cast<spmd::ReadOp>(op)) {
      if (failed(read(call, access)))
        return failure();
    } else if (auto access = dyn_cast<spmd::WriteOp>(op)) {
      write(call, target(access.getTarget()));
    } else if (auto access = dyn_cast<spmd::AccumulateOp>(op)) {
      write(call, target(access.getTarget()));
    }
  }
  return success();
}

LogicalResult Replay::run(spmd::ScheduleOp schedule) {
  for (spmd::CallOp call : schedule.getBody().getOps<spmd::CallOp>())
    if (failed(runCall(call)))
      return failure();
  for (auto &[name, micros] : called) {
    bool perStep = llvm::is_contained(micros, -1);
    llvm::SmallVector<int64_t> sorted(micros);
    llvm::sort(sorted);
    bool complete = perStep
                        ? micros.size() == 1
                        : int64_t(micros.size()) == program.getMicroBatches();
    for (size_t i = 0; complete && !perStep && i < sorted.size(); ++i)
      complete = sorted[i] == int64_t(i);
    if (!complete)
      return schedule.emitOpError()
             << "\"" << schedule.getName() << "\" expected one call of @"
             << name << " per micro-batch, or one for the step";
  }
  return success();
}

/// All stages come to the end of each schedule.
static LogicalResult checkMessages(const StagePrograms &programs) {
  if (programs.size() < 2)
    return success();
  spmd::ProgramOp first = programs.front();
  auto capacity = first->getAttrOfType<IntegerAttr>(kCapacityAttrName);
  for (spmd::ScheduleOp schedule : first.getBody().getOps<spmd::ScheduleOp>()) {
    std::string error;
    Operation *at = nullptr;
    if (succeeded(simulateMessages(programs, schedule.getName(),
                                   capacity ? capacity.getInt() : 1, error,
                                   at)))
      continue;
    return (at ? at : first.getOperation())->emitOpError()
           << "lets the stages of \"" << schedule.getName()
           << "\" wait for each other: " << error;
  }
  return success();
}

namespace {
struct VerifyScheduledPass
    : public kerf::impl::VerifyScheduledPassBase<VerifyScheduledPass> {
  void runOnOperation() override {
    for (spmd::ProgramOp program : getOperation().getOps<spmd::ProgramOp>()) {
      auto schedules = program.getBody().getOps<spmd::ScheduleOp>();
      if (schedules.empty()) {
        program.emitOpError("has no schedule; run 'kerf-order-micro-batches'");
        return signalPassFailure();
      }
      for (spmd::ScheduleOp schedule : schedules)
        if (failed(Replay(program).run(schedule)))
          return signalPassFailure();
    }
    for (const StagePrograms &programs : getPipelines(getOperation()))
      if (failed(checkMessages(programs)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
