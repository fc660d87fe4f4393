//===- KernelsBench.cpp - speed of the device's own kernels ---------------===//
//
// kerf-cuda-kernels-bench [attention|context|grouped|tiny]: attention forward
// and backward, that of context ranks and long sequences, and matmuls of
// experts, of layers of known models; random numbers, the median of several
// rounds, each of which waits once. `tiny` takes small shapes, to try the
// program where no GPU is. Matmuls of experts are measured in the form that
// the device chooses, and again by mma.sync, which is the same on other GPUs
// than those of compute capability 9.0.
//
//===----------------------------------------------------------------------===//

#include "kerf/Artifact/CudaWorkspace.h"
#include "kerf/Runtime/Device.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

static const kerf_device_api &api = *kerf_device_entry();
static kerf_device *device;

[[noreturn]] static void giveUp(const char *error) {
  std::fprintf(stderr, "kerf-cuda-kernels-bench: error: %s\n", error);
  std::exit(1);
}

/// A million bf16 numbers in [-1, 1]: operands repeat them, since drawing a
/// gigabyte takes longer than what is measured.
static const std::vector<uint16_t> &numbers() {
  static std::vector<uint16_t> drawn;
  std::mt19937 random(1);
  for (int n = drawn.size(); n < 1 << 20; ++n)
    drawn.push_back(static_cast<uint16_t>(
        std::bit_cast<uint32_t>(static_cast<float>(random() % 2049) / 1024 -
                                1) >>
        16));
  return drawn;
}

/// Memory of numbers, or with given words.
static void *makeOperand(int64_t bytes, const std::vector<int32_t> &words) {
  void *memory;
  char error[512];
  if (api.alloc(device, bytes, &memory, error, sizeof error))
    giveUp(error);
  if (!words.empty()) {
    api.copy_in(device, memory, words.data(), bytes);
    return memory;
  }
  auto most = static_cast<int64_t>(numbers().size() * sizeof(uint16_t));
  for (int64_t at = 0; at < bytes; at += most)
    api.copy_in(device, static_cast<char *>(memory) + at, numbers().data(),
                std::min(most, bytes - at));
  return memory;
}

namespace {
struct Operand {
  int64_t bytes = 0; ///< 0: absent
  std::vector<int32_t> words;
};

struct Work {
  std::string what;
  uint16_t opcode;
  std::vector<int64_t> attrs;
  std::vector<Operand> operands;
  double flops;
  std::vector<int64_t> fixed = {}; ///< as kerf_step_info has it
};
} // namespace

/// Seconds of one execution: the median of rounds.
static double timeStep(kerf_step *step, std::vector<void *> &pointers) {
  char error[512];
  constexpr int rounds = 7;
  int runs = 1;
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    auto start = std::chrono::steady_clock::now();
    for (int run = 0; run < runs; ++run)
      if (api.execute(step, pointers.data(), error, sizeof error))
        giveUp(error);
    if (api.synchronize(device, error, sizeof error))
      giveUp(error);
    std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    if (round == 0) // warms up; then each round takes about 20 ms
      runs = static_cast<int>(std::clamp(0.02 / taken.count(), 1.0, 100.0));
    else
      seconds.push_back(taken.count() / runs);
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2,
                   seconds.end());
  return seconds[rounds / 2];
}

static void run(const Work &work) {
  std::vector<kerf_operand> operands(work.operands.size());
  std::vector<void *> pointers(work.operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand &operand = work.operands[i];
    operands[i].kind = operand.bytes ? KERF_ARENA : KERF_ABSENT;
    operands[i].bytes = operand.bytes;
    if (operand.bytes)
      pointers[i] = makeOperand(operand.bytes, operand.words);
  }
  kerf_command command = {};
  command.opcode = work.opcode;
  command.operand_count = static_cast<uint32_t>(operands.size());
  command.attr_count = static_cast<uint32_t>(work.attrs.size());
  kerf_step_info info = {};
  info.command = &command;
  info.operands = operands.data();
  info.attrs = work.attrs.data();
  info.fixed = work.fixed.empty() ? nullptr : work.fixed.data();
  info.name = work.what.c_str();
  kerf_step *step;
  char error[512];
  if (api.prepare(device, &info, &step, error, sizeof error))
    giveUp(error);
  double seconds = timeStep(step, pointers);
  std::printf("%-58s %10.1f us %8.1f TFLOP/s\n", work.what.c_str(),
              seconds * 1e6, work.flops / seconds / 1e12);
  api.destroy_step(step);
  for (size_t i = 0; i < operands.size(); ++i)
    api.free(device, pointers[i], operands[i].bytes);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
struct AttentionShape {
  const char *model;
  int64_t b, s, h, g, d, dv;
  bool causal;
  /// A context rank in the zigzag order, with all keys or those of `other`.
  int64_t ranks = 1, rank = 0, other = -1;
  kerf_dtype dtype = KERF_BF16;

  int64_t queries() const { return s / ranks; }
  int64_t keys() const { return other < 0 ? s : queries(); }
  std::string name() const;
  std::vector<int64_t> attributes() const;
  std::vector<int64_t> fixed(bool backward) const;
};
} // namespace

