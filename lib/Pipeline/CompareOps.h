//===- CompareOps.h - measured ops beside foretold ones -------------------===//

#ifndef KERF_LIB_PIPELINE_COMPAREOPS_H
#define KERF_LIB_PIPELINE_COMPAREOPS_H

#include "TraceFile.h"

#include "kerf/ProgramTime/ProgramTime.h"

#include "llvm/ADT/ArrayRef.h"

#include <set>

namespace kerf::trace {

/// Prints two tables, of a rank's step: by class of work, and the ops whose
/// difference is largest, with the likely cause. `steps` are those of the trace
/// that all ranks made to their end.
void printOps(const File &measured, const std::set<int64_t> &steps,
              const ProgramTime &foretold);

} // namespace kerf::trace

#endif // KERF_LIB_PIPELINE_COMPAREOPS_H
