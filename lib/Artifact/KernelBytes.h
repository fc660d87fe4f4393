//===- KernelBytes.h - what a kernel leaves alone of its operands ---------===//

#ifndef KERF_LIB_ARTIFACT_KERNELBYTES_H
#define KERF_LIB_ARTIFACT_KERNELBYTES_H

#include "kerf/Dialect/Exec/Exec.h"

namespace kerf {

/// Bytes of a kernel's arguments and results that it neither reads nor writes:
/// outside slices, and rows of tables that it does not look up or add to.
int64_t untouchedBytes(exec::KernelOp kernel);

} // namespace kerf

#endif // KERF_LIB_ARTIFACT_KERNELBYTES_H
