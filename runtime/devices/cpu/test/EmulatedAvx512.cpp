//===- EmulatedAvx512.cpp - KernelsAvx512.cpp on any processor ------------===//

#include "Emulated.h"

#include "../KernelsAvx512.cpp"
