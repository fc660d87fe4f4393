//===- FusedTest.cpp - attention by cuDNN against plain loops -------------===//

#include "AttentionCase.h"
#include "KernelsTest.h"

#include "kerf/Artifact/CudaWorkspace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace cudatest;

namespace {
struct Fused {
  uint32_t dtype;
  int64_t b, h, g, sq, sk, d, dv;
  bool causal = false;
  int64_t window = 0;
  bool segments = false;
};
} // namespace

static constexpr Fused cases[] = {
    {KERF_BF16, 1, 2, 2, 20, 128, 64, 64},
    {KERF_BF16, 2, 4, 2, 40, 40, 64, 64, true},
    {KERF_F16, 1, 6, 2, 33, 33, 128, 128, true, 7},
    {KERF_BF16, 1, 2, 2, 24, 24, 192, 128, true},
    {KERF_F16, 1, 1, 1, 17, 17, 256, 256, true},
    {KERF_BF16, 1, 4, 1, 9, 31, 80, 24},
    {KERF_BF16, 2, 2, 1, 48, 48, 64, 64, true, 0, true},
    {KERF_F16, 1, 2, 2, 30, 30, 32, 64, true, 5, true},
};

static AttentionCase caseOf(const Fused &f) {
  AttentionCase c;
  c.dtype = f.dtype;
  c.b = f.b;
  c.h = f.h;
  c.g = f.g;
  c.sq = f.sq;
  c.sk = f.sk;
  c.d = f.d;
  c.dv = f.dv;
  c.causal = f.causal;
  c.window = f.window;
  c.segments = f.segments;
  c.scale = 1 / std::sqrt(double(f.d));
  const int64_t global[] = {f.b, f.h, f.sq, f.sk};
  std::copy(global, global + 4, c.global);
  return c;
}

/// Runs a case; returns what KERF_CUDA_LOG told of it.
static std::string run(const Gpu &gpu, AttentionCase &c, bool wide = true,
                       int64_t small = 0) {
  std::mt19937 random(1);
  int before = failures();
  Captured captured;
  runAttention(gpu, random, c, wide, small);
  std::string text = captured.text();
  if (failures() > before)
    std::fputs(text.c_str(), stderr);
  return text;
}

/// 91900 of "by cuDNN 9.19.0"; 0 where there is none.
static int versionIn(const std::string &log) {
  int major = 0, minor = 0, patch = 0;
  const char *at = std::strstr(log.c_str(), "by cuDNN 9.");
  if (!at || std::sscanf(at, "by cuDNN %d.%d.%d", &major, &minor, &patch) != 3)
    return 0;
  return 10000 * major + 100 * minor + patch;
}

static int countOf(const std::string &log, const std::string &text) {
  int count = 0;
  for (size_t at = log.find(text); at != log.npos; at = log.find(text, at + 1))
    ++count;
  return count;
}

/// How many of a case's two directions cuDNN takes for sure, where it was
/// tried: what it refuses elsewhere must only be right.
static int expectedOf(const Fused &f, int capability, int version) {
  bool isPlain = f.d <= 128 && f.dv <= 128 && !f.segments;
  if (capability != 80 && capability != 90)
    return 0;
  if (version <= 91500)
    return isPlain;
  return !f.segments && (isPlain || capability == 90) ? 2 : 1;
}

static void expectBoth(const std::string &log, const AttentionCase &c,
                       const std::string &expected) {
  size_t first = log.find(expected);
  if (first == log.npos || log.find(expected, first + 1) == log.npos)
    failed("%s: expected '%s' of both directions, found:\n%s",
           c.describe().c_str(), expected.c_str(), log.c_str());
}

/// Less workspace: more parts, the same gradients.
static void testParts(const Gpu &gpu) {
  struct {
    int64_t heads;
    const char *parts;
  } const sizes[] = {{8, "1 parts"}, {4, "2 parts"}, {2, "4 parts"}};
  for (auto [heads, parts] : sizes) {
    AttentionCase c = caseOf({KERF_BF16, 2, 4, 2, 20, 20, 64, 64, true});
    int64_t unit = 2 * 128 * 128 + 2 * c.sk * (c.d + c.dv); // of a query head
    int64_t delta = kerf_cuda_attention_delta(c.attributes().data());
    std::string log = run(gpu, c, true,
                          delta + heads * unit + KERF_CUDA_ATTENTION_EXTRA +
                              KERF_CUDA_ATTENTION_ALIGN);
    expectText(log, parts);
  }
}

