//===- OrderMicroBatches.cpp - the order of calls in a step ---------------===//
//
// Problem: which function of which micro-batch a stage calls when, and how many
// micro-batches it holds at once.
//
// Idea: `stageOrder` of the cost model says it, so that what is planned is what
// runs. A chunk holds a micro-batch from its forward call to the last call that
// reads what forward has kept; forward and backward go through the
// micro-batches in one order, so copies are taken in turn.
//
//===----------------------------------------------------------------------===//

#include "Messages.h"
#include "Slots.h"

#include "kerf/Cost/Timeline.h"
#include "kerf/Dialect/Kerf/Chunks.h"
#include "kerf/Schedule/Passes.h"
#include "kerf/Support/Schedules.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kerf;

namespace kerf {
#define GEN_PASS_DEF_ORDERMICROBATCHESPASS
#include "kerf/Schedule/Passes.h.inc"
} // namespace kerf

namespace {
/// Appends calls to one schedule; functions that the program lacks are skipped.
class ScheduleWriter {
public:
  ScheduleWriter(spmd::ProgramOp program, llvm::StringRef name)
      : program(program),
        builder(OpBuilder::atBlockEnd(&program.getBody().front())) {
    auto schedule = spmd::ScheduleOp::create(builder, program.getLoc(), name);
    builder.setInsertionPointToEnd(&schedule.getBody().emplaceBlock());
  }

  void call(llvm::StringRef function) { call(function, IntegerAttr()); }
  void call(llvm::StringRef function, int64_t chunk, int64_t micro) {
    std::string name = function.str();
    if (chunk > 0)
      name += "_" + std::to_string(chunk);
    call(name, builder.getI64IntegerAttr(micro));
  }

private:
  void call(llvm::StringRef function, IntegerAttr micro) {
    if (SymbolTable::lookupSymbolIn(program, function))
      spmd::CallOp::create(builder, program.getLoc(), function, micro);
  }

  spmd::ProgramOp program;
  OpBuilder builder;
};
} // namespace

static llvm::StringRef functionOf(EventKind kind) {
  switch (kind) {
  case EventKind::Forward:
    return "forward";
  case EventKind::Backward:
    return "backward";
  default:
    return "weights";
  }
}

/// The fewest messages (a power of two) that channels must keep for all stages
/// to go on. Where no number suffices `kerf-verify-scheduled` says what is
/// wrong.
static void setCapacity(const StagePrograms &programs) {
  if (programs.size() < 2)
    return;
  auto suffices = [&](int64_t capacity) {
    std::string error;
    Operation *at = nullptr;
    return succeeded(
               simulateMessages(programs, "train", capacity, error, at)) &&
           succeeded(
               simulateMessages(programs, "evaluate", capacity, error, at));
  };
  spmd::ProgramOp first = programs.front();
  int64_t most = 1 << 16, capacity = 1;
  while (capacity < most && !suffices(capacity))
    capacity *= 2;
  OpBuilder builder(first.getContext());
  for (spmd::ProgramOp program : programs)
    program->setAttr(kCapacityAttrName, builder.getI64IntegerAttr(capacity));
}

static void orderTraining(spmd::ProgramOp program,
                          const Pipelining &pipelining) {
  ScheduleWriter schedule(program, "train");
  std::vector<Task> order = stageOrder(pipelining, program.getStage());
  schedule.call("prologue");
  for (const Task &task : order)
    schedule.call(functionOf(task.kind), task.chunk, task.microBatch);
  schedule.call("update");
  schedule.call("finish");
  setSlots(program);
}

/// The forward calls of training, in their order.
static void orderEvaluation(spmd::ProgramOp program,
                            const Pipelining &pipelining) {
  ScheduleWriter schedule(program, "evaluate");
  schedule.call("prologue");
  for (const Task &task : stageOrder(pipelining, program.getStage()))
    if (task.kind == EventKind::Forward)
      schedule.call("evaluate", task.chunk, task.microBatch);
  schedule.call("finish_evaluation");
}

namespace {
struct OrderMicroBatchesPass
    : public kerf::impl::OrderMicroBatchesPassBase<OrderMicroBatchesPass> {
  using OrderMicroBatchesPassBase::OrderMicroBatchesPassBase;

  void runOnOperation() override {
    if (!schedule.empty() && !scheduleNamed(schedule)) {
      mlir::emitError(getOperation().getLoc())
          << "unknown schedule '" << schedule << "', expected "
          << scheduleNames();
      return signalPassFailure();
    }
    for (spmd::ProgramOp program : getOperation().getOps<spmd::ProgramOp>()) {
      auto plan = program->getAttrOfType<PlanAttr>(kPlanAttrName);
      llvm::StringRef name = schedule;
      if (name.empty() && plan)
        name = plan.getSchedule();
      Pipelining pipelining = {
          scheduleNamed(name).value_or(ScheduleKind::OneFOneB),
          program.getStageCount(), program.getMicroBatches(),
          plan ? plan.getChunks() : 1, plan ? plan.getDefer() : kDeferAll};
      if (pipelining.schedule == ScheduleKind::Interleaved &&
          program.getMicroBatches() % program.getStageCount() != 0) {
        program.emitOpError()
            << "is interleaved with " << program.getMicroBatches()
            << " micro-batches over " << program.getStageCount()
            << " stages, expected a multiple of the stages";
        return signalPassFailure();
      }
      if (!program.getSchedule("train"))
        orderTraining(program, pipelining);
      if (!program.getSchedule("evaluate"))
        orderEvaluation(program, pipelining);
    }
    for (const StagePrograms &programs : getPipelines(getOperation()))
      setCapacity(programs);
  }
};
} // namespace
