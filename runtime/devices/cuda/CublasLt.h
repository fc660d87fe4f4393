//===- CublasLt.h - the part of cuBLASLt that is used ---------------------===//
//
// Own declarations, as in Driver.h: NVIDIA's "cuBLASLt API", whose numbers are
// the same in the versions 12 and 13. test/Runtime/vendor_headers.py compares
// them with cublasLt.h where that is installed.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_CUBLASLT_H
#define KERF_DEVICES_CUDA_CUBLASLT_H

#include "Driver.h"

#include <cstdint>

namespace kerf::cuda {

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum cudaDataType_t : int {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
  CUDA_R_8F_E4M3 = 28,
  CUDA_R_8F_E5M2 = 29,
};

enum cublasComputeType_t : int {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};

enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

enum cublasLtEpilogue_t : int {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU = 32,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36,
  CUBLASLT_EPILOGUE_GELU_AUX = 160,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
  CUBLASLT_EPILOGUE_DGELU = 192,
  CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
  CUBLASLT_EPILOGUE_BGRADA = 256, ///< over k of the library's first factor
  CUBLASLT_EPILOGUE_BGRADB = 512,
};

enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
  CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17, ///< of an f32 on the device
  CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
};

enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
};

enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};

enum cublasLtReductionScheme_t : int {
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
  CUBLASLT_REDUCTION_SCHEME_MASK = 7,
};

enum cublasLtMatmulAlgoConfigAttributes_t : int {
  CUBLASLT_ALGO_CONFIG_ID = 0,
  CUBLASLT_ALGO_CONFIG_TILE_ID = 1,
  CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,
  CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3,
  CUBLASLT_ALGO_CONFIG_STAGES_ID = 6,
};

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

// X(member, exported name, result, arguments)
#define KERF_CUDA_CUBLASLT(X)                                                  \
  X(getVersion, cublasLtGetVersion, size_t, ())                                \
  X(getStatusString, cublasLtGetStatusString, const char *,                    \
    (cublasStatus_t status))                                                   \
  X(create, cublasLtCreate, cublasStatus_t, (cublasLtHandle_t * handle))       \
  X(destroy, cublasLtDestroy, cublasStatus_t, (cublasLtHandle_t handle))       \
  X(descCreate, cublasLtMatmulDescCreate, cublasStatus_t,                      \
    (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute,                 \
     cudaDataType_t scale))                                                    \
  X(descDestroy, cublasLtMatmulDescDestroy, cublasStatus_t,                    \
    (cublasLtMatmulDesc_t desc))                                               \
  X(descSet, cublasLtMatmulDescSetAttribute, cublasStatus_t,                   \
    (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,      \
     const void *value, size_t bytes))                                         \
  X(layoutCreate, cublasLtMatrixLayoutCreate, cublasStatus_t,                  \
    (cublasLtMatrixLayout_t * layout, cudaDataType_t type, uint64_t rows,      \
     uint64_t columns, int64_t leading))                                       \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy, cublasStatus_t,                \
    (cublasLtMatrixLayout_t layout))                                           \
  X(layoutSet, cublasLtMatrixLayoutSetAttribute, cublasStatus_t,               \
    (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, \
     const void *value, size_t bytes))                                         \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, cublasStatus_t,          \
    (cublasLtMatmulPreference_t * preference))                                 \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, cublasStatus_t,        \
    (cublasLtMatmulPreference_t preference))                                   \
  X(preferenceSet, cublasLtMatmulPreferenceSetAttribute, cublasStatus_t,       \
    (cublasLtMatmulPreference_t preference,                                    \
     cublasLtMatmulPreferenceAttributes_t attribute, const void *value,        \
     size_t bytes))                                                            \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic, cublasStatus_t,                 \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,                       \
     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,                       \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                       \
     cublasLtMatmulPreference_t preference, int asked,                         \
     cublasLtMatmulHeuristicResult_t *results, int *found))                    \
  X(algorithmGet, cublasLtMatmulAlgoConfigGetAttribute, cublasStatus_t,        \
    (const cublasLtMatmulAlgo_t *algorithm,                                    \
     cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,              \
     size_t bytes, size_t *written))                                           \
  X(matmul, cublasLtMatmul, cublasStatus_t,                                    \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,    \
     const void *a, cublasLtMatrixLayout_t aLayout, const void *b,             \
     cublasLtMatrixLayout_t bLayout, const void *beta, const void *c,          \
     cublasLtMatrixLayout_t cLayout, void *d, cublasLtMatrixLayout_t dLayout,  \
     const cublasLtMatmulAlgo_t *algorithm, void *workspace,                   \
     size_t workspaceBytes, CUstream stream))

/// The functions of an opened libcublasLt.
struct CublasLt {
#define KERF_CUDA_MEMBER(member, name, result, arguments)                      \
  result(*member) arguments = nullptr;
  KERF_CUDA_CUBLASLT(KERF_CUDA_MEMBER)
#undef KERF_CUDA_MEMBER

  /// Opens libcublasLt of version 13 or 12, as the driver (1000 * major + 10 *
  /// minor) can run it. False sets `library.failure`.
  bool open(int driverVersion);
  /// "the functionality is not supported"
  std::string text(cublasStatus_t status) const;

  Library library;
  cublasLtHandle_t handle = nullptr; ///< made for the first matmul
};

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_CUBLASLT_H
