//===- CublasLt.cpp - the stand-in for cuBLASLt ---------------------------===//

#include "../driver/Bridge.h"
#include "Matmul.h"
#include "Memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace kerf::sim;

struct cublasLtContext {
  uint64_t magic;
};

static constexpr uint64_t magic = 0x4B657266'53696D31;

/// Says why, with KERF_SIM_LOG=1.
static cublasStatus_t refuse(cublasStatus_t status, const std::string &why) {
  const char *log = getenv("KERF_SIM_LOG");
  if (log && *log == '1')
    fprintf(stderr, "kerf-sim: cuBLASLt: %s\n", why.c_str());
  return status;
}

size_t cublasLtGetVersion(void) { return 130100; }

const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown cuBLAS status";
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "success";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "the library was not initialized";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "an unsupported value or parameter was passed to the function";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "the function failed to launch on the GPU";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "the functionality requested is not supported";
  }
  return "unknown cuBLAS status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  // As a real one, which needs a context: an empty piece of work tells.
  if (bridgeEnqueue(nullptr, [] {}) != Success)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{magic};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

// ---- Attributes -------------------------------------------------------------

namespace {
struct Field {
  void *place = nullptr;
  size_t bytes = 0;
};
} // namespace

static Field fieldOf(cublasLtMatmulDesc_t desc, int attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return {&desc->pointerMode, sizeof desc->pointerMode};
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return {&desc->transA, sizeof desc->transA};
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return {&desc->transB, sizeof desc->transB};
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return {&desc->epilogue, sizeof desc->epilogue};
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return {&desc->bias, sizeof desc->bias};
  case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
    return {&desc->biasBatchStride, sizeof desc->biasBatchStride};
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return {&desc->aux, sizeof desc->aux};
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return {&desc->auxLeading, sizeof desc->auxLeading};
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
    return {&desc->auxBatchStride, sizeof desc->auxBatchStride};
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return {&desc->biasType, sizeof desc->biasType};
  case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    return {&desc->scaleA, sizeof desc->scaleA};
  case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    return {&desc->scaleB, sizeof desc->scaleB};
  }
  return {};
}
static Field fieldOf(cublasLtMatrixLayout_t layout, int attribute) {
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return {&layout->order, sizeof layout->order};
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return {&layout->batch, sizeof layout->batch};
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return {&layout->batchStride, sizeof layout->batchStride};
  }
  return {};
}
static Field fieldOf(cublasLtMatmulPreference_t preference, int attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return {&preference->workspaceBytes, sizeof preference->workspaceBytes};
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return {&preference->reductions, sizeof preference->reductions};
  }
  int operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (operand >= 0 && operand < 4)
    return {&preference->alignment[operand], sizeof(uint32_t)};
  return {};
}

template <class Object>
static cublasStatus_t set(Object object, int attribute, const void *value,
                          size_t bytes) {
  if (!object || !value)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "no object or no value");
  Field field = fieldOf(object, attribute);
  if (field.bytes != bytes || !field.bytes)
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  "attribute " + std::to_string(attribute) + " of " +
                      std::to_string(bytes) + " bytes");
  memcpy(field.place, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque;
  (*desc)->compute = compute;
  (*desc)->scale = scale;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes) {
  return set(desc, attribute, value, bytes);
}
cublasStatus_t
cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               void *value, size_t bytes, size_t *written) {
  Field field = fieldOf(desc, attribute);
  if (!field.bytes || bytes < field.bytes)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "unknown attribute");
  memcpy(value, field.place, field.bytes);
  if (written)
    *written = field.bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  *layout = new cublasLtMatrixLayoutOpaque;
  (*layout)->type = type;
  (*layout)->rows = rows;
  (*layout)->columns = columns;
  (*layout)->leading = leading;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes) {
  return set(layout, attribute, value, bytes);
}
cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes) {
  return set(preference, attribute, value, bytes);
}

// ---- Algorithms -------------------------------------------------------------

