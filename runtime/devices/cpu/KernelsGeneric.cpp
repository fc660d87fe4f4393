//===- KernelsGeneric.cpp - loops for any x86-64 --------------------------===//

#define KERF_LANES 4
#define KERF_STRIP 2
#define KERF_PANEL 16
#include "KernelsImpl.h"

const kerf::cpu::Kernels kerf::cpu::genericKernels =
    impl::table("generic", impl::f32Engine);
