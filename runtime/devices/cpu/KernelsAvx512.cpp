//===- KernelsAvx512.cpp - loops for AVX-512 (F, BW, DQ, VL) --------------===//

#define KERF_LANES 16
#define KERF_STRIP 14
#define KERF_PANEL 32
#include "KernelsImpl.h"

const kerf::cpu::Kernels kerf::cpu::avx512Kernels =
    impl::table("avx512", impl::f32Engine);
