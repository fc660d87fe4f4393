//===- KernelsAvx2.cpp - loops for AVX2 with FMA --------------------------===//

#define KERF_LANES 8
#define KERF_STRIP 6
#define KERF_PANEL 16
#include "KernelsImpl.h"

const kerf::cpu::Kernels kerf::cpu::avx2Kernels =
    impl::table("avx2", impl::f32Engine);
