//===- PlansTest.cpp - does the real cuDNN take our graphs? ---------------===//
//
// kerf-cudnn-plans NO-DRIVER [all]. Makes plans of the device's graphs for GPUs
// that are only described, with NVIDIA's libcudnn (found as `cuda` finds it)
// and no GPU. Nothing is run. Exits with 77 where cuDNN is missing or cannot
// be given a described GPU (before 9.11). Without `all` a few graphs; a plan
// takes about a second.
//
//===----------------------------------------------------------------------===//

#include "attention/CudnnAttention.h"
#include "kerf/Artifact/CudaWorkspace.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

using namespace kerf::cuda;
using kerf::device::HeadStrides;

namespace {
struct GpuFacts {
  int sm, processors, sharedBytes;
  const char *name;
};

/// What a graph computes, and whether it is known to get a plan.
struct Case {
  const char *name;
  int64_t b, h, g, sq, sk, d, dv;
  bool causal;
  int64_t window;
  bool segments;
  bool forward80, backward80; ///< expected on sm_80; all are on sm_90
  bool bottomRight = false;
};
} // namespace

static constexpr GpuFacts gpus[] = {
    {80, 108, 166912, "NVIDIA A100-SXM4-80GB"},
    {90, 132, 232448, "NVIDIA H100 80GB HBM3"},
};

static constexpr Case cases[] = {
    {"gqa", 1, 8, 2, 512, 512, 128, 128, true, 0, false, true, true},
    {"plain", 2, 4, 4, 256, 512, 64, 64, false, 0, false, true, true},
    {"causal 64", 2, 4, 4, 512, 512, 64, 64, true, 0, false, true, true},
    {"window", 1, 4, 4, 512, 512, 128, 128, true, 100, false, true, true},
    {"gqa window", 1, 8, 2, 512, 512, 64, 64, true, 100, false, true, true},
    {"latent", 1, 4, 4, 512, 512, 192, 128, true, 0, false, true, false},
    {"wide", 1, 4, 4, 512, 512, 256, 256, true, 0, false, true, false},
    {"odd", 2, 3, 3, 300, 300, 64, 64, true, 0, false, true, true},
    {"one key head", 1, 4, 1, 77, 333, 80, 80, false, 0, false, true, true},
    {"packed", 2, 4, 2, 512, 512, 128, 128, true, 0, true, true, false},
    {"packed window", 2, 4, 4, 512, 512, 64, 64, true, 64, true, true, false},
    // The parts that the benchmark's longest sequences are cut into.
    {"part of 1b", 1, 16, 2, 4096, 4096, 64, 64, true, 0, false, true, true},
    {"part of 8b", 1, 4, 1, 8192, 8192, 128, 128, true, 0, false, true, true},
    // Of context ranks: a chunk of queries over all keys before it.
    {"chunk", 1, 8, 2, 512, 2048, 128, 128, true, 0, false, true, true, true},
    {"odd chunk", 2, 4, 4, 20, 100, 64, 64, true, 0, false, true, true, true},
    {"chunk window", 1, 4, 2, 256, 1024, 64, 64, true, 300, false, true, true,
     true},
};

static CudnnDescriptor describe(Cudnn &cudnn, const GpuFacts &gpu) {
  char text[1536];
  int bytes = std::snprintf(
      text, sizeof text,
      "{\"driverVer\":13000,\"cudaDeviceId\":0,\"deviceVer\":%d,"
      "\"totalGlobalMem\":85520809984,\"maxGridSize\":[2147483647,65535,65535],"
      "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
      "\"multiProcessorCount\":%d,\"smCountOrigin\":0,\"warpSize\":32,"
      "\"maxSharedMemoryPerBlock\":49152,"
      "\"maxSharedMemoryPerBlockOptin\":%d,"
      "\"oversizedSharedMemoryPerBlock\":%d,"
      "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
      "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
      "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
      "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,"
      "\"memClockRateKHz\":2619000,\"memoryBusWidth\":5120,"
      "\"l2CacheSize\":52428800,\"deviceName\":\"%s\"}",
      gpu.sm * 10, gpu.processors, gpu.sharedBytes, gpu.sharedBytes, gpu.name);
  CudnnDescriptor description(cudnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  description
      .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, bytes,
           text)
      .finalize();
  return description;
}

/// Dense [B, S, heads, width].
static HeadStrides dense(int64_t rows, int64_t heads, int64_t width) {
  return {rows * heads * width, heads * width, width};
}

