//===- DeclarationsTest.cpp - our declarations against NVIDIA's -----------===//
//
// Where CUDA's headers are installed, the compiler compares the numbers, the
// layouts and the functions that Driver.h and CublasLt.h declare with theirs.
//
//===----------------------------------------------------------------------===//

#include "CublasLt.h"
#include "Support.h"

#include <cstdio>
#include <type_traits>

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

/// The same number of parameters, each of the same size and kind.
template <typename Ours, typename Theirs>
constexpr bool alike =
    sizeof(Ours) == sizeof(Theirs) &&
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
    std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;

template <typename Ours, typename Theirs> struct SameShape : std::false_type {};
template <typename R, typename... P, typename S, typename... Q>
  requires(sizeof...(P) == sizeof...(Q))
struct SameShape<R (*)(P...), S(Q...)>
    : std::bool_constant<alike<R, S> && (alike<P, Q> && ...)> {};

#if defined(CUDA_VERSION) && CUDA_VERSION >= 12000
#define KERF_SAME(member, name, arguments)                                     \
  static_assert(                                                               \
      SameShape<decltype(kerf::cuda::Driver::member), decltype(name)>::value,  \
      #name " has other parameters");
KERF_CUDA_DRIVER(KERF_SAME)
#undef KERF_SAME

#define KERF_SAME(name)                                                        \
  static_assert(int(kerf::cuda::name) == int(::name), #name);
KERF_SAME(CUDA_ERROR_INVALID_VALUE)
KERF_SAME(CUDA_ERROR_OUT_OF_MEMORY)
KERF_SAME(CUDA_ERROR_NO_DEVICE)
KERF_SAME(CUDA_ERROR_INVALID_IMAGE)
KERF_SAME(CUDA_ERROR_NO_BINARY_FOR_GPU)
KERF_SAME(CUDA_ERROR_INVALID_PTX)
KERF_SAME(CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
KERF_SAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
KERF_SAME(CUDA_ERROR_NOT_FOUND)
KERF_SAME(CU_DEVICE_ATTRIBUTE_MAX_PITCH)
KERF_SAME(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
KERF_SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
KERF_SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
KERF_SAME(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
KERF_SAME(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
KERF_SAME(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
KERF_SAME(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
KERF_SAME(CU_FUNC_ATTRIBUTE_NUM_REGS)
KERF_SAME(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
KERF_SAME(CU_JIT_ERROR_LOG_BUFFER)
KERF_SAME(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
KERF_SAME(CU_MEMORYTYPE_DEVICE)
KERF_SAME(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
KERF_SAME(CU_STREAM_NON_BLOCKING)
KERF_SAME(CU_EVENT_DISABLE_TIMING)
#undef KERF_SAME

#define KERF_SAME(member)                                                      \
  static_assert(offsetof(kerf::cuda::CUDA_MEMCPY2D, member) ==                 \
                    offsetof(::CUDA_MEMCPY2D_v2, member),                      \
                #member);
KERF_SAME(srcMemoryType)
KERF_SAME(srcDevice)
KERF_SAME(srcPitch)
KERF_SAME(dstMemoryType)
KERF_SAME(dstDevice)
KERF_SAME(dstPitch)
KERF_SAME(WidthInBytes)
KERF_SAME(Height)
#undef KERF_SAME
static_assert(sizeof(kerf::cuda::CUDA_MEMCPY2D) == sizeof(::CUDA_MEMCPY2D_v2));
static constexpr const char *driverHeader = "compared with cuda.h";
#else
static constexpr const char *driverHeader = "no cuda.h of CUDA 12 or later";
#endif

#if defined(CUBLAS_VERSION) && CUBLAS_VERSION >= 120000
#define KERF_SAME(member, name, result, arguments)                             \
  static_assert(SameShape<decltype(kerf::cuda::CublasLt::member),              \
                          decltype(name)>::value,                              \
                #name " has other parameters");
KERF_CUDA_CUBLASLT(KERF_SAME)
#undef KERF_SAME

#define KERF_SAME(name)                                                        \
  static_assert(int(kerf::cuda::name) == int(::name), #name);
KERF_SAME(CUBLAS_STATUS_NOT_SUPPORTED)
KERF_SAME(CUDA_R_32F)
KERF_SAME(CUDA_R_64F)
KERF_SAME(CUDA_R_16F)
KERF_SAME(CUDA_R_16BF)
KERF_SAME(CUBLAS_COMPUTE_32F)
KERF_SAME(CUBLAS_COMPUTE_64F)
KERF_SAME(CUBLAS_COMPUTE_32F_FAST_TF32)
KERF_SAME(CUBLAS_OP_N)
KERF_SAME(CUBLAS_OP_T)
KERF_SAME(CUBLASLT_EPILOGUE_DEFAULT)
KERF_SAME(CUBLASLT_EPILOGUE_BIAS)
KERF_SAME(CUBLASLT_MATMUL_DESC_TRANSA)
KERF_SAME(CUBLASLT_MATMUL_DESC_TRANSB)
KERF_SAME(CUBLASLT_MATMUL_DESC_EPILOGUE)
KERF_SAME(CUBLASLT_MATMUL_DESC_BIAS_POINTER)
KERF_SAME(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
KERF_SAME(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
KERF_SAME(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
KERF_SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
KERF_SAME(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
KERF_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
KERF_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
KERF_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
KERF_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
KERF_SAME(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
KERF_SAME(CUBLASLT_REDUCTION_SCHEME_MASK)
KERF_SAME(CUBLASLT_ALGO_CONFIG_ID)
KERF_SAME(CUBLASLT_ALGO_CONFIG_TILE_ID)
KERF_SAME(CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
KERF_SAME(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
KERF_SAME(CUBLASLT_ALGO_CONFIG_STAGES_ID)
#undef KERF_SAME

#define KERF_SAME(member)                                                      \
  static_assert(                                                               \
      offsetof(kerf::cuda::cublasLtMatmulHeuristicResult_t, member) ==         \
          offsetof(::cublasLtMatmulHeuristicResult_t, member),                 \
      #member);
KERF_SAME(algo)
KERF_SAME(workspaceSize)
KERF_SAME(state)
#undef KERF_SAME
static_assert(sizeof(kerf::cuda::cublasLtMatmulAlgo_t) ==
              sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(kerf::cuda::cublasLtMatmulHeuristicResult_t) ==
              sizeof(::cublasLtMatmulHeuristicResult_t));
static constexpr const char *blasHeader = "compared with cublasLt.h";
#else
static constexpr const char *blasHeader = "no cublasLt.h of CUDA 12 or later";
#endif

const char *cudatest::declarationsCompared() {
  static char text[128];
  std::snprintf(text, sizeof text, "declarations: %s, %s", driverHeader,
                blasHeader);
  return text;
}
