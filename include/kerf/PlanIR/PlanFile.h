//===- PlanFile.h - plans as JSON -----------------------------------------===//
//
//   {"version": 1,
//    "mesh": {"dp": 2, "tp": 2}, "order": ["dp", "tp"],
//    "micro_batches": 2, "schedule": "1f1b", "recompute": "none",
//    "assign": [
//      {"op": "linear", "weight": "*.c_fc.weight",
//       "factors": {"b": ["dp", "micro"], "n": ["tp"]}},
//      {"op": "forward 12", "factors": {}},
//      {"param": "*.wte.weight", "factors": {"b": ["tp"]}}]}
//
// A rule matches ops by name (`linear`), which may be limited to those that
// read a parameter that `weight` matches; or by phase (`forward 12`, all ops of
// it; `input_gradient 12 0`, the first of them; casts count apart, and
// `input_gradient 12 cast 0` is the first of those); or reads of parameters.
// The first rule that matches an op counts. Ops without one are left to the
// propagation. A rule of a cast that the step does not have, being of another
// number type, says nothing. `pending`, `variant`, `blocks` and `routed` are as
// in `#kerf.assign`. `at` says for people what an op is and where it stands in
// the model, "linear h.{}.mlp.c_fc.weight, gpt.mlir:17"; it is not read.
//
// `order` names the axes of the mesh, the slowest first; without it they are in
// the order of the text. Further fields, all optional, are those of
// `#kerf.plan`: `chunks`, `defer`, `zero`, `shard_group`, `moe_buffer`,
// `cp_order`, and
//
//   "stages": [[{"kind": "embedding", "count": 1}, {"kind": "layer", "count":
//   8}],
//              [{"kind": "layer", "count": 8, "recompute": [3, 7]}, ...]],
//   "model": {"name": "tiny-gpt2", "symbol": "gpt2", "shapes": "5a0e..."},
//   "reserve_bytes": 1600000000,
//   "checked": {"twin": "8 x 8 tokens, ...", "largest_error": 3e-12,
//               "differs": []},
//   "priced": {"cluster": "hgx-h100", "step_sec": 30.9, "collectives": [...]}
//
// and, where a rack or node is to have ranks on `per_unit` of its devices
// alone, that in `priced`, too.
//
// `reserve_bytes` is what the planner expects a rank to need besides its arena,
// `checked` how the programs were compared with training on one rank, `priced`
// what the step and its collectives were said to take (`pricedStep`): all are
// told to who runs the program, and decide nothing. A plan that is given
// without a cluster keeps its price.
//
// Kinds of layers are named as `printStep` does. `model` names the model that
// the plan was made for: it is refused for another, and for one of other
// shapes.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_PLANIR_PLANFILE_H
#define KERF_PLANIR_PLANFILE_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Support/Json.h"

#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// How the programs of a plan were compared with training on one rank.
struct CheckedPlan {
  std::string twin;        ///< what was run; empty: nothing, `differs` says why
  double largestError = 0; ///< a power of ten that no error exceeds
  /// Decisions of the plan that were not tried, for people.
  std::vector<std::string> differs;
};

/// Reads a plan and puts it on a model: its attribute `plan` and the ops'
/// `kerf.assign`. A matmul with a bias whose sum is split becomes one
/// without, and the bias is added after. Fails with an error for each
/// violation, at its line and column of `text`; `path` is its name.
mlir::LogicalResult loadPlan(ModelOp model, llvm::StringRef text,
                             llvm::StringRef path);

/// The plan of a model with sorted keys, one rule per op: `loadPlan` on the
/// step that the plan was made for gives the same IR again, and that the same
/// text but for the fields `reserve_bytes`: `reserveBytes`, unless 0, and
/// `checked` and `priced`, where they are given. `described`: each rule says
/// what its op is and where it stands in the model, as `at`; loading does not
/// read that.
std::string savePlan(ModelOp model, double reserveBytes = 0,
                     const CheckedPlan *checked = nullptr,
                     const json::Value *priced = nullptr,
                     bool described = false);

/// What differs between two plan files, a line per decision: "mesh.tp: 2 -> 4",
/// "-" where one has none; "" when they say the same. On failure `error` holds
/// "path:line:column: error: message".
std::optional<std::string>
comparePlans(llvm::StringRef a, llvm::StringRef pathA, llvm::StringRef b,
             llvm::StringRef pathB, std::string &error);

} // namespace kerf

#endif // KERF_PLANIR_PLANFILE_H
