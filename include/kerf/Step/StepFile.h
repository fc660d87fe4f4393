//===- StepFile.h - steps as JSON -----------------------------------------===//
//
// A step without its model: what the planner knows of it (LayerModel.h), so
// that a search can be saved, compared and replayed where the model is not.
//
//   {"kerf_step": 2, "name": "llama", "batch": 64, "sequence": 256,
//    "kinds": [{"name": "layer", "values": [...], "ops": [...], ...}],
//    "runs": [{"kind": 1, "count": 4, "repeat": 0}], ...}
//
// Fields are named as in LayerModel.h; those with their default value are left
// out. Equal steps give equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_STEP_STEPFILE_H
#define KERF_STEP_STEPFILE_H

#include "kerf/Step/LayerModel.h"
#include "kerf/Support/Json.h"

#include <optional>

namespace kerf {

/// The text of a step; a value, an op, a parameter takes a line each.
std::string printStepFile(const StepModel &step);

/// True for the text of a step, right or wrong: JSON with a "kerf_step".
bool isStepFile(llvm::StringRef text);

/// Reads what `printStepFile` wrote. Nothing, and one to five calls of
/// `onError`, for text that is no step: a wrong or unknown field, an index that
/// points at nothing, a shape that its factors do not make.
std::optional<StepModel> readStepFile(llvm::StringRef text,
                                      json::ErrorHandler onError);

} // namespace kerf

#endif // KERF_STEP_STEPFILE_H
