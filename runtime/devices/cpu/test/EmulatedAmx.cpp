//===- EmulatedAmx.cpp - KernelsAmx.cpp on any processor ------------------===//

#include "Emulated.h"

#include "../KernelsAmx.cpp"
