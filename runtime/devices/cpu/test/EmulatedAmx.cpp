//===- EmulatedAmx.cpp - KernelsAmx.cpp on any processor ------------------===//

#define KERF_EMULATE_BF16
#include "Emulated.h"

#include "../KernelsAmx.cpp"
