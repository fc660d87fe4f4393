//===- ChooseSaved.h - the fewest bytes to save ---------------------------===//

#ifndef KERF_LIB_RECOMPUTE_CHOOSESAVED_H
#define KERF_LIB_RECOMPUTE_CHOOSESAVED_H

#include "SavedValues.h"

namespace kerf::recompute {

/// True for ops that show the elements of their operand in another order or
/// shape: reshape, slice, transpose, broadcast.
bool isFreeView(mlir::Operation *op);

/// Work of a view: nothing; none for other ops.
std::optional<int64_t> viewWork(mlir::Operation *op);

/// Work of an op that is computed again: flops on the vector units; nothing for
/// a view; none for an op that must not be: one with matmul flops, or without
/// cost facts.
std::optional<int64_t> cheapWork(mlir::Operation *op);

/// What an op costs when it is computed again, or nothing when it must not be.
using Work = llvm::function_ref<std::optional<int64_t>(mlir::Operation *)>;

/// The values to save such that all others that the reverse bodies need can be
/// computed again by ops that have `work`: fewest bytes first, then least work,
/// then fewest stacks, then fewest copies. With `keepCopies`, ops other than
/// views that were computed again before are so still, whatever their work.
llvm::DenseSet<mlir::Value> chooseSaved(SavedValues &pair, Work work,
                                        bool keepCopies = false);

} // namespace kerf::recompute

#endif // KERF_LIB_RECOMPUTE_CHOOSESAVED_H
