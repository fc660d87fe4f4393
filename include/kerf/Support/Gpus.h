//===- Gpus.h - facts of NVIDIA's GPUs ------------------------------------===//
//
// The one table of what differs between GPUs: who makes code for them, and who
// estimates its memory and time, ask here.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_GPUS_H
#define KERF_SUPPORT_GPUS_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace kerf {

/// GPUs of one compute capability.
struct GpuFacts {
  llvm::StringLiteral name; ///< "sm_90"
  int processors;           ///< streaming multiprocessors of the usual part
  /// Version of PTX of its code, 10 * major + minor: 8.0, which drivers of CUDA
  /// 12.0 and later read, or the first that knows the GPU and all that its
  /// kernels use. 0: no kernels are made for it.
  int ptx;
};

/// The facts of "sm_90", also of "sm_90a" and "sm_90f"; null if there are none.
const GpuFacts *findGpu(llvm::StringRef arch);

/// 10 * major + minor of the compute capability that "sm_90a" names; 0 if none.
int capabilityOf(llvm::StringRef arch);

/// The GPUs that kernels are made for: "sm_80, sm_86 or sm_90".
std::string listCompiledGpus();

/// True for GPUs that round to and multiply 8-bit floats: from Ada on.
inline bool hasFloat8(llvm::StringRef arch) { return capabilityOf(arch) >= 89; }

/// True for GPUs whose matmuls end in gelu: from Hopper on. llm.c found it
/// slower than a kernel on Ampere and Ada.
inline bool hasGeluMatmuls(llvm::StringRef arch) {
  return capabilityOf(arch) >= 90;
}

} // namespace kerf

#endif // KERF_SUPPORT_GPUS_H
