//===- main.cpp - kerf-import ---------------------------------------------===//
//
// Prints the `kerf.model` of a Hugging Face config.
//
//===----------------------------------------------------------------------===//

#include "kerf/Pipeline/Mains.h"

int main(int argc, char **argv) { return kerf::importMain(argc, argv); }
