//===- Twin.h - a small step with the decisions of a large one ------------===//
//
// What a plan says of a large step is tried on its twin: the same ops with the
// same assignments, the smallest sizes that keep all of them legal, the fewest
// ranks, stages, layers and micro-batches that keep their pattern. Translation
// validation (Pnueli, Siegel and Singerman 1998) on a representative: what is
// wrong with a layout is wrong with it at any size.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TWIN_TWIN_H
#define KERF_TWIN_TWIN_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace kerf {

struct Twin {
  /// Holds one model with its plan, as after the stage plan.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// "4 x 8 tokens, layers 2 + 1, mesh <pp = 2, tp = 2>, 3 micro-batches".
  std::string description;
  /// Decisions of the plan that it does not have, for people: "moe_buffer".
  std::vector<std::string> differs;
};

/// The twin of a model that has been planned and its plan propagated. Fails
/// with a diagnostic where no sizes can be found with which its ops are sound.
mlir::FailureOr<Twin> makeTwin(ModelOp planned);

} // namespace kerf

#endif // KERF_TWIN_TWIN_H
