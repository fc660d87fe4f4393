//===- KernelInterface.h - ops with a kernel of their own -----------------===//

#ifndef KERF_INTERFACES_KERNELINTERFACE_H
#define KERF_INTERFACES_KERNELINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kerf {

/// A kernel as code that is not for one CPU yet: `code` is a module of LLVM IR,
/// as text, without optimizations, whose function `function` is, in C,
///
///   void kernel(void *const *arguments, int64_t begin, int64_t end)
///
/// It computes units [begin, end) of [0, units). Arguments are the op's
/// operands, then its results: dense row-major buffers, which do not overlap;
/// i1 takes a byte. Units run in any order, several at once, and write
/// different elements; how they are divided among calls must change no bit.
///
/// Kerf optimizes the module for the CPU, vectors included. It may call its own
/// functions and those of the C library that take and return numbers, and has
/// no variables that are written.
struct KernelCode {
  std::string code;
  std::string function = "kernel";
  int64_t units = 1; ///< that the work is divided into
  int64_t grain = 1; ///< units that are worth a thread's attention (10 us)
  /// Values of the module's `extern const int64_t` variables, by name: sizes.
  std::vector<std::pair<std::string, int64_t>> sizes = {};
};

/// The kernel that `op` brings along, if it does.
std::optional<KernelCode> getOwnKernel(mlir::Operation *op);

/// The op with a kernel of its own that is all of a block: it reads the block's
/// arguments and the terminator hands over its results, in order. Null for
/// other blocks.
mlir::Operation *getOwnKernelOp(mlir::Block &block);

} // namespace kerf

#include "kerf/Interfaces/KernelOpInterface.h.inc"

#endif // KERF_INTERFACES_KERNELINTERFACE_H
