//===- Passes.td - from a planned step to programs ------------------------===//

#ifndef KERF_PARTITION_PASSES_TD
#define KERF_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def OrderContextPass : Pass<"kerf-order-context", "::mlir::ModuleOp"> {
  let summary = "Order sequences so that causal ranks have equal work";
  let description = [{
    Where a plan splits causal attention along the sequence, the model's inputs and
    the ops that read positions get the order `#kerf.zigzag`, of which every
    contiguous part has the same work. Nothing changes where the plan says
    `cp_order = "plain"`; or where an op depends on the order of its rows (dropping
    tokens beyond a capacity): a remark tells which.
  }];
}

def InsertExpertLoadsPass : Pass<"kerf-insert-expert-loads", "::mlir::ModuleOp"> {
  let summary = "Return how often each expert was chosen";
  let description = [{
    For each `kerf.assign_slots` of the forward pass the model returns the choices
    of each expert, as `expert_load`, and with a capacity those that got a row, as
    `expert_rows`: of a repeat stacked, under the names of its layers. Nothing
    else changes; a model without experts stays as it is. Run it when
    `kerf-split-stages` is done, and `kerf-propagate-plan` after it.
  }];
}

def SplitShardAxisPass : Pass<"kerf-split-shard-axis", "::mlir::ModuleOp"> {
  let summary = "Give the ranks that share state axes of their own";
  let description = [{
    A plan may shard state over a part of the data ranks (`shard_group`). Groups of
    ranks are made of whole axes of the mesh, so the axis that the group ends in
    becomes two: `dp = 8` with a group of 2 is `dp = 4, dp.shard = 2`. Ranks keep
    their numbers. Needed for correctness before `kerf-partition`.
  }];
}

def PartitionPass : Pass<"kerf-partition", "::mlir::ModuleOp"> {
  let summary = "Convert planned steps into programs of their ranks";
  let description = [{
    Every `kerf.model` becomes a `spmd.program`: each op on its local shape, with
    the collectives that its factors demand between producer and reader. Reads
    the model's `plan` and the ops' `kerf.assign`, nothing else. Functions:
    `prologue` (once per step, what depends on inputs alone), `forward` (up to the
    last repeat that the backward pass reads from), `backward` (the rest up to the
    gradients), `update`, and `evaluate` (the loss without dropout). Refuses
    assignments that are impossible.
  }];
  let dependentDialects = ["::kerf::spmd::SpmdDialect"];
}

def VerifyPartitionedPass : Pass<"kerf-verify-partitioned", "::mlir::ModuleOp"> {
  let summary = "Check the contract of partition";
  let description = [{
    No `kerf.model` is left; every parameter that functions read or update is
    declared, with this local type; every op on tensors stands in a function.

    With `follow-ranks` also: every value is, over each axis, the same, split or a sum
    as its readers need it. This is worked out from the declarations and the ops,
    not from the plan. It refuses a few sound programs, so kerfc asks it only where
    a value of a step turned out wrong.
  }];
  let options = [Option<"followRanks", "follow-ranks", "bool", /*default=*/"true",
    "Follow what ranks hold of every value">];
}

#endif // KERF_PARTITION_PASSES_TD
