//===- TilesTest.cpp - attention over many tiles, two ways ----------------===//
//
// Plain loops take too long for thousands of positions. Own kernels and cuDNN
// have nothing in common but what they mean: each checks the other.
//
//===----------------------------------------------------------------------===//

#include "AttentionCase.h"
#include "KernelsTest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

using namespace cudatest;

namespace {
struct Tiles {
  int64_t s, h, g, d;
  bool causal;
  int64_t window = 0;
  bool segments = false;
  int64_t ranks = 1, rank = 0, other = -1; ///< zigzag; keys of `other`, or all
};
} // namespace

/// Several tiles of 128 positions with a rest that fills none; whole ones;
/// those that a window or documents leave out.
static constexpr Tiles cases[] = {
    {259, 2, 1, 64, true},
    {257, 1, 1, 128, false},
    {517, 1, 1, 64, true, 200},
    {384, 2, 2, 64, true, 0, true},
    {384, 2, 1, 128, false, 0, true},
    {1024, 4, 4, 64, true},
    {1021, 8, 2, 128, true},
    {1500, 2, 2, 64, false},
    {2047, 4, 1, 64, true, 600},
    {2048, 2, 2, 128, true, 0, true},
    {4096, 8, 1, 64, true},
    {4096, 2, 2, 128, true},
    {4099, 4, 2, 128, true},
    {1024, 4, 2, 64, true, 0, false, 2, 0},
    {1024, 4, 2, 64, true, 0, false, 2, 1},
    {1536, 2, 2, 128, true, 0, false, 3, 1},
    {2048, 4, 1, 128, true, 300, false, 4, 2},
    {1024, 2, 2, 64, true, 0, false, 2, 1, 0},
    {2048, 2, 2, 128, true, 0, false, 4, 1, 2},
    {2048, 2, 2, 128, true, 0, false, 4, 3, 3},
};

static AttentionCase caseOf(const Tiles &t) {
  AttentionCase c;
  c.dtype = KERF_BF16;
  c.b = 1;
  c.h = t.h;
  c.g = t.g;
  c.sq = t.s / t.ranks;
  c.sk = t.other < 0 ? t.s : c.sq;
  c.d = c.dv = t.d;
  c.causal = t.causal;
  c.window = t.window;
  c.segments = t.segments;
  // Sharper than usual: averages of thousands of values would all be near 0.
  c.scale = 4 / std::sqrt(double(t.d));
  const int64_t global[] = {c.b, c.h, t.s, t.s};
  std::copy(global, global + 4, c.global);
  c.zigzag = t.ranks > 1 ? t.ranks : 0;
  c.offsets[2] = t.rank * c.sq;
  c.offsets[3] = std::max<int64_t>(t.other, 0) * c.sq;
  c.knowsRank = true;
  std::mt19937 random(static_cast<unsigned>(t.s));
  c.draw(random, /*wide=*/true);
  return c;
}

/// Where the results of tensors differ by more than their types explain, and by
/// how much of the largest; "" where they do not.
static std::string differenceOf(const AttentionResults &a,
                                const AttentionResults &b) {
  std::string all;
  for (int n = 0; n < 5; ++n) {
    char text[160] = "";
    double largest = 0, worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < a.tensors[n].size(); ++i) {
      double x = a.tensors[n][i], y = b.tensors[n][i];
      if (std::isnan(x) && std::isnan(y)) // gaps
        continue;
      largest = std::max(largest, std::fabs(x));
      double off = std::fabs(x - y);
      if (!(off <= worst)) {
        worst = std::isnan(off) ? INFINITY : off;
        at = i;
      }
    }
    if (!(worst <= (n == 1 ? 1e-4 : 2e-2) * largest))
      std::snprintf(text, sizeof text, "%s%s differs by %g of %g at %zu",
                    all.empty() ? "" : ", ", AttentionResults::names[n], worst,
                    largest, at);
    all += text;
  }
  return all;
}

/// A device with own kernels alone, or one that asks cuDNN first, for sums of
/// dq in any order perhaps.
static std::unique_ptr<Gpu> open(bool own, bool anyOrder = false) {
  Variable way("KERF_CUDA_OWN_ATTENTION", own ? "1" : "0");
  Variable order("KERF_CUDA_ATTENTION_ANY_ORDER", anyOrder ? "1" : "0");
  return std::make_unique<Gpu>();
}

/// Results on a device; `log` tells which way it was.
static AttentionResults resultsOf(const Gpu &gpu, AttentionCase &c,
                                  std::string &log) {
  int before = failures();
  Captured captured;
  AttentionResults results = attentionResults(gpu, c);
  log = captured.text();
  if (failures() > before)
    std::fputs(log.c_str(), stderr);
  return results;
}

/// Of how many directions cuDNN's log tells.
static const char *takenIn(const std::string &log) {
  size_t first = log.find("attention by cuDNN");
  if (first == log.npos)
    return "neither";
  return log.find("attention by cuDNN", first + 1) == log.npos ? "one" : "both";
}

/// The comparison can fail: other keys are seen.
static void expectDifference(const Gpu &gpu, AttentionCase c,
                             const AttentionResults &results) {
  std::string log, what = c.describe();
  c.window = (c.window ? c.window : c.sk) / 4;
  if (differenceOf(results, resultsOf(gpu, c, log)).empty())
    failed("%s: a window of %lld is not told from this", what.c_str(),
           (long long)c.window);
}

static void compare(const AttentionCase &c, const AttentionResults &own,
                    const AttentionResults &found, const char *how) {
  std::string difference = differenceOf(own, found);
  if (!difference.empty())
    failed("%s: %s between own kernels and cuDNN%s", c.describe().c_str(),
           difference.c_str(), how);
}

bool cudatest::testTiles(int64_t longest) {
  Variable logs("KERF_CUDA_LOG", "1");
  std::unique_ptr<Gpu> fused = open(false), own = open(true);
  std::unique_ptr<Gpu> any = open(false, /*anyOrder=*/true);
  std::string log;
  for (const Tiles &tiles : cases) {
    if (tiles.s > longest)
      continue;
    AttentionCase c = caseOf(tiles);
    AttentionResults found = resultsOf(*fused, c, log);
    if (log.find("libcudnn.so.9 is not found") != log.npos) {
      std::fprintf(stderr, "skipped: %s", log.c_str());
      return false;
    }
    std::printf("%s: cuDNN takes %s\n", c.describe().c_str(), takenIn(log));
    std::fflush(stdout);
    // Of context ranks all of it, on the GPU on which that was seen.
    if (tiles.ranks > 1 && capabilityOf(*fused) == 90 &&
        log.find("not by cuDNN") != log.npos)
      failed("%s: not all of it is cuDNN's:\n%s", c.describe().c_str(),
             log.c_str());
    AttentionResults expected = resultsOf(*own, c, log);
    compare(c, expected, found, "");
    AttentionCase other = c;
    other.repeats = false;
    found = resultsOf(*any, other, log);
    if (log.find("in any order") != log.npos)
      compare(c, expected, found, " with sums in any order");
    if (c.causal && tiles.s < 600)
      expectDifference(*own, c, expected);
  }
  return true;
}
