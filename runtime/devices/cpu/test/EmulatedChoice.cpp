//===- EmulatedChoice.cpp - loops that are emulated -----------------------===//
//
// In place of KernelChoice.cpp: this machine has AVX-512 and AMX in the loops
// of Emulated*.cpp, and nothing else.
//
//===----------------------------------------------------------------------===//

#include "../Kernels.h"

#include <cstring>
#include <initializer_list>

using namespace kerf::cpu;

const Kernels &kerf::cpu::kernels() { return amxKernels; }

const Kernels *kerf::cpu::findKernels(const char *name) {
  for (const Kernels *kernels :
       {&avx512Kernels, &avx512Bf16Kernels, &amxKernels})
    if (std::strcmp(kernels->name, name) == 0)
      return kernels;
  return nullptr;
}