/// Three: the sum over k in two parts, where it is long and there is room, and
/// in one, by two tiles that give the same bits. All demand the alignment that
/// was promised. As cuBLASLt 13.1, it also offers sums of rows of d without a
/// workspace and those of factors that lie otherwise; such a matmul fails.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int asked,
    cublasLtMatmulHeuristicResult_t *results, int *found) {
  *found = 0;
  if (!handle || !desc || !a || !b || !c || !d || !preference || asked < 1)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a null argument");
  std::string why = refusal(*desc, *a, *b, *c, *d);
  for (uint32_t alignment : preference->alignment)
    if (bytesOf(a->type) == 1 && alignment < 16)
      why = "8-bit floats need addresses of whole 16 bytes";
  if (!why.empty())
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why);
  uint64_t k = desc->transA ? a->rows : a->columns;
  const char *more = getenv("KERF_SIM_ALGORITHMS");
  uint32_t numbers = more ? 1 + strtoul(more, nullptr, 10) : 3;
  for (uint32_t number = 0; number < numbers; ++number) {
    uint32_t split = number == 0 ? 2 : 1;
    uint64_t bytes = splitBytes(*d, split) + epilogueBytes(desc->epilogue);
    bool fits = bytes <= preference->workspaceBytes;
    bool isAllowed =
        split == 1 || (k >= 512 && preference->reductions & 2 && fits &&
                       desc->compute != CUBLAS_COMPUTE_64F);
    if (!isAllowed || *found == asked)
      continue;
    cublasLtMatmulHeuristicResult_t &result = results[(*found)++];
    result = {};
    Algorithm algorithm{magic, split, {}, number};
    memcpy(algorithm.alignment, preference->alignment,
           sizeof algorithm.alignment);
    static_assert(sizeof algorithm <= sizeof result.algo);
    memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = fits ? bytes : 0;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *algo,
    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value, size_t bytes,
    size_t *written) {
  Algorithm algorithm;
  memcpy(&algorithm, algo, sizeof algorithm);
  if (algorithm.magic != magic || bytes < sizeof(int32_t))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "no algorithm");
  int32_t answer = 0;
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
    answer = algorithm.split;
  else if (attribute == CUBLASLT_ALGO_CONFIG_TILE_ID)
    answer = algorithm.tile;
  else if (attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
    answer = algorithm.split > 1 ? 2 : 0;
  memcpy(value, &answer, sizeof answer);
  if (written)
    *written = sizeof answer;
  return CUBLAS_STATUS_SUCCESS;
}

// ---- Matmuls ---------------------------------------------------------------

static double factorOf(const void *value, bool isDouble) {
  return isDouble ? *static_cast<const double *>(value)
                  : *static_cast<const float *>(value);
}

/// "" or why these pointers cannot be taken.
static std::string refusePointers(const Matmul &matmul) {
  const uint64_t at[] = {matmul.aAt, matmul.bAt, matmul.cAt, matmul.dAt};
  for (int operand = 0; operand < 4; ++operand) {
    bool isUnused = operand == 2 && matmul.beta == 0;
    uint32_t alignment = matmul.algorithm.alignment[operand];
    if (!isUnused && (!at[operand] || at[operand] % alignment))
      return std::string("operand ") + "abcd"[operand] +
             " is null or not aligned to the " + std::to_string(alignment) +
             " bytes that were promised";
  }
  uint64_t needed = splitBytes(matmul.d, matmul.algorithm.split) +
                    epilogueBytes(matmul.desc.epilogue);
  if (needed > matmul.workspaceBytes ||
      (needed && (!matmul.workspace || matmul.workspace % 256)))
    return "the workspace is too small, null or not aligned to 256 bytes";
  bool isInPlace = matmul.cAt == matmul.dAt && matmul.beta != 0;
  if (isInPlace && (matmul.c.leading != matmul.d.leading ||
                    matmul.c.order != matmul.d.order))
    return "c and d are one matrix with two layouts";
  return "";
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
               const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
               const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
               const void *c, cublasLtMatrixLayout_t cLayout, void *d,
               cublasLtMatrixLayout_t dLayout,
               const cublasLtMatmulAlgo_t *algorithm, void *workspace,
               size_t workspaceBytes, cudaStream_t stream) {
  if (!handle || !desc || !alpha || !beta || !aLayout || !bLayout || !cLayout ||
      !dLayout)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a null argument");
  std::string why = refusal(*desc, *aLayout, *bLayout, *cLayout, *dLayout);
  if (!why.empty())
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why);
  auto address = [](const void *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  };
  bool isDouble = desc->scale == CUDA_R_64F;
  Matmul matmul{*desc,
                *aLayout,
                *bLayout,
                *cLayout,
                *dLayout,
                address(a),
                address(b),
                address(c),
                address(d),
                factorOf(alpha, isDouble),
                factorOf(beta, isDouble),
                {magic, 1, {1, 1, 1, 1}, 1},
                address(workspace),
                workspaceBytes};
  // As 13.1 does when it runs, though it offers algorithms before.
  for (const void *scale : {desc->scaleA, desc->scaleB})
    if (address(scale) % 16 != 0)
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                    "a scale's address is no multiple of 16");
  if (algorithm)
    memcpy(&matmul.algorithm, algorithm, sizeof matmul.algorithm);
  if (matmul.algorithm.magic != magic)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "no algorithm");
  why = sumsColumns(*desc) ? refusePointers(matmul)
                           : "the summed factor has rows of the summed index";
  if (!why.empty())
    return refuse(CUBLAS_STATUS_INVALID_VALUE, why);
  int result = bridgeEnqueue(stream, [matmul] { run(matmul); });
  return result == Success ? CUBLAS_STATUS_SUCCESS
                           : CUBLAS_STATUS_EXECUTION_FAILED;
}
