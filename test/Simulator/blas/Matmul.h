//===- Matmul.h - a matmul and its epilogue -------------------------------===//

#ifndef KERF_SIMULATOR_BLAS_MATMUL_H
#define KERF_SIMULATOR_BLAS_MATMUL_H

#include "Api.h"

#include <string>
#include <vector>

struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t order = CUBLASLT_ORDER_COL, batch = 1;
  int64_t batchStride = 0;
};

struct cublasLtMatmulDescOpaque {
  cublasComputeType_t compute = 0;
  cudaDataType_t scale = 0;
  int32_t pointerMode = 0, transA = 0, transB = 0;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr;
  int64_t biasBatchStride = 0;
  void *aux = nullptr;
  int64_t auxLeading = 0, auxBatchStride = 0;
  int32_t biasType = -1;                           ///< -1: as d
  const void *scaleA = nullptr, *scaleB = nullptr; ///< of an f32; null: 1
};

struct cublasLtMatmulPreferenceOpaque {
  uint64_t workspaceBytes = 0;
  uint32_t reductions = 7;
  uint32_t alignment[4] = {256, 256, 256, 256}; ///< of a, b, c, d
};

namespace kerf::sim {

/// An algorithm, as kept in cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t magic;
  uint32_t split; ///< parts of the sum over k
  uint32_t alignment[4];
  uint32_t tile; ///< only a number
};

/// D = epilogue(alpha op(A) op(B) + beta C). Pointers are device addresses.
struct Matmul {
  cublasLtMatmulDescOpaque desc;
  cublasLtMatrixLayoutOpaque a, b, c, d;
  uint64_t aAt, bAt, cAt, dAt;
  double alpha, beta;
  Algorithm algorithm;
  uint64_t workspace, workspaceBytes;
};

uint32_t bytesOf(cudaDataType_t type);
/// "" or why the library would refuse.
std::string refusal(const cublasLtMatmulDescOpaque &desc,
                    const cublasLtMatrixLayoutOpaque &a,
                    const cublasLtMatrixLayoutOpaque &b,
                    const cublasLtMatrixLayoutOpaque &c,
                    const cublasLtMatrixLayoutOpaque &d);
/// Bytes that splitting the sum needs.
uint64_t splitBytes(const cublasLtMatrixLayoutOpaque &d, uint32_t split);
/// Bytes that the epilogue needs besides: of one that sums rows of d.
uint64_t epilogueBytes(uint32_t epilogue);
/// Whether an epilogue that sums a factor finds it by columns of the summed
/// index; true for others.
bool sumsColumns(const cublasLtMatmulDescOpaque &desc);
/// Computes it now. Throws Trap where an operand is outside of memory.
void run(const Matmul &matmul);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_BLAS_MATMUL_H
