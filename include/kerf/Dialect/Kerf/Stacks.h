//===- Stacks.h - what repeats stack and read slices of -------------------===//

#ifndef KERF_DIALECT_KERF_STACKS_H
#define KERF_DIALECT_KERF_STACKS_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Recreates `repeat` with exactly these stacks, each once; readers of a stack
/// are led to the new one. A stack that is read must be among them.
RepeatOp setStacks(RepeatOp repeat, llvm::ArrayRef<mlir::Value> stacked);

/// The same with stacks of `values` behind the others.
RepeatOp addStacks(RepeatOp repeat, llvm::ArrayRef<mlir::Value> values);

/// Lets a repeat read a slice of `stack` in each iteration; the slice.
mlir::BlockArgument addSlice(RepeatOp repeat, mlir::Value stack);

/// Drops stacks that nobody reads, and merges those of one value.
RepeatOp dropUnreadStacks(RepeatOp repeat);

/// True for an update that becomes a loop over the layers of its parameter: by
/// a rule with matmuls of its own (Muon), between which lie values as large as
/// the parameter.
bool goesByLayer(UpdateOp update);

/// Drops slices that the body does not read.
void dropUnreadSlices(RepeatOp repeat);

} // namespace kerf

#endif // KERF_DIALECT_KERF_STACKS_H
