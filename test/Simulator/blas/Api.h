//===- Api.h - the part of cuBLASLt's API that is simulated ---------------===//
//
// Own declarations with the names and signatures of cublasLt.h, as of driver.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_BLAS_API_H
#define KERF_SIMULATOR_BLAS_API_H

#include <cstddef>
#include <cstdint>

typedef int cublasStatus_t;
typedef int cudaDataType_t;
typedef int cublasComputeType_t;
typedef int cublasLtMatmulDescAttributes_t;
typedef int cublasLtMatrixLayoutAttribute_t;
typedef int cublasLtMatmulPreferenceAttributes_t;
typedef int cublasLtMatmulAlgoConfigAttributes_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;
typedef struct CUstream_st *cudaStream_t;

#define CUBLAS_STATUS_SUCCESS 0
#define CUBLAS_STATUS_NOT_INITIALIZED 1
#define CUBLAS_STATUS_INVALID_VALUE 7
#define CUBLAS_STATUS_EXECUTION_FAILED 13
#define CUBLAS_STATUS_NOT_SUPPORTED 15
#define CUDA_R_32F 0
#define CUDA_R_64F 1
#define CUDA_R_16F 2
#define CUDA_R_16BF 14
#define CUDA_R_8F_E4M3 28
#define CUDA_R_8F_E5M2 29
#define CUBLAS_COMPUTE_32F 68
#define CUBLAS_COMPUTE_64F 70
#define CUBLAS_COMPUTE_32F_FAST_TF32 77
#define CUBLAS_OP_N 0
#define CUBLAS_OP_T 1
#define CUBLASLT_ORDER_COL 0
#define CUBLASLT_ORDER_ROW 1
#define CUBLASLT_MATMUL_DESC_POINTER_MODE 2
#define CUBLASLT_MATMUL_DESC_TRANSA 3
#define CUBLASLT_MATMUL_DESC_TRANSB 4
#define CUBLASLT_MATMUL_DESC_EPILOGUE 7
#define CUBLASLT_MATMUL_DESC_BIAS_POINTER 8
#define CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE 10
#define CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER 11
#define CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD 12
#define CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE 13
#define CUBLASLT_MATMUL_DESC_A_SCALE_POINTER 17
#define CUBLASLT_MATMUL_DESC_B_SCALE_POINTER 18
#define CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE 26
#define CUBLASLT_MATRIX_LAYOUT_ORDER 1
#define CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT 5
#define CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET 6
#define CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES 1
#define CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK 3
#define CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES 5
#define CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES 8
#define CUBLASLT_ALGO_CONFIG_ID 0
#define CUBLASLT_ALGO_CONFIG_TILE_ID 1
#define CUBLASLT_ALGO_CONFIG_SPLITK_NUM 2
#define CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME 3
#define CUBLASLT_EPILOGUE_DEFAULT 1
#define CUBLASLT_EPILOGUE_RELU 2
#define CUBLASLT_EPILOGUE_BIAS 4
#define CUBLASLT_EPILOGUE_GELU 32
#define CUBLASLT_EPILOGUE_GELU_AUX (32 | 128)
#define CUBLASLT_EPILOGUE_DGELU (64 | 128)
#define CUBLASLT_EPILOGUE_DGELU_BGRAD (64 | 128 | 16)
#define CUBLASLT_EPILOGUE_BGRADA 256
#define CUBLASLT_EPILOGUE_BGRADB 512

typedef struct {
  uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;

#define KERF_SIM_CALL __attribute__((visibility("default"))) cublasStatus_t
extern "C" {
__attribute__((visibility("default"))) size_t cublasLtGetVersion(void);
__attribute__((visibility("default"))) const char *
cublasLtGetStatusName(cublasStatus_t status);
__attribute__((visibility("default"))) const char *
cublasLtGetStatusString(cublasStatus_t status);
KERF_SIM_CALL cublasLtCreate(cublasLtHandle_t *handle);
KERF_SIM_CALL cublasLtDestroy(cublasLtHandle_t handle);
KERF_SIM_CALL cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                       cublasComputeType_t compute,
                                       cudaDataType_t scale);
KERF_SIM_CALL cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
KERF_SIM_CALL
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes);
KERF_SIM_CALL
cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               void *value, size_t bytes, size_t *written);
KERF_SIM_CALL cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                         cudaDataType_t type, uint64_t rows,
                                         uint64_t columns, int64_t leading);
KERF_SIM_CALL cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
KERF_SIM_CALL
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes);
KERF_SIM_CALL
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
KERF_SIM_CALL
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
KERF_SIM_CALL cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes);
KERF_SIM_CALL cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int asked,
    cublasLtMatmulHeuristicResult_t *results, int *found);
KERF_SIM_CALL cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *algorithm,
    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value, size_t bytes,
    size_t *written);
KERF_SIM_CALL
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
               const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
               const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
               const void *c, cublasLtMatrixLayout_t cLayout, void *d,
               cublasLtMatrixLayout_t dLayout,
               const cublasLtMatmulAlgo_t *algorithm, void *workspace,
               size_t workspaceBytes, cudaStream_t stream);
}
#undef KERF_SIM_CALL

#endif // KERF_SIMULATOR_BLAS_API_H