/// Gradients of the benchmark's models have room for cuDNN, and the device
/// splits them by that room as the compiler did.
static void testModelParts() {
  struct {
    const char *model;
    int64_t b, h, g, s, d, rows, groups;
  } const models[] = {{"gpt2-124m", 32, 12, 12, 1024, 64, 16, 12},
                      {"gpt2-1.5b", 16, 25, 25, 1024, 64, 8, 25},
                      {"llama-1b", 4, 32, 4, 4096, 64, 2, 4},
                      {"llama-3-8b-8-layers", 2, 32, 8, 8192, 128, 1, 4},
                      {"moe-1b", 16, 16, 8, 2048, 64, 8, 8}};
  for (const auto &m : models) {
    AttentionCase c =
        caseOf({KERF_BF16, m.b, m.h, m.g, m.s, m.s, m.d, m.d, true});
    std::vector<int64_t> attrs = c.attributes();
    auto planned = kerf_cuda_attention_planned(attrs.data());
    auto parts = kerf_cuda_attention_parts(
        attrs.data(), kerf_cuda_attention_backward_workspace(attrs.data()) -
                          kerf_cuda_attention_delta(attrs.data()) -
                          KERF_CUDA_ATTENTION_ALIGN);
    if (planned.rows != m.rows || planned.groups != m.groups ||
        planned.bytes > KERF_CUDA_ATTENTION_MOST_BYTES ||
        parts.rows != planned.rows || parts.groups != planned.groups)
      failed("%s: parts of %lld rows and %lld key heads in %lld bytes", m.model,
             (long long)planned.rows, (long long)planned.groups,
             (long long)planned.bytes);
  }
}

/// Sums of dq in any order: by batch rows that have room for them, and in the
/// fixed order where none has.
static void testAnyOrder() {
  Variable any("KERF_CUDA_ATTENTION_ANY_ORDER", "1");
  Gpu gpu;
  struct {
    Fused fused;
    int64_t sums; ///< rows of them that the workspace has room for
    const char *parts;
  } const sizes[] = {
      {{KERF_BF16, 2, 4, 2, 40, 40, 64, 64, true}, 2, "1 parts"},
      {{KERF_BF16, 2, 4, 2, 40, 40, 64, 64, true}, 1, "2 parts"},
      {{KERF_F16, 2, 2, 2, 33, 33, 128, 128, true, 7}, 1, "2 parts"}};
  for (const auto &[fused, sums, parts] : sizes) {
    AttentionCase c = caseOf(fused);
    c.repeats = false;
    int64_t row = (capabilityOf(gpu) < 90 ? 8 : 4) * c.h * c.sq * c.d;
    if (c.h > c.g)
      row += 2 * c.h * c.sk * (c.d + c.dv);
    std::string log =
        run(gpu, c, true,
            kerf_cuda_attention_delta(c.attributes().data()) + sums * row +
                KERF_CUDA_ATTENTION_EXTRA + 2 * KERF_CUDA_ATTENTION_ALIGN);
    expectText(log, parts);
    expectText(log, "sums of dq in any order");
  }
  AttentionCase c = caseOf({KERF_BF16, 1, 1, 1, 512, 512, 256, 256, true});
  if (run(gpu, c, true, 4096).find("any order") != std::string::npos)
    failed("sums of dq are in a workspace that has no room for them");
}

/// The part of `rank` of so many, whose keys are all, or those of rank `other`
/// (-1: all).
static AttentionCase partOf(Fused f, int64_t ranks, int64_t rank, int64_t other,
                            bool zigzag) {
  int64_t all = f.sq;
  f.sq = all / ranks;
  f.sk = other < 0 ? all : f.sq;
  f.causal = true;
  AttentionCase c = caseOf(f);
  c.global[2] = c.global[3] = all;
  c.offsets[2] = rank * f.sq;
  c.offsets[3] = std::max<int64_t>(other, 0) * f.sq;
  c.zigzag = zigzag ? ranks : 0;
  c.knowsRank = true;
  return c;
}