std::string AttentionShape::name() const {
  char text[128];
  snprintf(text, sizeof text, "%s b=%lld s=%lld h=%lld/%lld d=%lld/%lld%s",
           model, (long long)b, (long long)s, (long long)h, (long long)g,
           (long long)d, (long long)dv, causal ? " causal" : "");
  std::string all = text;
  if (ranks > 1)
    all += " rank " + std::to_string(rank) + "/" + std::to_string(ranks);
  if (other >= 0)
    all += " of " + std::to_string(other);
  return all;
}

std::vector<int64_t> AttentionShape::attributes() const {
  int64_t sq = queries(), sk = keys();
  std::vector<int64_t> attrs = {dtype, b, h, g, sq, sk, d, dv};
  const int64_t heads[] = {h, g, g, h, h, h, g, g};
  const int64_t width[] = {d, d, dv, dv, dv, d, d, dv};
  const int64_t rows[] = {sq, sk, sk, sq, sq, sq, sk, sk};
  for (int i = 0; i < 8; ++i)
    for (int64_t stride :
         {rows[i] * heads[i] * width[i], heads[i] * width[i], width[i]})
      attrs.push_back(stride);
  attrs.push_back(causal);
  attrs.push_back(0);
  attrs.push_back(std::bit_cast<int64_t>(1 / std::sqrt(double(d))));
  attrs.push_back(0);
  attrs.push_back(0);
  for (int64_t whole : {b, h, s, s})
    attrs.push_back(whole);
  attrs.push_back(ranks > 1 ? ranks : 0);
  attrs.push_back(0); // no soft cap
  return attrs;
}

/// Of a rank: where its queries and keys begin.
std::vector<int64_t> AttentionShape::fixed(bool backward) const {
  size_t scalars = kerf_attention_scalars(backward);
  std::vector<int64_t> values(scalars + KERF_ATTN_SEGMENTS_Q, KERF_NOT_FIXED);
  values[scalars + KERF_ATTN_OFFSET_Q] = rank * queries();
  values[scalars + KERF_ATTN_OFFSET_K] =
      std::max<int64_t>(other, 0) * queries();
  return values;
}

/// Multiplications are counted as in Dao 2023: two matmuls forward, five
/// backward, half of them under a causal mask.
static void runAttention(const AttentionShape &a) {
  double matmuls = 2.0 * a.b * a.h * a.queries() * a.keys() *
                   (a.causal ? 0.5 : 1); // per channel
  int64_t bytes = kerf_dtype_bytes(a.dtype);
  int64_t rows = a.b * a.queries() * bytes, keys = a.b * a.keys() * bytes;
  Operand q{rows * a.h * a.d, {}}, k{keys * a.g * a.d, {}};
  Operand v{keys * a.g * a.dv, {}}, y{rows * a.h * a.dv, {}};
  Operand lse{4 * a.b * a.h * a.queries(), {}}, none, offset{4, {0}};
  auto addRest = [&](Work &work, int64_t workspace) {
    for (int i = 0; i < 7; ++i)
      work.operands.push_back(a.ranks > 1 && i >= 5 ? offset : none);
    work.operands.push_back({workspace, {}});
    run(work);
  };
  Work work = {a.name() + " forward", KERF_OP_ATTENTION,      a.attributes(),
               {q, k, v, y, lse},     matmuls * (a.d + a.dv), a.fixed(false)};
  addRest(work, kerf_cuda_attention_workspace(work.attrs.data()));
  work.what = a.name() + " backward";
  work.opcode = KERF_OP_ATTENTION_BACKWARD;
  work.flops = matmuls * (3 * a.d + 2 * a.dv);
  work.fixed = a.fixed(true);
  work.operands = {q, k, v, y, lse, y, q, k, v};
  addRest(work, kerf_cuda_attention_backward_workspace(work.attrs.data()));
}

//===----------------------------------------------------------------------===//
// Matmuls of experts
//===----------------------------------------------------------------------===//

namespace {
struct GroupedShape {
  const char *model;
  int64_t rows, experts, n, k; ///< all rows have an expert
};
} // namespace