static FusedAttention attentionOf(const Case &c, bool backward, bool lse,
                                  bool anyOrder) {
  FusedAttention part;
  part.anyOrder = anyOrder;
  kerf::device::AttentionShape &s = part.shape;
  s = {};
  s.dtype = KERF_BF16;
  s.b = c.b;
  s.h = c.h;
  s.g = c.g;
  s.sq = c.sq;
  s.sk = c.sk;
  s.d = c.d;
  s.dv = c.dv;
  s.q = s.dq = dense(c.sq, c.h, c.d);
  s.k = s.dk = dense(c.sk, c.g, c.d);
  s.v = s.dvs = dense(c.sk, c.g, c.dv);
  s.y = s.dy = dense(c.sq, c.h, c.dv);
  s.causal = c.causal;
  s.window = c.window;
  s.scale = 1 / std::sqrt(double(c.d));
  s.segments = c.segments;
  part.backward = backward;
  part.bottomRight = c.bottomRight;
  part.rowCount = c.sq;
  part.lse = lse;
  part.rowAlignment = c.sq % 4 == 0 ? 16 : 4;
  return part;
}

/// What the compiler places for cuDNN.
static int64_t workspaceOf(const FusedAttention &part) {
  const auto &s = part.shape;
  if (!part.backward)
    return KERF_CUDA_ATTENTION_EXTRA;
  std::vector<int64_t> attrs(KERF_ATTN_ATTR_COUNT);
  const int64_t sizes[] = {s.dtype, s.b, s.h, s.g, s.sq, s.sk, s.d, s.dv};
  std::copy(sizes, sizes + 8, attrs.begin());
  return kerf_cuda_attention_planned(attrs.data()).bytes;
}

/// Is this a version of cuDNN that docs/cuda.md names as not asked for all?
static bool mayRefuse(size_t version, int sm, const Case &c, bool backward) {
  bool isUneven = c.d > 128 && c.d < 192 && c.dv > 64 && c.dv < 128;
  bool isWrong = version == 91000 || version == 91001;
  bool hasNoRest = version < 91501 && c.sk % 128 != 0;
  bool hasNoUneven =
      sm == 90 && isUneven && version >= 91100 && version < 91300;
  return isWrong || (backward && c.segments) ||
         (backward && (hasNoRest || hasNoUneven));
}

/// False where the answer is not the expected one.
static bool runCase(Cudnn &cudnn, const CudnnDescriptor &gpu, int sm,
                    const Case &c, bool backward, bool lse,
                    bool anyOrder = false) {
  FusedAttention part = attentionOf(c, backward, lse, anyOrder);
  bool expected = sm != 80 || (backward ? c.backward80 : c.forward80);
  std::string refusal = fusedRefusal(part);
  if (refusal.empty()) {
    refusal = fusedRefusal(part, cudnn.getVersion(), sm);
    expected &= !mayRefuse(cudnn.getVersion(), sm, c, backward);
  }
  std::shared_ptr<CudnnPlan> plan;
  if (refusal.empty()) {
    CudnnGraph graph(cudnn);
    part.build(graph, cudnn.getVersion());
    plan = CudnnPlan::make(cudnn, graph, workspaceOf(part), anyOrder, refusal,
                           &gpu);
  }
  const char *direction = anyOrder   ? "any order"
                          : backward ? "backward"
                          : lse      ? "forward"
                                     : "no lse";
  if (plan)
    std::printf("sm_%d %-13s %-8s engine %lld, workspace %lld of %lld\n", sm,
                c.name, direction, (long long)plan->engine,
                (long long)plan->workspaceBytes, (long long)workspaceOf(part));
  else
    std::printf("sm_%d %-13s %-8s refused: %s\n", sm, c.name, direction,
                refusal.c_str());
  std::fflush(stdout);
  if (bool(plan) == expected)
    return true;
  std::printf("error: expected %s\n", expected ? "a plan" : "no plan");
  return false;
}

int main(int argc, char **argv) {
  bool all = argc > 2 && !std::strcmp(argv[2], "all");
  if (argc < 2 || !dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) {
    std::fprintf(stderr, "usage: kerf-cudnn-plans NO-DRIVER [all]\n");
    return 2;
  }
  Cudnn cudnn;
  if (!cudnn.open(13000)) {
    std::printf("skipped: %s\n", cudnn.library.failure.c_str());
    return 77;
  }
  std::printf("cuDNN %s\n", cudnn.version().c_str());
  int failures = 0;
  for (const GpuFacts &gpu : gpus) {
    CudnnDescriptor description = describe(cudnn, gpu);
    if (!description.failure.empty()) {
      std::printf("skipped: %s\n", description.failure.c_str());
      return 77;
    }
    for (const Case &c : cases) {
      failures += !runCase(cudnn, description, gpu.sm, c, false, true);
      failures += !runCase(cudnn, description, gpu.sm, c, true, true);
      failures += !runCase(cudnn, description, gpu.sm, c, true, true, true);
      if (!all)
        break;
    }
    if (all)
      failures += !runCase(cudnn, description, gpu.sm, cases[0], false, false);
  }
  std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
