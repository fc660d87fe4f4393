//===- main.cpp - kerfc ---------------------------------------------------===//
//
// Compiles a model.
//
//===----------------------------------------------------------------------===//

#include "kerf/Pipeline/Mains.h"

int main(int argc, char **argv) { return kerf::compileMain(argc, argv); }
