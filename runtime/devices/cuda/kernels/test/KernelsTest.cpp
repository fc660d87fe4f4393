//===- KernelsTest.cpp - the plug-in's own kernels against plain loops ----===//
//
// kerf-cuda-kernels-test [attention|grouped|fused [cases [seed]]]. Runs on a
// GPU, or on the simulator that KERF_CUDA_PATH names. `fused` is attention by
// cuDNN instead; without it all attention is by own kernels.
// kerf-cuda-kernels-test tiles [longest]: attention by cuDNN beside own
// kernels, up to 4099 positions, or `longest`.
//
//===----------------------------------------------------------------------===//

#include "KernelsTest.h"

#include <cstdio>
#include <cstdlib>

using namespace cudatest;

/// Both forms on tensor cores; on other GPUs than those of compute capability
/// 9.0 they are the same.
static void testGroupedForms(std::mt19937 &random, int64_t cases) {
  for (const char *noWgmma : {"0", "1"}) {
    Variable form("KERF_CUDA_NO_WGMMA", noWgmma);
    Gpu gpu;
    testGroupedWide(gpu, random, cases);
  }
}

static int runTiles(int64_t longest) {
  if (!testTiles(longest))
    return 77;
  std::printf("tiles: %d failures\n", failures());
  return failures() ? 1 : 0;
}

int main(int argc, char **argv) {
  std::string which = argc > 1 ? argv[1] : "";
  int64_t cases = argc > 2 ? std::atoll(argv[2]) : 12;
  unsigned seed = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 1;
  std::mt19937 random(seed);
  bool fused = which == "fused";
  Variable own("KERF_CUDA_OWN_ATTENTION", fused ? "0" : "1");
  {
    Gpu gpu;
    if (!gpu.message.empty()) {
      std::fprintf(stderr, "no device: %s\n", gpu.message.c_str());
      const char *path = std::getenv("KERF_CUDA_PATH");
      return path && *path ? 1 : 77;
    }
    std::printf("%s\n", api().describe(gpu));
    if (which == "tiles")
      return runTiles(argc > 2 ? std::atoll(argv[2]) : INT64_MAX);
    if (fused && !testFused())
      return 77;
    if (which != "grouped" && !fused)
      testAttention(gpu, random, cases);
    if (which != "attention" && !fused)
      testGroupedMatmul(gpu, random, 4 * cases);
  }
  if (which != "attention" && !fused) {
    testGroupedForms(random, 2 * cases);
    testGroupedSizes();
  }
  if (which != "grouped" && !fused)
    testChoices();
  std::printf("seed %u: %d failures\n", seed, failures());
  return failures() ? 1 : 0;
}
