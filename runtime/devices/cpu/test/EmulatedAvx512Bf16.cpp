//===- EmulatedAvx512Bf16.cpp - KernelsAvx512Bf16.cpp on any processor ----===//

#include "Emulated.h"

#include "../KernelsAvx512Bf16.cpp"
