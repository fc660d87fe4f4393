//===- Passes.td - how a step is distributed ------------------------------===//

#ifndef KERF_PLAN_PASSES_TD
#define KERF_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def SolvePlanPass : Pass<"kerf-solve-plan", "::mlir::ModuleOp"> {
  let summary = "Find the fastest plan for a described cluster";
  let description = [{
    Searches degrees, layouts, micro-batches, schedule, recomputation and where the
    state is stored, and writes the best plan on the model: its attribute `plan`, and
    the `kerf.assign` of the ops that the layouts name; `kerf-propagate-plan`
    completes it. For a machine whose backend is `cpu` the space holds what
    programs can be written for. `pins` fix, bound or forbid decisions
    (`kerf/Search/Pins.h`). Fails when nothing fits, with what clashes and what
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


#endif // KERF_PLAN_PASSES_TD
