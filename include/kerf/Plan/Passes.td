//===- Passes.td - how a step is distributed ------------------------------===//

#ifndef KERF_PLAN_PASSES_TD
#define KERF_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def LoadPlanPass : Pass<"kerf-load-plan", "::mlir::ModuleOp"> {
  let summary = "Put a plan from a JSON file on the models";
  let description = [{
    Sets `plan` and the `kerf.assign` of the ops that the file's rules match
    (`kerf/Plan/PlanFile.h` describes the format). A product with a bias whose sum
    is cut adds the bias afterwards. Refuses unknown fields, axes and factors, sizes
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

def SolvePlanPass : Pass<"kerf-solve-plan", "::mlir::ModuleOp"> {
  let summary = "Find the fastest plan for a described cluster";
  let description = [{
    Searches degrees, layouts, micro-batches, schedule, recomputation and where the
    state rests, and writes the best plan on the model: its attribute `plan`, and
    the `kerf.assign` of the ops that the layouts name; `kerf-propagate-plan`
    completes it. For a machine whose backend is `cpu` the space holds what
    programs can be written for. `pins` fix, bound or forbid decisions
    (`kerf/Plan/Pins.h`). Fails when nothing fits, with what clashes and what
    would help. The same input gives the same plan: the search stops by counted
    work.
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"",
           "description of the cluster (YAML)">,
    Option<"devices", "devices", "int64_t", "0",
           "devices of it (default: as many as it describes)">,
    Option<"pins", "pins", "std::string", "\"\"",
           "decisions that are given, such as tp=2,m=4">,
    Option<"prove", "prove", "bool", "false",
           "search until the plan is proven the best">,
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
    divide, whole factors are not cut, sums arrive where they may, reads of a
    parameter agree, and no value is needed by another micro-batch than its own.
  }];
}

#endif // KERF_PLAN_PASSES_TD
