//===- EmulatedAvx512Bf16.cpp - KernelsAvx512Bf16.cpp on any processor ----===//

#define KERF_EMULATE_BF16
#include "Emulated.h"

#include "../KernelsAvx512Bf16.cpp"
