//===- Codegen.h - machine code of fused kernels --------------------------===//
//
// An `exec.kernel` becomes one function
//
//   void f(void *const *arguments, int64_t begin, int64_t end)
//
// that computes units [begin, end) of [0, units). Arguments are the kernel's
// inputs, then its results. Units write different elements; how they are
// divided among calls and threads changes no bit of the results. On a GPU it
// is an entry with one pointer per argument: block u computes unit u.
//
// Two steps: `splitKernel` on the op level, before buffers are planned, splits
// what needs several launches; `compileKernels` makes the shared object, or PTX
// and a cubin.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_CODEGEN_CODEGEN_H
#define KERF_CODEGEN_CODEGEN_H

#include "kerf/Dialect/Exec/Exec.h"
#include "kerf/Dialect/Exec/SplitKernel.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kerf {

/// The CPU that kernels are made for.
struct CpuTarget {
  std::string name; ///< as LLVM names it: "x86-64-v4", "sapphirerapids"
  /// Instruction sets that kernels may use, as LLVM names them, sorted.
  std::vector<std::string> features;
  int64_t vectorBytes = 16; ///< of the widest register
  bool hasTiles = false;    ///< AMX for bf16; kernels do not use it

  /// The features by comma, for the artifact.
  std::string featureList() const;
  /// Why a step in `precision` (as --precision) is not expected to be faster
  /// than in f32, which is how the cpu device then computes its matmuls. Empty
  /// where it is.
  std::string whyNotFaster(llvm::StringRef precision) const;
};

/// The target of a name: `x86-64-v2`, `x86-64-v3`, `x86-64-v4`, a CPU as LLVM
/// names it, or `native`, this machine. On failure sets `error`.
mlir::FailureOr<CpuTarget> resolveCpu(llvm::StringRef name, std::string &error);

/// The GPU that kernels are made for.
struct GpuTarget {
  std::string name;     ///< "sm_80", "sm_90"
  int processors = 132; ///< streaming multiprocessors, of the usual part
  int ptx = 80;         ///< version of PTX, 10 * major + minor
  std::string ptxas;    ///< path of the assembler; empty: none was found
};

/// The target of a name ("sm_90a" is that of "sm_90"), with `ptxas` from
/// KERF_PTXAS, PATH or CUDA_HOME. On failure sets `error`.
mlir::FailureOr<GpuTarget> resolveGpu(llvm::StringRef name, std::string &error);

/// One function of the image; kernels of equal content share one.
struct CompiledKernel {
  std::string symbol; ///< "k" and the hash in hexadecimal digits
  uint64_t hash = 0;
  int64_t argumentCount = 0;
  int64_t units = 0;    ///< independent parts; blocks of a GPU's grid
  int64_t grain = 1;    ///< units that are worth a thread's attention
  uint32_t threads = 0; ///< of a block, on a GPU

  /// What a GPU's assembler says of a thread, and of a block's shared memory; 0
  /// without it. Spilled bytes are those stored.
  uint32_t registers = 0, spilledBytes = 0, sharedBytes = 0;
};

/// All kernels of a module as one image.
struct CompiledKernels {
  std::vector<CompiledKernel> kernels; ///< sorted by symbol
  /// Position in `kernels` of each `exec.kernel`, in order of the module.
  std::vector<size_t> kernelOf;
  std::string image; ///< ELF shared object; of a GPU a cubin, or empty
  std::string ptx;   ///< of a GPU: all kernels as one PTX module
  std::vector<std::string> features; ///< that the processor must have
};

struct CompileOptions {
  unsigned threads = 1; ///< that compile at the same time
  std::string dumpTo;   ///< folder for the LLVM IR of each kernel, if not empty
};

/// Compiles every `exec.kernel` of the module, nested ones too. Fails with a
/// diagnostic at the kernel, e.g. if it needs several launches.
mlir::FailureOr<CompiledKernels> compileKernels(mlir::Operation *module,
                                                const CpuTarget &target,
                                                const CompileOptions &options);
/// As above, for a GPU. The cubin is empty where there is no ptxas.
mlir::FailureOr<CompiledKernels> compileKernels(mlir::Operation *module,
                                                const GpuTarget &target,
                                                const CompileOptions &options);

} // namespace kerf

#endif // KERF_CODEGEN_CODEGEN_H
