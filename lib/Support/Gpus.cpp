//===- Gpus.cpp - facts of NVIDIA's GPUs ----------------------------------===//

#include "kerf/Support/Gpus.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

/// Multiprocessors from NVIDIA's data sheets; versions from the PTX manual's
/// release notes. PTX 8.1 is the first that rounds to 8-bit floats on sm_89.
static constexpr GpuFacts kGpus[] = {
    {"sm_70", 80, 0},    // V100
    {"sm_80", 108, 80},  // A100
    {"sm_86", 84, 80},   // A40
    {"sm_89", 128, 81},  // RTX 4090
    {"sm_90", 132, 80},  // H100 SXM, H200
    {"sm_100", 148, 86}, // B200
    {"sm_103", 148, 88}, // B300
    {"sm_120", 170, 87}, // RTX 5090
};

const GpuFacts *kerf::findGpu(llvm::StringRef arch) {
  if (arch.ends_with("a") || arch.ends_with("f"))
    arch = arch.drop_back();
  const auto *found = llvm::find_if(
      kGpus, [&](const GpuFacts &gpu) { return gpu.name == arch; });
  return found == std::end(kGpus) ? nullptr : found;
}

int kerf::capabilityOf(llvm::StringRef arch) {
  int capability = 0;
  bool isNamed =
      arch.consume_front("sm_") && !arch.consumeInteger(10, capability);
  return isNamed ? capability : 0;
}

std::string kerf::listCompiledGpus() {
  std::string names;
  for (const GpuFacts &gpu : kGpus)
    if (gpu.ptx > 0) {
      bool isLast = &gpu == std::end(kGpus) - 1;
      names += (names.empty() ? "" : isLast ? " or " : ", ") + gpu.name.str();
    }
  return names;
}
