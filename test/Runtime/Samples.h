//===- Samples.h - small compiled files for tests -------------------------===//

#ifndef KERF_TEST_RUNTIME_SAMPLES_H
#define KERF_TEST_RUNTIME_SAMPLES_H

#include "kerf/Artifact/Artifact.h"

namespace kerf::test {

/// A file with valid metadata for `ranks` ranks on one axis "data", group 0 of
/// all of them, a program that has nothing, and nothing else. Device "test".
/// `endProgram` gives the program what is added.
ArtifactData emptyProgram(uint32_t ranks = 1);

/// Starts a program of one slot and 64 bytes.
kerf_program &addProgram(ArtifactData &data, llvm::StringRef name);

/// Attributes of a dense f32 matmul c[m,n] = a[m,k] b[k,n].
std::vector<int64_t> matmulAttrs(int64_t m, int64_t n, int64_t k,
                                 bool accumulate = false);

/// Adds a kernel of the test device and returns its index.
uint32_t addKernel(ArtifactData &data, llvm::StringRef symbol, int64_t units);

/// Adds a call of a function of the last program for a micro-batch, corrects
/// the flags of all, and ends the program.
void addCall(ArtifactData &data, uint32_t func, uint32_t microBatch);

/// Three layers y = 2 x w[i], two micro-batches, a sum over both and over the
/// ranks, and an update w[i] += sum. Parts of the arena are named below.
///   forward:  if first: zero sum; for i: t = x w[i]; act[i, slot] = 2 t
///   backward: for i reversed: sum[i] += act[i, slot]
///   update:   all_reduce sum; for i: w[i] += sum[i]; loss = sum[2][0]
///   evaluate: rank number and 100 i + 10 m to `loss`
ArtifactData trainingProgram(uint32_t ranks = 1);
/// The same of one rank without its exchange: a copy onto itself.
ArtifactData aloneProgram();

/// Matmuls, attention and experts for the cpu device, without kernels.
///   inputs a [4,6], b [6,5], q [1,5,2,8], sizes [2,3] i32
///   loss = (2 a b)[3,4]
ArtifactData cpuProgram();

constexpr int64_t kLayers = 3, kMicroBatches = 2, kRows = 2, kWidth = 4;

/// The file's bytes.
std::string written(const ArtifactData &data);

} // namespace kerf::test

#endif // KERF_TEST_RUNTIME_SAMPLES_H
