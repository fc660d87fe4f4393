#include "kerf/Schedule/Passes.h"

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
  void call(llvm::StringRef function, int64_t micro) {
    call(function, builder.getI64IntegerAttr(micro));
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

/// With one stage 1F1B is a forward, then its backward.
static void orderTraining(spmd::ProgramOp program, bool gpipe) {
  ScheduleWriter schedule(program, "train");
  int64_t count = program.getMicroBatches();
  schedule.call("prologue");
  for (int64_t m = 0; m < count; ++m) {
    schedule.call("forward", m);
    if (!gpipe)
      schedule.call("backward", m);
  }
  for (int64_t m = 0; gpipe && m < count; ++m)
    schedule.call("backward", m);
  schedule.call("update");
  program.setSlots(gpipe ? count : 1);
}

static void orderEvaluation(spmd::ProgramOp program) {
  ScheduleWriter schedule(program, "evaluate");
  schedule.call("prologue");
  for (int64_t m = 0; m < program.getMicroBatches(); ++m)
    schedule.call("evaluate", m);
}

namespace {
struct OrderMicroBatchesPass
    : public kerf::impl::OrderMicroBatchesPassBase<OrderMicroBatchesPass> {
  using OrderMicroBatchesPassBase::OrderMicroBatchesPassBase;

  void runOnOperation() override {
    if (!schedule.empty() && schedule != "1f1b" && schedule != "gpipe") {
      mlir::emitError(getOperation().getLoc())
          << "unknown schedule '" << schedule << "', expected 1f1b or gpipe";
      return signalPassFailure();
    }
    for (spmd::ProgramOp program : getOperation().getOps<spmd::ProgramOp>()) {
      auto plan = program->getAttrOfType<PlanAttr>(kPlanAttrName);
      llvm::StringRef kind = schedule;
      if (kind.empty() && plan)
        kind = plan.getSchedule();
      if (!program.getSchedule("train"))
        orderTraining(program, kind == "gpipe");
      if (!program.getSchedule("evaluate"))
        orderEvaluation(program);
    }
  }
};
} // namespace
