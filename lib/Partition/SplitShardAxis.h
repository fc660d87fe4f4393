//===- SplitShardAxis.h - an axis for a part of the data ranks ------------===//

#ifndef KERF_LIB_PARTITION_SPLITSHARDAXIS_H
#define KERF_LIB_PARTITION_SPLITSHARDAXIS_H

#include "kerf/Sharding/Layout.h"

namespace kerf {

/// Splits the axis of the plan's mesh that its `shard_group` ends in, so that
/// the group is made of whole axes. Fails with a diagnostic where that cannot
/// be.
mlir::LogicalResult splitShardAxis(ModelOp model);

} // namespace kerf

#endif // KERF_LIB_PARTITION_SPLITSHARDAXIS_H
