//===- main.cpp - kerf-inspect --------------------------------------------===//
//
// Counts, runs and checks models.
//
//===----------------------------------------------------------------------===//

#include "kerf/Pipeline/Mains.h"

int main(int argc, char **argv) { return kerf::inspectMain(argc, argv); }
