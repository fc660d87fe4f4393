//===- main.cpp - kerf-lsp-server ---===//
//
// Language server of the IR.
//
//===----------------------------------------------------------------------===//

#include "kerf/Pipeline/Mains.h"

int main(int argc, char **argv) { return kerf::lspMain(argc, argv); }
