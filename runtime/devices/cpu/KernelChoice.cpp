//===- KernelChoice.cpp - the loops for this processor --------------------===//

#include "Isa.h"
#include "Kernels.h"

#include <cstring>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

using namespace kerf::cpu;

/// Tile registers are large; Linux hands them out on request, per process.
static bool tilesGranted() {
  constexpr int requestPermission = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

static bool canRun(const Kernels &kernels) {
  std::string_view name = kernels.name;
  if (name == "generic")
    return true;
  if (name == "avx2")
    return checkFeatures("avx2,f16c,fma", nullptr, 0) == 0;
  constexpr const char *avx512 =
      "avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl";
  if (checkFeatures(avx512, nullptr, 0) != 0)
    return false;
  if (name == "avx512")
    return true;
  if (!hasFeature("avx512bf16"))
    return false;
  return name == "avx512bf16" ||
         (checkFeatures("amx-tile,amx-bf16", nullptr, 0) == 0 &&
          tilesGranted());
}

static const Kernels *const allKernels[] = {&amxKernels, &avx512Bf16Kernels,
                                            &avx512Kernels, &avx2Kernels,
                                            &genericKernels};

const Kernels &kerf::cpu::kernels() {
  for (const Kernels *kernels : allKernels)
    if (canRun(*kernels) && (kernels != &avx512Bf16Kernels || isBf16Fast()))
      return *kernels;
  return genericKernels;
}

const Kernels *kerf::cpu::findKernels(const char *name) {
  for (const Kernels *kernels : allKernels)
    if (std::strcmp(kernels->name, name) == 0)
      return canRun(*kernels) ? kernels : nullptr;
  return nullptr;
}
