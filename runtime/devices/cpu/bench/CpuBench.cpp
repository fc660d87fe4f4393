//===- CpuBench.cpp - speed of the cpu device -----------------------------===//
//
// kerf-cpu-bench [workers] [matmul|attention|all] [f32|bf16]: matmuls of a
// training step of GPT-2 124M (2048 tokens) beside oneDNN's best and the
// processor's peak, and attention. The peak is measured: the fastest small
// matmul. One worker is timed by the processor time it takes, which a busy
// machine disturbs less.
//
//===----------------------------------------------------------------------===//

#include "OneDnn.h"
#include "kerf/Artifact/CpuWorkspace.h"
#include "kerf/Runtime/Device.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static const kerf_device_api &api = *kerf_device_entry();
static kerf_device *device;
static int workers;

static double now() { return benchClock(workers); }

/// Memory of an operand with small numbers.
static void *makeOperand(int64_t bytes, bool bf16) {
  void *memory;
  char error[256];
  if (api.alloc(device, bytes, &memory, error, sizeof error)) {
    std::fprintf(stderr, "%s\n", error);
    std::exit(1);
  }
  for (int64_t i = 0; i < bytes / (bf16 ? 2 : 4); ++i) {
    float value = static_cast<float>(i * 7919 % 127 - 63) / 64;
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (bf16)
      static_cast<uint16_t *>(memory)[i] = static_cast<uint16_t>(bits >> 16);
    else
      static_cast<float *>(memory)[i] = value;
  }
  return memory;
}

/// Best seconds of a command on operands of these sizes (0: absent).
static double timeCommand(uint16_t opcode, const std::vector<int64_t> &attrs,
                          const std::vector<int64_t> &bytes, bool bf16,
                          int runs) {
  std::vector<kerf_operand> operands(bytes.size());
  std::vector<void *> pointers(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    operands[i].kind = bytes[i] ? KERF_ARENA : KERF_ABSENT;
    operands[i].bytes = bytes[i];
    pointers[i] = bytes[i] ? makeOperand(bytes[i], bf16) : nullptr;
  }
  kerf_command command = {};
  command.opcode = opcode;
  command.operand_count = static_cast<uint32_t>(operands.size());
  command.attr_count = static_cast<uint32_t>(attrs.size());
  kerf_step_info info = {};
  info.command = &command;
  info.operands = operands.data();
  info.attrs = attrs.data();
  kerf_step *step;
  char error[256];
  double best = 1e30;
  if (api.prepare(device, &info, &step, error, sizeof error)) {
    std::fprintf(stderr, "%s\n", error);
    std::exit(1);
  }
  for (int run = 0; run < runs; ++run) {
    double start = now();
    api.execute(step, pointers.data(), error, sizeof error);
    best = std::min(best, now() - start);
  }
  api.destroy_step(step);
  for (size_t i = 0; i < bytes.size(); ++i)
    api.free(device, pointers[i], bytes[i]);
  return best;
}

struct Shape {
  const char *name;
  int64_t m, n, k;
  bool transposedA, transposedB, f32Result;
};

static double timeMatmul(const Shape &s, bool bf16, int runs) {
  int64_t type = bf16 ? KERF_BF16 : KERF_F32, element = bf16 ? 2 : 4;
  int64_t result = s.f32Result ? KERF_F32 : type;
  std::vector<int64_t> attrs = {type,
                                type,
                                result,
                                1,
                                s.m,
                                s.n,
                                s.k,
                                0,
                                s.transposedA ? 1 : s.k,
                                s.transposedA ? s.m : 1,
                                0,
                                s.transposedB ? 1 : s.n,
                                s.transposedB ? s.k : 1,
                                0,
                                s.n,
                                0,
                                0,
                                0};
  return timeCommand(KERF_OP_MATMUL, attrs,
                     {s.m * s.k * element, s.k * s.n * element,
                      s.m * s.n * kerf_dtype_bytes(result),
                      kerf_cpu_matmul_workspace(attrs.data(), workers)},
                     bf16, runs);
}

