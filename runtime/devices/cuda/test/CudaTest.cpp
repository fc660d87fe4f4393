//===- CudaTest.cpp - the cuda device against plain loops -----------------===//
//
// kerf-cuda-test [seed]: every group of tests in one process.
// kerf-cuda-test GROUP [seed]: one of them, so that a driver that ends the
// process takes no other group along. kerf-cuda-test groups: their names, in
// order; what a driver may crash at comes last. kerf-cuda-test fault | sync:
// what is said of a kernel that leaves its memory. Runs on a GPU, or on the
// simulator that KERF_CUDA_PATH names.
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

/// Creating a device, or else preparing a matmul, says `text`; creating it
/// ends with `status`, if given.
static void testRefusal(const char *text, const char *status) {
  Gpu gpu;
  expectText(gpu.message.empty() ? matmulMessage(gpu) : gpu.message, text);
  if (status && gpu.status != std::atoi(status))
    failed("creating the device ended with %d, expected %s", int(gpu.status),
           status);
}

namespace {
struct Group {
  const char *name;
  void (*run)(std::mt19937 &random);
};
} // namespace

static const Group groups[] = {
    {"steps", [](std::mt19937 &) { testSteps(); }},
    {"streams", [](std::mt19937 &) { testStreams(); }},
    {"matmul", testMatmul},
    {"epilogues", testEpilogues},
    {"refusals", [](std::mt19937 &) { testBadInput(); }},
    {"measuring", testMeasuring},
    {"abuse", [](std::mt19937 &) { testAbuse(); }},
};

static int printGroups() {
  for (const Group &group : groups)
    std::puts(group.name);
  return 0;
}

static bool isGroup(const std::string &name) {
  for (const Group &group : groups)
    if (name == group.name)
      return true;
  return false;
}

/// Runs the group of this name, or all.
static int runGroups(const std::string &name, unsigned seed) {
  std::mt19937 random(seed);
  for (const Group &group : groups)
    if (name.empty() || name == group.name)
      group.run(random);
  std::string what = name.empty() ? "" : name + ", ";
  return finish((what + "seed " + std::to_string(seed)).c_str());
}

int main(int argc, char **argv) {
  std::string first = argc > 1 ? argv[1] : "1";
  if (first == "groups")
    return printGroups();
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
  if (isGroup(first))
    return runGroups(first, argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1);
  char *end = nullptr;
  unsigned seed = std::strtoul(first.c_str(), &end, 10);
  if (!*end)
    return runGroups("", seed);
  std::fprintf(stderr, "no group '%s'; 'groups' lists them\n", argv[1]);
  return 2;
}
