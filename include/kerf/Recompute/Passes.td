//===- Passes.td - what the backward pass computes again ------------------===//

#ifndef KERF_RECOMPUTE_PASSES_TD
#define KERF_RECOMPUTE_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecomputeViewsPass : Pass<"kerf-recompute-views", "::mlir::ModuleOp"> {
  let summary = "Save each tensor of a layer once, not its views";
  let description = [{
    A forward value that the reverse repeat reads as a slice of a stack, and that
    is a `kerf.reshape`, `kerf.slice`, `kerf.transpose` or `kerf.broadcast` of
    another value, is recomputed in the reverse body where that takes fewer
    stacked bytes, or equally many in fewer stacks. Stacks of one value are
    merged; stacks and slices that nobody reads are dropped, with the ops that
    only they need. What `kerf-recompute` computes again is so still. A model without a backward pass stays as it is.
  }];
}

def RecomputePass : Pass<"kerf-recompute", "::mlir::ModuleOp"> {
  let summary = "Compute forward values again in the backward pass";
  let description = [{
    Chooses which forward values of a repeat its reverse repeat takes from
    stacks; the others it computes again, by copies of the forward ops that carry
    `kerf.recomputed`. `none` leaves the step as it is. `full` stacks the carried
    values only. Numbers of forward ops: their results are computed again, and
    views; what else is read is stacked. `selective` takes the fewest stacked bytes that are
    possible without computing a matmul or attention again, and among those the
    least work. Without `values`, the model's `plan` says it, and without a plan
    nothing is computed again.

    The step computes the same to the bit. Run it before
    `kerf-split-weight-gradient`.

    Errors: a model that is not differentiated; a number that no forward op has;
    a reverse repeat that is split already. An op outside of repeats with a
    backward pass is remarked upon: naming it has no effect.
  }];
  let options = [
    ListOption<"values", "values", "std::string",
               "none, full, selective, or numbers of forward ops">,
  ];
}

#endif // KERF_RECOMPUTE_PASSES_TD
