//===- Classify.h - what computes an op -----------------------------------===//

#ifndef KERF_LIB_FUSE_CLASSIFY_H
#define KERF_LIB_FUSE_CLASSIFY_H

#include "kerf/Dialect/Spmd/Spmd.h"

namespace kerf {

/// True for contractions, attention and grouped matmuls that a library (or a
/// device's own routine) computes.
bool isLibraryOp(mlir::Operation *op);

/// Of those, the contractions.
bool isLibraryMatmul(mlir::Operation *op);

/// True for an op that only renames elements, so that its operand's or result's
/// buffer serves for both: reshapes; slices whose elements lie together (a
/// gathered weight without its padding), or that only attention reads, which
/// takes strides; concatenations that only library ops write; parameters,
/// gathered weights and matmuls with rows of zeros at the end (`canLengthen`).
bool isStridedView(mlir::Operation *op);

/// True for a value whose buffer may be longer than it, for rows of zeros: a
/// parameter, or what a gather or a matmul makes for its readers alone.
bool canLengthen(mlir::Value value);

/// True for an op that becomes (part of) a kernel.
bool isKernelOp(mlir::Operation *op);

/// True for what every reader recomputes: constants, index tensors, and
/// scalars that come from powers of two and constants, such as the inverse of a
/// unit.
bool isKernelSource(mlir::Operation *op);

/// True for a conversion to a type with the exponents of f32 at least.
bool keepsPowers(mlir::Operation *conversion);

/// `start` with the first number that names nothing in the program yet.
std::string newBufferName(spmd::ProgramOp program, llvm::StringRef start);

/// Marks a buffer of units of weights (`kerf-hoist-units`).
constexpr llvm::StringLiteral kUnitsAttrName = "spmd.units";

/// True for what holds powers of two alone, so that multiplying by it is exact:
/// units, largest ones of several ranks, and parts of such.
bool isPowerOfTwo(mlir::Value value);

/// Blocks whose ops become kernels: bodies of functions and of repeats.
llvm::SmallVector<mlir::Block *> kernelBlocks(mlir::Operation *root);

/// Erases kernels, and views of what they made, whose results nobody reads.
void eraseUnread(mlir::Block &block);

/// Name of the attribute of a kernel that says what it computes, for traces:
/// "layer_norm+add".
inline constexpr llvm::StringLiteral kKindAttrName = "spmd.kind";

/// True for a plain op whose elements follow from those of its operands at the
/// same place, or from the place alone.
bool isPulled(mlir::Operation &op);

/// How a kernel's loops run.
enum class KernelKind {
  Pointwise, ///< every element on its own
  Row,       ///< also reductions along the last dimension
  Column,    ///< also sums over all rows, which nothing but the end reads
  Other,     ///< data moves between rows, or the op brought its kernel along
};

struct KernelSpace {
  KernelKind kind = KernelKind::Other;
  /// Shape of the largest tensor inside, without those that are read turned.
  llvm::SmallVector<int64_t> shape;
  /// Its elements are sums of rows that are looked up: for readers that want
  /// each once.
  bool looksUp = false;
};

/// True for a value that a kernel reads from memory through a transpose alone.
bool isReadTurned(mlir::BlockArgument argument);

/// True for a value that a kernel reads from memory in slices alone.
bool isReadInParts(mlir::BlockArgument argument);

/// The loops of a kernel of plain ops.
KernelSpace getKernelSpace(spmd::FusedOp fused);

} // namespace kerf

#endif // KERF_LIB_FUSE_CLASSIFY_H
