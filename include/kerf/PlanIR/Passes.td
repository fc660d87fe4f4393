//===- Passes.td - how a step is distributed ------------------------------===//

#ifndef KERF_PLAN_PASSES_TD
#define KERF_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def LoadPlanPass : Pass<"kerf-load-plan", "::mlir::ModuleOp"> {
  let summary = "Put a plan from a JSON file on the models";
  let description = [{
    Sets `plan` and the `kerf.assign` of the ops that the file's rules match
    (`kerf/PlanIR/PlanFile.h` describes the format). A matmul with a bias whose sum
    is split adds the bias afterwards. Refuses unknown fields, axes and factors, sizes
    that do not divide, and rules that match nothing, with line and column.
  }];
  let options = [
    Option<"file", "file", "std::string", "\"\"", "the plan (JSON)">,
  ];
}

def SavePlanPass : Pass<"kerf-save-plan", "::mlir::ModuleOp"> {
  let summary = "Write the plan of the model to a JSON file";
  let description = [{
    One rule per op; `kerf-load-plan` on the same step gives the same IR again.
  }];
  let options = [
    Option<"file", "file", "std::string", "\"-\"", "where to write it">,
  ];
}

def PropagatePlanPass : Pass<"kerf-propagate-plan", "::mlir::ModuleOp"> {
  let summary = "Complete the assignments of a plan";
  let description = [{
    Gives a `kerf.assign` to every op of a step that has none. In program order, an
    op takes among the assignments that its operands' layouts suggest (each axis
    where one operand has it, or nowhere) the one with the fewest communicated
    bytes, pending results counted as all-reduced. Parameters rest as their readers
    use them. A model without a plan gets the trivial one: one rank.
  }];
}

def VerifyPlanPass : Pass<"kerf-verify-plan", "::mlir::ModuleOp"> {
  let summary = "Check the contract of plan";
  let description = [{
    Every model has a plan, and every value a layout: factors and axes exist, sizes
    divide, whole factors are not split, sums arrive where they may, reads of a
    parameter agree, and no value is needed by another micro-batch than its own.
  }];
}

#endif // KERF_PLAN_PASSES_TD
