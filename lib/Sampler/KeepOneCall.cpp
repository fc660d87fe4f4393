//===- KeepOneCall.cpp - the evaluation of one micro-batch ----------------===//

#include "kerf/Sampler/Sampler.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

/// Of the evaluation the calls for micro-batch 0 and those without one; of
/// training nothing.
static void keepCalls(spmd::ProgramOp program) {
  for (spmd::ScheduleOp schedule : llvm::make_early_inc_range(
           program.getBody().getOps<spmd::ScheduleOp>())) {
    if (schedule.getName() == "train") {
      schedule.erase();
      continue;
    }
    for (spmd::CallOp call :
         llvm::make_early_inc_range(schedule.getBody().getOps<spmd::CallOp>()))
      if (call.getMicro().value_or(0) > 0)
        call.erase();
  }
}

/// Erases symbols of a kind that nobody names.
template <typename Op> static void dropUnnamed(spmd::ProgramOp program) {
  for (Op op :
       llvm::make_early_inc_range(program.getBody().template getOps<Op>()))
    if (SymbolTable::symbolKnownUseEmpty(op, &program.getBody()))
      op.erase();
}

/// All that there is of an input is what a micro-batch had.
static void keepRows(spmd::InputOp input) {
  int64_t rank = input.getLocalType().getRank();
  Builder builder(input.getContext());
  llvm::SmallVector<Attribute> unsharded(rank, builder.getArrayAttr({}));
  input.setGlobalAttr(TypeAttr::get(input.getLocalType()));
  input.setShardedAttr(builder.getArrayAttr(unsharded));
}

/// The part of the first micro-batch, of a value that all of them have.
static void keepPart(spmd::SliceOwnOp op) {
  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(op.getResult().getType());
  llvm::SmallVector<int64_t> zeros(type.getRank(), 0);
  auto slice =
      SliceOp::create(builder, op.getLoc(), op.getX(), zeros, type.getShape());
  slice->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op.getResult().replaceAllUsesWith(slice.getResult());
  op.erase();
}

void kerf::keepOneCall(spmd::ProgramOp program) {
  keepCalls(program);
  dropUnnamed<spmd::FuncOp>(program);
  dropUnnamed<spmd::BufferOp>(program);
  for (spmd::InputOp input : program.getBody().getOps<spmd::InputOp>())
    keepRows(input);
  program.walk([](spmd::SliceOwnOp op) { keepPart(op); });
  program.setMicroBatches(1);
  program.setSlots(1);
  program->removeAttr(kPlanAttrName);
}
