//===- CudaTest.cpp - the cuda device against plain loops -----------------===//
//
// kerf-cuda-test [seed]: every step of this folder, errors, order between
// streams and graphs. kerf-cuda-test fault | sync: what is said of a kernel
// that leaves its memory. Runs on a GPU, or on the simulator that
// KERF_CUDA_PATH names.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include <cstdio>
#include <cstdlib>

using namespace cudatest;

static int finish(const char *what) {
  std::printf("%s: %d failures\n", what, failures());
  return failures() ? 1 : 0;
}

/// 0: there is a device. 77: there is none, and none was named.
static int findDevice() {
  Gpu gpu;
  if (gpu.message.empty()) {
    std::printf("%s\n", api().describe(gpu));
    return 0;
  }
  std::fprintf(stderr, "no device: %s\n", gpu.message.c_str());
  const char *path = std::getenv("KERF_CUDA_PATH");
  return path && *path ? 1 : 77;
}

/// Creating a device, or else preparing a product, says `text`; creating it
/// ends with `status`, if given.
static void testRefusal(const char *text, const char *status) {
  Gpu gpu;
  expectText(gpu.message.empty() ? matmulMessage(gpu) : gpu.message, text);
  if (status && gpu.status != std::atoi(status))
    failed("creating the device ended with %d, expected %s", int(gpu.status),
           status);
}

int main(int argc, char **argv) {
  std::string first = argc > 1 ? argv[1] : "1";
  if (first == "refuses" && argc >= 3) {
    testRefusal(argv[2], argc > 3 ? argv[3] : nullptr);
    return finish(argv[2]);
  }
  if (int status = findDevice())
    return status;
  if (first == "fault" || first == "sync") {
    testFatal(first);
    return finish(argv[1]);
  }
  unsigned seed = std::strtoul(first.c_str(), nullptr, 10);
  std::mt19937 random(seed);
  testSteps();
  testStreams();
  testMatmul(random);
  testEpilogues(random);
  testBadInput();
  testMeasuring(random);
  return finish(("seed " + std::to_string(seed)).c_str());
}
