//===- PlanFile.h - plans as JSON -----------------------------------------===//
//
//   {"mesh": {"dp": 2, "tp": 2}, "micro_batches": 2, "schedule": "1f1b",
//    "recompute": "none",
//    "assign": [
//      {"op": "linear", "weight": "*.c_fc.weight",
//       "factors": {"b": ["dp", "micro"], "n": ["tp"]}},
//      {"op": "forward 12", "factors": {}},
//      {"param": "*.wte.weight", "factors": {"b": ["tp"]}}]}
//
// A rule matches ops by name (`linear`), which may be limited to those that
// read a parameter that `weight` matches; or by phase (`forward 12`, all ops of
// it; `input_gradient 12 0`, the first of them); or reads of parameters. The
// first rule that matches an op counts. Ops without one are left to the
// propagation.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_PLAN_PLANFILE_H
#define KERF_PLAN_PLANFILE_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include <string>

namespace kerf {

/// Reads a plan and puts it on a model: its attribute `plan` and the ops'
/// `kerf.assign`. A product with a bias whose sum is cut becomes one without,
/// and the bias is added after. Fails with an error at the line and column of
/// `text` that is wrong; `path` is its name.
mlir::LogicalResult loadPlan(ModelOp model, llvm::StringRef text,
                             llvm::StringRef path);

/// The plan of a model, one rule per op: `loadPlan` on the step that the plan
/// was made for gives the same IR again.
std::string savePlan(ModelOp model);

} // namespace kerf

#endif // KERF_PLAN_PLANFILE_H
