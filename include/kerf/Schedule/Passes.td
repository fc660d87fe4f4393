//===- Passes.td - order of calls -----------------------------------------===//

#ifndef KERF_SCHEDULE_PASSES_TD
#define KERF_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def OrderMicroBatchesPass : Pass<"kerf-order-micro-batches", "::mlir::ModuleOp"> {
  let summary = "Write the calls of a step in order";
  let description = [{
    The schedule "train": prologue, then forward and backward of each micro-batch
    (`1f1b`, one slot) or all forwards before all backwards (`gpipe`, one slot per
    micro-batch), then update. The schedule "evaluate": prologue, then evaluate of
    each micro-batch. Functions that a program lacks are left out. Schedules that
    are there are kept.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"\"",
           "1f1b or gpipe (default: what the program says, else 1f1b)">,
  ];
}

def VerifyScheduledPass : Pass<"kerf-verify-scheduled", "::mlir::ModuleOp"> {
  let summary = "Check the contract of schedule";
  let description = [{
    Every program has a schedule "train" or "evaluate"; in each, functions of a
    micro-batch are called once for every one, every buffer is written before it
    is read, and a slot is not written for another micro-batch while it is still
    to be read.
  }];
}

#endif // KERF_SCHEDULE_PASSES_TD