static void runGrouped(const GroupedShape &g) {
  Operand x{2 * g.rows * g.k, {}}, y{2 * g.rows * g.n, {}};
  Operand w{2 * g.experts * g.n * g.k, {}}, sizes{4 * g.experts, {}};
  sizes.words.assign(g.experts, static_cast<int32_t>(g.rows / g.experts));
  for (int64_t e = 0; e + 1 < g.experts; e += 2) { // some have more
    int32_t moved = sizes.words[e] / 3;
    sizes.words[e] -= moved;
    sizes.words[e + 1] += moved;
  }
  for (int kind = 0; kind < 2; ++kind) {
    char name[96];
    snprintf(name, sizeof name, "%s rows=%lld experts=%lld n=%lld k=%lld %s",
             g.model, (long long)g.rows, (long long)g.experts, (long long)g.n,
             (long long)g.k, kind ? "weights" : "rows");
    Work work = {name,
                 KERF_OP_GROUPED_MATMUL,
                 {kind, KERF_BF16, KERF_BF16, KERF_BF16, 1, g.rows, g.experts,
                  g.n, g.k, 0, 0, 0},
                 {},
                 2.0 * g.rows * g.n * g.k};
    Operand workspace{kerf_cuda_grouped_workspace(work.attrs.data()), {}};
    if (kind == 0)
      work.operands = {x, w, sizes, y, workspace};
    else // x: [rows, n], w: [rows, k]
      work.operands = {y, x, sizes, w, workspace};
    run(work);
  }
}

/// Takes the GPU; null after a message.
static kerf_device *open() {
  kerf_device_options options = {};
  char error[1024];
  if (!api.create(&options, &device, error, sizeof error))
    return device;
  std::fprintf(stderr, "no device: %s\n", error);
  return nullptr;
}

static void runShapes(const std::string &which) {
  if (which == "tiny")
    for (int64_t ranks : {1, 2})
      runAttention({"tiny", 1, 192, 2, 1, 64, 64, true, ranks, ranks - 1});
  if (which == "" || which == "attention")
    for (const AttentionShape &shape :
         {AttentionShape{"gpt2-124m", 32, 1024, 12, 12, 64, 64, true},
          AttentionShape{"gpt2-1.5b", 16, 1024, 25, 25, 64, 64, true},
          AttentionShape{"llama-1b", 4, 4096, 32, 4, 64, 64, true},
          AttentionShape{"llama-8b", 2, 8192, 32, 8, 128, 128, true},
          AttentionShape{"moe-1b", 16, 2048, 16, 8, 64, 64, true},
          AttentionShape{"f32", 4, 2048, 16, 16, 64, 64, true, 1, 0, -1,
                         KERF_F32},
          AttentionShape{"full", 4, 4096, 16, 16, 128, 128, false},
          AttentionShape{"deepseek", 2, 4096, 16, 16, 192, 128, true}})
      runAttention(shape);
  if (which == "" || which == "context")
    for (const AttentionShape &shape :
         {AttentionShape{"llama-8b", 1, 32768, 32, 8, 128, 128, true},
          AttentionShape{"llama-8b", 1, 32768, 32, 8, 128, 128, true, 4, 1},
          AttentionShape{"llama-8b", 4, 8192, 32, 8, 128, 128, true, 2, 0},
          AttentionShape{"llama-405b", 1, 131072, 16, 1, 128, 128, true, 16, 5},
          AttentionShape{"ring", 1, 16384, 16, 16, 128, 128, true, 4, 2, 1},
          AttentionShape{"ring", 1, 16384, 16, 16, 128, 128, true, 4, 2, 2},
          AttentionShape{"ring", 1, 16384, 16, 16, 128, 128, true, 4, 2, 3}})
      runAttention(shape);
}

static void runGroupedShapes(const std::string &which) {
  if (which == "tiny")
    runGrouped({"tiny", 256, 4, 64, 64});
  if (which == "" || which == "grouped")
    for (const GroupedShape &shape :
         {GroupedShape{"mixtral", 16384, 8, 14336, 4096},
          GroupedShape{"mixtral", 16384, 8, 4096, 14336},
          GroupedShape{"qwen3-moe", 65536, 128, 768, 2048},
          GroupedShape{"qwen3-moe", 65536, 128, 2048, 768}})
      runGrouped(shape);
}

int main(int argc, char **argv) {
  std::string which = argc > 1 ? argv[1] : "";
  if (!open())
    return 77; // as tests say that they are skipped
  std::printf("%s\n", api.describe(device));
  runShapes(which);
  runGroupedShapes(which);
  api.destroy(device);
  std::printf("by mma.sync:\n");
  setenv("KERF_CUDA_NO_WGMMA", "1", 1);
  if (!open())
    return 1;
  runGroupedShapes(which);
  api.destroy(device);
  return 0;
}
