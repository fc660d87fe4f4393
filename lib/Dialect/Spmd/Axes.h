//===- Axes.h - how lists of axes are written and checked -----------------===//

#ifndef KERF_LIB_DIALECT_SPMD_AXES_H
#define KERF_LIB_DIALECT_SPMD_AXES_H

#include "kerf/Dialect/Spmd/Spmd.h"

namespace kerf::spmd {

/// `[dp, micro]`.
mlir::ParseResult parseAxes(mlir::OpAsmParser &parser, mlir::ArrayAttr &axes);
void printAxes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
               mlir::ArrayAttr axes);

/// `[[dp, micro], []]`.
mlir::ParseResult parseSharded(mlir::OpAsmParser &parser,
                               mlir::ArrayAttr &sharded);
void printSharded(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                  mlir::ArrayAttr sharded);

/// The mesh of the program around an op, and its micro-batches. An op in no
/// program has none.
ProgramOp programOf(mlir::Operation *op);

/// Checks that the axes exist and that none is in the list twice; `micro`
/// counts as one if `allowMicro`.
mlir::LogicalResult verifyAxes(mlir::Operation *op, ProgramOp program,
                               mlir::ArrayAttr axes, bool allowMicro);

} // namespace kerf::spmd

#endif // KERF_LIB_DIALECT_SPMD_AXES_H
