//===- Collectives.h - communication of virtual ranks ---------------------===//

#ifndef KERF_LIB_INTERPRETER_COLLECTIVES_H
#define KERF_LIB_INTERPRETER_COLLECTIVES_H

#include "Shards.h"

namespace kerf {

/// Axes over which ranks exchange values in this op; null when they do not.
mlir::ArrayAttr getExchangeAxes(mlir::Operation &op);

/// The result on one rank of an op of `spmd` with one operand: a collective or
/// `spmd.slice_own`. `operands` are the values of all ranks of its group. Sums
/// go over the members in order, rounding after each addition unless `f64`.
HostTensor evaluateCollective(mlir::Operation &op, const Ranks &operands,
                              const Place &place, bool f64);

/// `spmd.offset` at a place.
HostTensor evaluateOffset(spmd::OffsetOp offset, const Place &place);

} // namespace kerf

#endif // KERF_LIB_INTERPRETER_COLLECTIVES_H
