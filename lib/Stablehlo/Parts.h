//===- Parts.h - parts of a tensor, and what takes their place --*- C++ -*-===//

#ifndef KERF_LIB_STABLEHLO_PARTS_H
#define KERF_LIB_STABLEHLO_PARTS_H

#include "FoldingBuilder.h"

#include <vector>

namespace kerf {

/// True where all are numbers of dimensions of `value`.
bool areDims(mlir::Value value, llvm::ArrayRef<int64_t> dims);

/// Every `stride`-th element along a dimension, from the first on.
mlir::Value strided(FoldingBuilder &b, mlir::Value x, int64_t dim,
                    int64_t stride);

/// All places of a window of so many, the last dimension first.
std::vector<llvm::SmallVector<int64_t>>
placesOf(llvm::ArrayRef<int64_t> window);

/// What all windows of `x` read at one place of theirs, `counts` windows:
/// places and windows are numbers per dimension from `first` on.
mlir::Value readAt(FoldingBuilder &b, mlir::Value x, int64_t first,
                   llvm::ArrayRef<int64_t> place,
                   llvm::ArrayRef<int64_t> dilations,
                   llvm::ArrayRef<int64_t> strides,
                   llvm::ArrayRef<int64_t> counts);

/// `x` with `value` around it, and `between` times between neighbors.
mlir::Value padded(FoldingBuilder &b, mlir::Value x,
                   llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                   llvm::ArrayRef<int64_t> between, double value);

/// `whole` with `part` in the place of what begins at `starts`; it lies inside.
mlir::Value replacePart(FoldingBuilder &b, mlir::Value whole, mlir::Value part,
                        llvm::ArrayRef<int64_t> starts);

/// Component `n` of `count` that indices have along dimension `vectorDim`: one
/// number where that is no dimension of theirs.
mlir::Value componentOf(FoldingBuilder &b, mlir::Value indices,
                        int64_t vectorDim, int64_t n, int64_t count);

/// True where `index` counts along its dimension `dim`.
bool countsAlong(mlir::Value index, int64_t dim);

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_PARTS_H
