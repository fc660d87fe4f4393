//===- sample-main.cpp - kerf-runtime-sample: writes a sample -------------===//
//
// kerf-runtime-sample [RANKS|cpu|stages] > sample.kerf
//
//===----------------------------------------------------------------------===//

#include "StageSamples.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace kerf;

static ArtifactData sampleOf(llvm::StringRef kind) {
  if (kind == "cpu")
    return test::cpuProgram();
  if (kind == "stages")
    return test::pipelineProgram(2);
  return test::trainingProgram(std::atoi(kind.data()));
}

int main(int argc, char **argv) {
  llvm::outs() << test::written(sampleOf(argc > 1 ? argv[1] : "1"));
  return 0;
}