static void benchMatmul(bool bf16) {
  double peak = 0;
  for (int64_t k : {256, 512, 1024})
    peak = std::max(
        peak, 2e-9 * 448 * 512 * k * workers /
                  timeMatmul({"", 448 * workers, 512, k, false, false, true},
                             bf16, 30));
  std::printf("%s, %d workers; best small matmul %.0f Gflop/s\n",
              bf16 ? "bf16" : "f32", workers, peak);
  const int64_t layers[][2] = {
      {2304, 768}, {768, 768}, {3072, 768}, {768, 3072}, {50257, 768}};
  constexpr int64_t tokens = 2048;
  double all = 0, allDnn = 0;
  for (auto [n, k] : layers)
    for (const Shape &s : {Shape{"forward", tokens, n, k, false, true, false},
                           Shape{"dgrad", tokens, k, n, false, false, false},
                           Shape{"wgrad", n, k, tokens, true, false, true}}) {
      int runs = n > 10000 ? 3 : 10;
      double seconds = timeMatmul(s, bf16, runs);
      double dnn = timeOneDnn(bf16, bf16 && !s.f32Result, s.m, s.n, s.k,
                              s.transposedA, s.transposedB, workers, runs);
      double flop = 2e-9 * s.m * s.n * s.k;
      std::printf("  %-8s %5lld x %5lld x %5lld  %8.2f ms  %6.0f Gflop/s  "
                  "%.2f of peak",
                  s.name, (long long)s.m, (long long)s.n, (long long)s.k,
                  seconds * 1e3, flop / seconds, flop / seconds / peak);
      if (dnn)
        std::printf("  %.2f of oneDNN (%.2f ms)", dnn / seconds, dnn * 1e3);
      std::printf("\n");
      std::fflush(stdout);
      all += seconds;
      allDnn += dnn;
    }
  std::printf("  sum %.1f ms, oneDNN %.1f ms\n", all * 1e3, allDnn * 1e3);
}

static void benchAttention(bool bf16, int64_t b, int64_t h, int64_t g,
                           int64_t s, int64_t d) {
  std::vector<int64_t> attrs = {
      bf16 ? KERF_BF16 : KERF_F32, b, h, g, s, s, d, d};
  // [B,S,H,D] for q, y, dy, dq; [B,S,G,D] for the rest.
  for (int64_t heads : {h, g, g, h, h, h, g, g})
    for (int64_t stride : {s * heads * d, heads * d, d})
      attrs.push_back(stride);
  double scale = 1 / std::sqrt(static_cast<double>(d));
  attrs.resize(KERF_ATTN_ATTR_COUNT);
  attrs[KERF_ATTN_CAUSAL] = 1;
  std::memcpy(&attrs[KERF_ATTN_SCALE], &scale, 8);
  int64_t wide = b * s * h * d * (bf16 ? 2 : 4), narrow = wide / h * g;
  int64_t rows = b * h * s * 4;
  double forward =
      timeCommand(KERF_OP_ATTENTION, attrs,
                  {wide, narrow, narrow, wide, rows, 0, 0, 0, 0, 0, 0, 0,
                   kerf_cpu_attention_workspace(attrs.data(), workers)},
                  bf16, 20);
  double backward = timeCommand(
      KERF_OP_ATTENTION_BACKWARD, attrs,
      {wide, narrow, narrow, wide, rows, wide, wide, narrow, narrow, 0, 0, 0, 0,
       0, 0, 0, kerf_cpu_attention_backward_workspace(attrs.data(), workers)},
      bf16, 20);
  std::printf("%s causal attention B=%lld H=%lld G=%lld S=%lld D=%lld, %d "
              "workers: forward %.2f ms, both %.2f ms\n",
              bf16 ? "bf16" : "f32", (long long)b, (long long)h, (long long)g,
              (long long)s, (long long)d, workers, forward * 1e3,
              (forward + backward) * 1e3);
}

int main(int argc, char **argv) {
  kerf_device_options options = {};
  options.workers = argc > 1 ? std::atoi(argv[1]) : 0;
  std::string what = argc > 2 ? argv[2] : "all";
  std::string dtype = argc > 3 ? argv[3] : "";
  char error[256];
  if (api.create(&options, &device, error, sizeof error)) {
    std::fprintf(stderr, "%s\n", error);
    return 1;
  }
  workers = api.workers(device);
  std::printf("%s\n", api.describe(device));
  for (bool bf16 : {false, true}) {
    if (dtype == (bf16 ? "f32" : "bf16"))
      continue;
    if (what != "matmul") {
      benchAttention(bf16, 4, 12, 12, 512, 64);
      benchAttention(bf16, 1, 12, 12, 2048, 64);
      benchAttention(bf16, 4, 8, 2, 512, 64);
    }
    if (what != "attention")
      benchMatmul(bf16);
  }
  api.destroy(device);
  return 0;
}
