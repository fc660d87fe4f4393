//===- SplitShardAxis.h - an axis for a part of the data ranks ------------===//

#ifndef KERF_LIB_PARTITION_SPLITSHARDAXIS_H
#define KERF_LIB_PARTITION_SPLITSHARDAXIS_H

#include "kerf/Sharding/Layout.h"

namespace kerf {

/// Fails with a diagnostic unless the `shard_group` of the plan, if it has one,
/// is made of whole axes of the mesh, as `kerf-split-shard-axis` makes it.
mlir::LogicalResult checkShardAxes(ModelOp model);

} // namespace kerf

#endif // KERF_LIB_PARTITION_SPLITSHARDAXIS_H