/// A key head with all its query heads has no room: parts of these.
static void testShares(const Gpu &gpu) {
  for (int64_t ranks : {1, 2}) {
    Fused fused = {KERF_BF16, 2, 8, 2, 24, 24, 64, 32, true};
    AttentionCase c =
        ranks == 1 ? caseOf(fused) : partOf(fused, 2, 1, -1, true);
    std::vector<int64_t> attrs = c.attributes();
    int64_t rest = kerf_cuda_attention_delta(attrs.data()) +
                   kerf_cuda_attention_copied(attrs.data(), /*backward=*/1) +
                   kerf_cuda_attention_sums(attrs.data()).end +
                   KERF_CUDA_ATTENTION_EXTRA + KERF_CUDA_ATTENTION_ALIGN;
    int64_t scores = 2 * 128 * 128, own = 2 * c.sk * (c.d + c.dv);
    // Chunks of queries of a context rank are parts of their own.
    expectText(run(gpu, c, true, rest + scores), "16 parts");
    c = ranks == 1 ? caseOf(fused) : partOf(fused, 2, 1, -1, true);
    expectText(run(gpu, c, true, rest + 2 * (scores + own)), "8 parts");
  }
}

/// What ranks of a sharded sequence see, all of it by cuDNN.
static void testContext(const Gpu &gpu) {
  const Fused grouped = {KERF_BF16, 2, 4, 2, 72, 0, 64, 64};
  const Fused uneven = {KERF_F16, 1, 2, 2, 120, 0, 80, 24};
  auto expect = [&](AttentionCase c, int pieces) {
    std::string log = run(gpu, c);
    // Before 9.15.1 gradients may be own kernels'.
    int taken = countOf(log, "attention by cuDNN");
    if (taken != 2 * pieces &&
        !(taken == pieces && versionIn(log) <= 91500 && pieces > 0))
      failed("%s: cuDNN took %d pieces of %d:\n%s", c.describe().c_str(), taken,
             2 * pieces, log.c_str());
    if (pieces == 0 && countOf(log, "attention not by cuDNN"))
      failed("%s: own kernels where nothing is seen", c.describe().c_str());
  };
  for (const Fused &fused : {grouped, uneven})
    for (int64_t ranks : {2, 3})
      for (int64_t rank = 0; rank < ranks; ++rank) {
        expect(partOf(fused, ranks, rank, -1, true), 2);
        expect(partOf(fused, ranks, rank, -1, false), 1);
        for (int64_t other = 0; other < ranks; ++other) {
          expect(partOf(fused, ranks, rank, other, true), 1);
          expect(partOf(fused, ranks, rank, other, false), other <= rank);
        }
      }
  for (int64_t rank = 0; rank < 2; ++rank)
    for (bool zigzag : {false, true})
      for (int64_t window : {5, 33}) {
        AttentionCase c = partOf(grouped, 2, rank, -1, zigzag);
        c.window = window;
        expect(c, zigzag ? 2 : 1);
      }
}

/// Pieces that a part is not split into, or that are known too late.
static void testContextOthers(const Gpu &gpu) {
  auto expect = [&](AttentionCase c, const std::string &why) {
    expectBoth(run(gpu, c), c, "attention not by cuDNN: " + why);
  };
  const Fused fused = {KERF_BF16, 1, 2, 2, 48, 0, 32, 32};
  AttentionCase c = partOf(fused, 2, 1, -1, true);
  c.knowsRank = false;
  expect(c, "a mask that changes from call to call");
  c = partOf(fused, 2, 1, 0, true);
  c.window = 7;
  expect(c, "a window over a ring of ranks");
  c = partOf(fused, 2, 1, 0, false);
  c.window = 30;
  expect(c, "a window that ends between a rank's queries and keys");
  c = partOf(fused, 2, 1, -1, false);
  c.offsets[2] += 8;
  c.global[2] += 8;
  expect(c, "queries that begin before their keys or end behind them");
  c = partOf(fused, 2, 1, -1, true);
  c.segments = true;
  expect(c, "packed documents on a part of a sequence");
  // Where the compiler planned no copies.
  c = partOf(fused, 2, 1, -1, true);
  expectText(run(gpu, c, true, 4096),
             "attention not by cuDNN: no room for keys by position");
}

