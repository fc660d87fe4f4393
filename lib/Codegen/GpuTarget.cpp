//===- GpuTarget.cpp - GPUs that kernels are made for ---------------------===//

#include "kerf/Codegen/Codegen.h"

#include "kerf/Support/Gpus.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace kerf;

/// The assembler of CUDA's toolkit, from KERF_PTXAS (which may be empty: none),
/// PATH or CUDA_HOME; empty if there is none.
static std::string findPtxas() {
  using llvm::sys::Process;
  if (std::optional<std::string> given = Process::GetEnv("KERF_PTXAS"))
    return *given;
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  std::optional<std::string> home = Process::GetEnv("CUDA_HOME");
  llvm::SmallString<128> path(home ? *home : "/usr/local/cuda");
  llvm::sys::path::append(path, "bin", "ptxas");
  return llvm::sys::fs::can_execute(path) ? path.str().str() : std::string();
}

FailureOr<GpuTarget> kerf::resolveGpu(llvm::StringRef name,
                                      std::string &error) {
  const GpuFacts *gpu = findGpu(name);
  if (gpu && gpu->ptx > 0)
    return GpuTarget{gpu->name.str(), gpu->processors, gpu->ptx, findPtxas()};
  error = "no kernels are made for GPU '" + name.str() + "', expected " +
          listCompiledGpus();
  return failure();
}
