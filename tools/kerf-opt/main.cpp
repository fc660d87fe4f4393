//===- main.cpp - kerf-opt ---===//
//
// Runs passes on IR.
//
//===----------------------------------------------------------------------===//

#include "kerf/Pipeline/Mains.h"

int main(int argc, char **argv) { return kerf::optMain(argc, argv); }