/// What Kerf means otherwise stays with the own kernels, and says why.
static void testOthers(const Gpu &gpu) {
  auto expect = [&](AttentionCase c, bool wide, const std::string &why) {
    expectBoth(run(gpu, c, wide), c, "attention not by cuDNN: " + why);
  };
  AttentionCase c = caseOf({KERF_BF16, 1, 2, 2, 16, 16, 32, 32, true});
  expect(c, false, "rows that are not whole 16 bytes");
  AttentionCase other = c;
  other.dropout = 0.25;
  expect(other, true, "dropout draws Kerf's random numbers");
  other = c;
  other.softcap = 1.5;
  expect(other, true, "a soft cap of the scores");
  other = c;
  other.dtype = KERF_F32;
  expect(other, true, "f32");
  other = caseOf({KERF_BF16, 1, 2, 2, 20, 16, 32, 32, true, 4});
  expect(other, true, "queries that may see no key");
  AttentionCase large = c;
  expectText(run(gpu, large, true, 4096),
             "attention not by cuDNN: gradients of the scores of one key head");
}

/// What cuDNN itself refuses, on the stand-in, goes to the own kernels.
static void testRefusals() {
  {
    Variable refuse("KERF_SIM_CUDNN", "refuse");
    Gpu gpu;
    AttentionCase c = caseOf({KERF_BF16, 1, 1, 1, 16, 16, 32, 32, true});
    expectBoth(run(gpu, c), c,
               "attention not by cuDNN: it has no engine for this graph");
  }
  AttentionCase c = caseOf({KERF_BF16, 1, 1, 1, 16, 16, 32, 32, true});
  {
    Variable wrong("KERF_SIM_CUDNN_VERSION", "91001");
    Gpu gpu;
    expectBoth(run(gpu, c), c,
               "attention not by cuDNN: attention is wrong in this version");
  }
  Variable old("KERF_SIM_CUDNN_VERSION", "90100");
  Gpu gpu;
  std::string log = run(gpu, c);
  expectText(log, "attention by cuDNN 9.1.0");
  expectText(log, "gradients before 9.15.1 need a number of keys");
  if (capabilityOf(gpu) != 90)
    return;
  c = partOf({KERF_BF16, 1, 2, 2, 512, 0, 32, 32}, 2, 1, -1, false);
  expectText(run(gpu, c), "attention by cuDNN 9.1.0");
  c.window = 30;
  expectText(run(gpu, c), "parts of a sequence before 9.6 need numbers");
  Variable uneven("KERF_SIM_CUDNN_VERSION", "91200");
  Gpu other;
  c = caseOf({KERF_BF16, 1, 1, 1, 8, 128, 160, 96, true});
  expectText(run(other, c), "gradients in 9.11 and 9.12 need 192 channels");
}

bool cudatest::testFused() {
  Variable log("KERF_CUDA_LOG", "1");
  Gpu gpu;
  testModelParts();
  const char *simulator = std::getenv("KERF_CUDA_PATH");
  int version = 0;
  for (const Fused &fused : cases) {
    AttentionCase c = caseOf(fused);
    std::string text = run(gpu, c);
    if (text.find("libcudnn.so.9 is not found") != text.npos &&
        !(simulator && *simulator)) {
      std::fprintf(stderr, "skipped: %s", text.c_str());
      return false;
    }
    int taken = countOf(text, "attention by cuDNN");
    int expected = expectedOf(fused, capabilityOf(gpu), versionIn(text));
    if (taken < expected)
      failed("%s: cuDNN took %d directions, expected %d:\n%s",
             c.describe().c_str(), taken, expected, text.c_str());
    version = std::max(version, versionIn(text));
    if (fused.segments && versionIn(text))
      expectText(text, "attention not by cuDNN: gradients of packed documents");
  }
  // Elsewhere the own kernels may have taken them.
  if (expectedOf(cases[0], capabilityOf(gpu), version) == 2) {
    testParts(gpu);
    testAnyOrder();
    testShares(gpu);
    testContext(gpu);
  }
  testContextOthers(gpu);
  testOthers(gpu);
  if (std::strstr(api().describe(gpu), "simulator"))
    testRefusals();
  return true;
}
