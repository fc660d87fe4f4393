//===- CheckRankStates.h - are collectives where values need them? --------===//

#ifndef KERF_LIB_PARTITION_CHECKRANKSTATES_H
#define KERF_LIB_PARTITION_CHECKRANKSTATES_H

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// Follows every value of the module's programs (one, or those of a pipeline's
/// stages) and fails with an error at the first op whose operands are not what
/// it needs: RankState.h has the states, RankRules.h the rules. Linear in the
/// number of ops.
mlir::LogicalResult checkRankStates(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_LIB_PARTITION_CHECKRANKSTATES_H
