//===- Passes.td - order of calls -----------------------------------------===//

#ifndef KERF_SCHEDULE_PASSES_TD
#define KERF_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def OrderMicroBatchesPass : Pass<"kerf-order-micro-batches", "::mlir::ModuleOp"> {
  let summary = "Write the calls of a step in order";
  let description = [{
    The schedule "train": prologue, forward and backward of each micro-batch and
    chunk in the order that was costed (`stageOrder` in kerf/Cost/Timeline.h),
    update, and what all stages do at the end. The schedule "evaluate": the same
    with evaluate instead of forward. Functions that a program lacks are left out.
    Schedules that are there are kept. Slot buffers get as many copies as
    micro-batches are in flight in their chunk, channels keep as many messages as
    let all stages go on.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"\"",
           "gpipe, 1f1b, interleaved or zb-h1 (default: what the program says, else 1f1b)">,
  ];
}

def OverlapCollectivesPass : Pass<"kerf-overlap-collectives", "::mlir::ModuleOp"> {
  let summary = "Start collectives early and wait for them late";
  let description = [{
    Collectives of a function, or of the body of a repeat, come in the order in
    which their operands are made; one is under way at a time. Each starts as soon as its operand is there and the one
    before is done, gathers of parameters therefore ahead of their use, and is
    waited for (`spmd.wait`) where its result is read first or the next one
    starts, and before a loop: a repeat, or an update that goes by layers (Muon).
    Where nothing would be computed in between it stays as it is.
  }];
}

def BucketGradientsPass : Pass<"kerf-bucket-gradients", "::mlir::ModuleOp"> {
  let summary = "Sum gradients over data ranks while the last backward runs";
  let description = [{
    Moves sums over ranks that `update` makes of what a function has left in a step
    buffer into that function: to where the value is made, in the body of its
    repeat if a layer's part is a message of its own. With several micro-batches
    the last call of a function goes to a copy of it, `@backward_last`, which adds
    to what the calls before have left and sums that. Runs after
    `kerf-order-micro-batches`. Sums of what `update` computes, receives or adds up
    from several buffers stay where they are.
  }];
  let options = [
    Option<"messageBytes", "message-bytes", "int64_t", "1 << 20",
           "Least size of a layer's part that is summed alone (default: 1 MiB)">,
  ];
}

def VerifyScheduledPass : Pass<"kerf-verify-scheduled", "::mlir::ModuleOp"> {
  let summary = "Check the contract of schedule";
  let description = [{
    Every program has a schedule "train" or "evaluate"; in each, functions of a
    micro-batch are called once for every one, every buffer is written before it
    is read, and a slot is not written for another micro-batch while it is still
    to be read. Of a pipeline no stage waits for ever, and messages are received as
    they were sent: sends, receives and what all stages combine are simulated.
  }];
}

#endif // KERF_SCHEDULE_PASSES_TD
