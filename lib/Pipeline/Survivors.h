//===- Survivors.h - what is left of a cluster ----------------------------===//

#ifndef KERF_LIB_PIPELINE_SURVIVORS_H
#define KERF_LIB_PIPELINE_SURVIVORS_H

#include "kerf/Machine/Machine.h"

#include <string>

namespace kerf {

/// How many of a cluster's devices are lost at once: a unit of the innermost
/// tier, or, where all are one unit, a device.
int64_t lostAtOnce(const Machine &machine, int64_t devices);

/// The file for `ranks` beside `output`: "x-48.kerf" of "x.kerf". kerf-run
/// looks for it (runtime/train/Run.cpp).
std::string survivorName(llvm::StringRef output, int64_t ranks);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_SURVIVORS_H
