//===- Spmd.h - what every rank does --------------------------------------===//
//
// Ops of the `spmd` dialect.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_SPMD_SPMD_H
#define KERF_DIALECT_SPMD_SPMD_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "kerf/Dialect/Spmd/SpmdDialect.h.inc"

#include "kerf/Dialect/Spmd/SpmdEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Dialect/Spmd/SpmdAttrs.h.inc"

namespace kerf::spmd {
class ScheduleOp;
class ParamOp;

/// The ops in a `spmd.fused_matmul`.
struct MatmulParts {
  mlir::Operation *matmul = nullptr; ///< linear, matmul or einsum
  GeluOp gelu;                       ///< of the matmul, or null
  GeluBackwardOp geluBackward;       ///< by the matmul, or null
  ReduceOp rowSum;                   ///< or null
  MulOp scaled;                      ///< the matmul by `scales`, or null
  /// The f32 scalars that multiply the matmul, one or two.
  llvm::SmallVector<mlir::Value, 2> scales;
  /// The operand of the matmul whose rows `rowSum` adds; nothing where it adds
  /// those of `geluBackward`.
  std::optional<unsigned> summedOperand;
};
} // namespace kerf::spmd

#define GET_OP_CLASSES
#include "kerf/Dialect/Spmd/SpmdProgramOps.h.inc"
#define GET_OP_CLASSES
#include "kerf/Dialect/Spmd/SpmdRankOps.h.inc"

namespace kerf::spmd {

/// True for a collective that moves data among ranks (`spmd.slice_own` does
/// not).
bool isExchange(mlir::Operation *op);
/// True for a collective that is done at a `spmd.wait`.
bool isStarted(mlir::Operation *op);

} // namespace kerf::spmd

#endif // KERF_DIALECT_SPMD_SPMD_H
