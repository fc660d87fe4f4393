//===- sample-main.cpp - kerf-runtime-sample: writes a sample -------------===//
//
// kerf-runtime-sample [RANKS|cpu] > sample.kerf
//
//===----------------------------------------------------------------------===//

#include "Samples.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

int main(int argc, char **argv) {
  llvm::StringRef kind = argc > 1 ? argv[1] : "1";
  llvm::outs() << kerf::test::written(
      kind == "cpu" ? kerf::test::cpuProgram()
                    : kerf::test::trainingProgram(std::atoi(kind.data())));
  return 0;
}
