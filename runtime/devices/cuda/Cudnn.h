//===- Cudnn.h - the part of cuDNN that is used ---------------------------===//
//
// Own declarations, as in Driver.h: NVIDIA's "cuDNN backend API" of version 9.
// test/Runtime/vendor_headers.py compares them with cudnn.h where that is
// installed.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_CUDNN_H
#define KERF_DEVICES_CUDA_CUDNN_H

#include "Driver.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kerf::cuda {

typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;

enum cudnnStatus_t : int {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
};

enum cudnnDataType_t : int {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_INT32 = 4,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DATA_BOOLEAN = 11,
};

enum cudnnPointwiseMode_t : int {
  CUDNN_POINTWISE_ADD = 0,
  CUDNN_POINTWISE_MUL = 1,
  CUDNN_POINTWISE_DIV = 6,
  CUDNN_POINTWISE_SUB = 9,
  CUDNN_POINTWISE_EXP = 13,
  CUDNN_POINTWISE_LOG = 15,
  CUDNN_POINTWISE_IDENTITY = 21,
  CUDNN_POINTWISE_CMP_EQ = 300,
  CUDNN_POINTWISE_CMP_GT = 302,
  CUDNN_POINTWISE_CMP_GE = 303,
  CUDNN_POINTWISE_GEN_INDEX = 501,
  CUDNN_POINTWISE_BINARY_SELECT = 601,
};

enum cudnnReduceTensorOp_t : int {
  CUDNN_REDUCE_TENSOR_ADD = 0,
  CUDNN_REDUCE_TENSOR_MAX = 3,
};

enum cudnnBackendHeurMode_t : int {
  CUDNN_HEUR_MODE_FALLBACK = 2,
  CUDNN_HEUR_MODE_A = 3,
};

enum cudnnBackendNumericalNote_t : int {
  CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
  CUDNN_NUMERICAL_NOTE_TYPE_COUNT = 10,
};

enum cudnnBackendDescriptorType_t : int {
  CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
  CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
  CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
  CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
  CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
  CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
  CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
  CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
  CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
  CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18,
  CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
  CUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21,
  CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22,
  CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 31,
  CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR = 38,
};

enum cudnnBackendAttributeType_t : int {
  CUDNN_TYPE_HANDLE = 0,
  CUDNN_TYPE_DATA_TYPE = 1,
  CUDNN_TYPE_BOOLEAN = 2,
  CUDNN_TYPE_INT64 = 3,
  CUDNN_TYPE_VOID_PTR = 6,
  CUDNN_TYPE_HEUR_MODE = 8,
  CUDNN_TYPE_NUMERICAL_NOTE = 11,
  CUDNN_TYPE_POINTWISE_MODE = 14,
  CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
  CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
  CUDNN_TYPE_CHAR = 24,
};

enum cudnnBackendAttributeName_t : int {
  CUDNN_ATTR_POINTWISE_MODE = 0,
  CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
  CUDNN_ATTR_POINTWISE_AXIS = 9,
  CUDNN_ATTR_ENGINEHEUR_MODE = 200,
  CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
  CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
  CUDNN_ATTR_ENGINEHEUR_DEVICEPROP = 204,
  CUDNN_ATTR_ENGINECFG_ENGINE = 300,
  CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
  CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
  CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
  CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP = 407,
  CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
  CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
  CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
  CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
  CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,
  CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
  CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
  CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
  CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
  CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
  CUDNN_ATTR_TENSOR_STRIDES = 903,
  CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
  CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,
  CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,
  CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
  CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
  CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
  CUDNN_ATTR_ENGINE_GLOBAL_INDEX = 1301,
  CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
  CUDNN_ATTR_MATMUL_COMP_TYPE = 1500,
  CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
  CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521,
  CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,
  CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,
  CUDNN_ATTR_REDUCTION_OPERATOR = 1600,
  CUDNN_ATTR_REDUCTION_COMP_TYPE = 1601,
  CUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610,
  CUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611,
  CUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612,
  CUDNN_ATTR_OPERATION_RESHAPE_XDESC = 2200,
  CUDNN_ATTR_OPERATION_RESHAPE_YDESC = 2201,
  CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION = 2702,
};

// X(member, exported name, result, arguments)
#define KERF_CUDA_CUDNN(X)                                                     \
  X(getVersion, cudnnGetVersion, size_t, ())                                   \
  X(getErrorString, cudnnGetErrorString, const char *, (cudnnStatus_t status)) \
  X(getLastErrorString, cudnnGetLastErrorString, void,                         \
    (char *message, size_t bytes))                                             \
  X(create, cudnnCreate, cudnnStatus_t, (cudnnHandle_t * handle))              \
  X(destroy, cudnnDestroy, cudnnStatus_t, (cudnnHandle_t handle))              \
  X(setStream, cudnnSetStream, cudnnStatus_t,                                  \
    (cudnnHandle_t handle, CUstream stream))                                   \
  X(createDescriptor, cudnnBackendCreateDescriptor, cudnnStatus_t,             \
    (cudnnBackendDescriptorType_t type,                                        \
     cudnnBackendDescriptor_t * descriptor))                                   \
  X(destroyDescriptor, cudnnBackendDestroyDescriptor, cudnnStatus_t,           \
    (cudnnBackendDescriptor_t descriptor))                                     \
  X(finalize, cudnnBackendFinalize, cudnnStatus_t,                             \
    (cudnnBackendDescriptor_t descriptor))                                     \
  X(setAttribute, cudnnBackendSetAttribute, cudnnStatus_t,                     \
    (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,    \
     cudnnBackendAttributeType_t type, int64_t count, const void *values))     \
  X(getAttribute, cudnnBackendGetAttribute, cudnnStatus_t,                     \
    (const cudnnBackendDescriptor_t descriptor,                                \
     cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,       \
     int64_t asked, int64_t *count, void *values))                             \
  X(execute, cudnnBackendExecute, cudnnStatus_t,                               \
    (cudnnHandle_t handle, cudnnBackendDescriptor_t plan,                      \
     cudnnBackendDescriptor_t pack))

class CudnnPlan;

/// The functions of an opened libcudnn.
struct Cudnn {
#define KERF_CUDA_MEMBER(member, name, result, arguments)                      \
  result(*member) arguments = nullptr;
  KERF_CUDA_CUDNN(KERF_CUDA_MEMBER)
#undef KERF_CUDA_MEMBER

  /// Opens libcudnn of version 9, with the compiler of CUDA that it needs
  /// (libnvrtc, as the driver, 1000 * major + 10 * minor, can run it) where it
  /// is. False sets `library.failure`. Later calls answer as the first.
  bool open(int driverVersion);
  /// Opens it and takes a handle for the current context. False sets
  /// `library.failure`. As `open` for later calls.
  bool start(int driverVersion);
  /// Drops plans and gives the handle back.
  void stop();

  /// "CUDNN_STATUS_BAD_PARAM (strides overlap)".
  std::string text(cudnnStatus_t status) const;
  /// "9.19.0"; 91900 is what `getVersion` says.
  std::string version() const;

  Library library;
  cudnnHandle_t handle = nullptr;
  /// Plans by what they compute: commands alike share one. A null plan: why
  /// there is none.
  struct Entry {
    std::shared_ptr<CudnnPlan> plan;
    std::string refusal;
  };
  std::map<std::vector<int64_t>, Entry> plans;

private:
  bool wasOpened = false, wasStarted = false;
};

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_CUDNN_H
