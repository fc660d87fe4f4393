//===- KernelsTest.h - tests of the plug-in's own kernels -----------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_TEST_KERNELSTEST_H
#define KERF_DEVICES_CUDA_KERNELS_TEST_KERNELSTEST_H

#include "../../test/Support.h"

namespace cudatest {

/// Draws so many cases of each kind.
void testAttention(const Gpu &gpu, std::mt19937 &random, int64_t cases);
void testGroupedMatmul(const Gpu &gpu, std::mt19937 &random, int64_t cases);
/// Sizes that do not fit show in `synchronize`; each on a device of its own.
void testGroupedSizes();
/// Which kernels are chosen, and what is refused.
void testChoices();

} // namespace cudatest

#endif // KERF_DEVICES_CUDA_KERNELS_TEST_KERNELSTEST_H
