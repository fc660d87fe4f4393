//===- KernelsTest.h - tests of the plug-in's own kernels -----------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_TEST_KERNELSTEST_H
#define KERF_DEVICES_CUDA_KERNELS_TEST_KERNELSTEST_H

#include "../../test/Support.h"

#include <cstdio>

namespace cudatest {

struct AttentionCase;

/// What is written to stderr until `text` is asked for, once.
class Captured {
public:
  Captured();
  std::string text();

private:
  FILE *file;
  int before;
};

/// Draws inputs of a case, runs it and its gradient twice each, and compares
/// with plain loops. `wide`: rows in whole 16 bytes. With `small` bytes of
/// workspace where it is positive.
void runAttention(const Gpu &gpu, std::mt19937 &random, AttentionCase &c,
                  bool wide, int64_t small = 0);

/// What a case's inputs give, by tensor, in the order y, lse, dq, dk, dv: the
/// gradient is of the forward pass's own results.
struct AttentionResults {
  static constexpr const char *names[] = {"y", "lse", "dq", "dk", "dv"};
  std::vector<double> tensors[5];
};

/// Runs a case whose inputs are drawn, both directions.
AttentionResults attentionResults(const Gpu &gpu, AttentionCase &c);

/// Draws so many cases of each kind.
void testAttention(const Gpu &gpu, std::mt19937 &random, int64_t cases);
void testGroupedMatmul(const Gpu &gpu, std::mt19937 &random, int64_t cases);
/// Those on tensor cores, in the form that the device chooses.
void testGroupedWide(const Gpu &gpu, std::mt19937 &random, int64_t cases);
/// Sizes that do not fit show in `synchronize`; each on a device of its own.
void testGroupedSizes();
/// Attention that cuDNN takes. False where it is not installed.
bool testFused();
/// Attention over many tiles, up to `longest` positions: by cuDNN, where it is,
/// and by own kernels, whose results are compared. Prints which directions
/// cuDNN takes. False where it is not installed.
bool testTiles(int64_t longest);
/// Which kernels are chosen, and what is refused.
void testChoices();

} // namespace cudatest

#endif // KERF_DEVICES_CUDA_KERNELS_TEST_KERNELSTEST_H
