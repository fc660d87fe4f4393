//===- SplitKernel.h - kernels of one launch each -------------------------===//

#ifndef KERF_DIALECT_EXEC_SPLITKERNEL_H
#define KERF_DIALECT_EXEC_SPLITKERNEL_H

#include "kerf/Dialect/Exec/Exec.h"

#include <vector>

namespace kerf {

/// One launch of a step: a kernel and the values it connects.
struct KernelLaunch {
  exec::KernelOp kernel;
  /// One per argument, then one per result: the number of a value. Values
  /// [0, arguments) are the arguments of the whole, the next ones its results,
  /// the rest are temporary.
  std::vector<int64_t> values;
};

/// What one kernel was split into, in order of execution.
struct SplitKernel {
  std::vector<KernelLaunch> launches;
  std::vector<mlir::RankedTensorType> temporaries;
};

/// Bytes of a GPU's widest access, of one thread.
inline constexpr int64_t kWidestAccess = 16;

/// Attribute of a kernel for GPUs some of whose operands may lie at addresses
/// that are no multiple of `kWidestAccess`: by argument, then result, bytes
/// that divide all their addresses, at most so many. It is part of the content.
inline constexpr llvm::StringLiteral kAlignedAttrName = "aligned";

/// What launches are for.
struct SplitOptions {
  bool forGpu = false; ///< more and smaller pieces
};

/// Splits a kernel into kernels of one launch each and erases it; new kernels
/// stand in its place, named `<name>.<n>`. A kernel that needs one launch stays
/// as it is and is the only launch. Pairs of `inplace` stay with the launch
/// that makes the result, where the argument is read by no other launch after
/// it; else they are dropped and the result has a buffer of its own.
SplitKernel splitKernel(exec::KernelOp kernel, SplitOptions options = {});

/// A content hash: equal for kernels that differ in names only.
uint64_t kernelHash(exec::KernelOp kernel);

} // namespace kerf

#endif // KERF_DIALECT_EXEC_SPLITKERNEL_H
