//===- main.cpp - kerf-run ------------------------------------------------===//
//
// Trains a compiled model; kerf/Train/Run.h.
//
//===----------------------------------------------------------------------===//

#include "kerf/Train/Run.h"

int main(int argc, char **argv) { return kerf::runtime::runMain(argc, argv); }
