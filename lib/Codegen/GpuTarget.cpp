//===- GpuTarget.cpp - GPUs that kernels are made for ---------------------===//

#include "kerf/Codegen/Codegen.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace kerf;

namespace {
/// A part that kernels can be made for; `processors` is that of the usual one.
struct KnownGpu {
  llvm::StringLiteral name;
  int computeMajor;
  int processors;
};
} // namespace

static constexpr KnownGpu kKnown[] = {
    {"sm_80", 8, 108}, // A100
    {"sm_90", 9, 132}, // H100 SXM, H200
};

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
  for (const KnownGpu &known : kKnown)
    if (known.name == name)
      return GpuTarget{name.str(), known.computeMajor, known.processors,
                       findPtxas()};
  auto names = llvm::map_range(kKnown, [](const KnownGpu &known) {
    return llvm::StringRef(known.name);
  });
  error =
      "unknown GPU '" + name.str() + "', expected " + llvm::join(names, " or ");
  return failure();
}
