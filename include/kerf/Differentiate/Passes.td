//===- Passes.td - the training step --------------------------------------===//

#ifndef KERF_DIFFERENTIATE_PASSES_TD
#define KERF_DIFFERENTIATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def DifferentiatePass : Pass<"kerf-differentiate", "::mlir::ModuleOp"> {
  let summary = "Append the backward pass and the updates to each model";
  let description = [{
    Reverse mode from the scalar loss, through the ops' gradient interfaces. A
    `kerf.repeat` gets a reverse one; forward values that it needs become stacked
    results of the forward repeat, so that recomputing them instead is a later
    choice. Each trainable parameter ends in one `kerf.update` (one for the
    stack of a repeat's parameters), after clipping by the global norm if the
    model asks for it; the norm is appended to the returned values. Every op
    gets a `kerf.phase`.

    With `scale-loss` the loss is multiplied by the input `loss_scale` before it
    is differentiated, the norm and the gradients in updates are divided by it,
    and no update takes place in a step whose norm is not finite.

    Errors: a model without optimizer; a trainable parameter that does not reach
    the loss; one that is read under two names (`h.1.w` and `h.{i}.w`) or in
    iterations that overlap; an op without gradient on the way; a model that
    already has a backward pass.
  }];
  let options = [
    Option<"scaleLoss", "scale-loss", "bool", "false",
      "scale gradients by an input; skip updates where they overflow">,
  ];
}

def FoldConstantsPass : Pass<"kerf-fold-constants", "::mlir::ModuleOp"> {
  let summary = "Make one constant of what is the same number everywhere";
  let description = [{
    A `kerf.constant` of one number that is broadcast, reshaped, transposed,
    sliced, cast, or computed with element by element becomes a constant of the
    result's shape. Each reader makes a constant for itself, in the part that it
    reads, and none is kept for the backward pass: values that are made of
    constants would be. A constant of f64 that the result's type does not hold
    stays a cast, so that a computation in f64 has the number itself, unless
    `rounds` says that none is to come.
  }];
  let options = [
    Option<"rounds", "rounds", "bool", "false", "fold casts of f64 that round, too">,
  ];
}

def SplitRepeatPass : Pass<"kerf-split-repeat", "::mlir::ModuleOp"> {
  let summary = "Split repeats at given iterations";
  let description = [{
    Splits every `kerf.repeat` that contains one of the iterations `at` (not as
    its first) in two, the reverse repeat of a pair with it. Stacked values are
    handed from half to half directly, gradients and updates of stacked
    parameters are split too, and sums over the iterations (gradients of shared
    parameters) are taken in each half. `pair` restricts it to the repeats of one
    number. This is how pipeline stages arise.
  }];
  let options = [
    ListOption<"at", "at", "int64_t", "iterations that start a new repeat">,
    Option<"pair", "pair", "int64_t", "-1", "only repeats of this pair number">,
  ];
}

def SplitStagesPass : Pass<"kerf-split-stages", "::mlir::ModuleOp"> {
  let summary = "Split repeats where the stages of the plan end";
  let description = [{
    Splits each repeat, and its reverse with it, at the borders of the plan's
    `stages` (evenly where it has none) and says on the parts to which chunk they
    belong (`kerf.chunk`) and, where layers differ in it, what they compute again
    (`kerf.recompute`). Models whose plan has one stage of equal layers stay as
    they are.

    Errors: stages that do not hold all layers of the model.
  }];
}

def UnrollRepeatPass : Pass<"kerf-unroll-repeat", "::mlir::ModuleOp"> {
  let summary = "Write the iterations of every repeat out";
  let description = [{
    Each iteration becomes ops of its own, parameters with their expanded names.
    Run before differentiation; it makes a second, simpler form of a model that
    tests compare the gradient of repeats with.
  }];
}

def SplitWeightGradientPass : Pass<"kerf-split-weight-gradient", "::mlir::ModuleOp"> {
  let summary = "Move weight gradients of reverse repeats to repeats of their own";
  let description = [{
    A reverse repeat computes input gradients, which the layer before waits for,
    and weight gradients, which nobody waits for. This makes two repeats of it:
    the first passes gradients through the layers and stacks what the second,
    without carried values, needs to compute the stacked weight gradients. Zero-
    bubble schedules place the second freely.
  }];
  let options = [
    Option<"planned", "planned", "bool", "false",
      "only models that are planned with the schedule zb-h1">,
  ];
}

def VerifyDifferentiatedPass : Pass<"kerf-verify-differentiated", "::mlir::ModuleOp"> {
  let summary = "Check the contract after differentiation";
  let description = [{
    Every trainable parameter is updated, for each of its iterations once; every
    op has a phase; gradient ops name a forward op that exists; there is no
    `kerf.check_close`.
  }];
}

#endif // KERF_DIFFERENTIATE_PASSES_TD
