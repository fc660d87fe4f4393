//===- Exec.h - kernels and programs --------------------------------------===//

#ifndef KERF_DIALECT_EXEC_EXEC_H
#define KERF_DIALECT_EXEC_EXEC_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace kerf::exec {
class YieldOp;
} // namespace kerf::exec

#include "kerf/Dialect/Exec/ExecDialect.h.inc"

#include "kerf/Dialect/Exec/ExecEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Dialect/Exec/ExecAttrs.h.inc"

#define GET_OP_CLASSES
#include "kerf/Dialect/Exec/ExecKernelOps.h.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Exec/ExecProgramOps.h.inc"

namespace kerf::exec {

/// The kerf_dtype (Format.h) of a type's elements.
uint32_t dtypeOf(mlir::Type type);

} // namespace kerf::exec

#endif // KERF_DIALECT_EXEC_EXEC_H
