//===- Driver.h - the part of CUDA's driver API that is used --------------===//
//
// Own declarations, so that no CUDA header is needed to build: types, numbers
// and functions as NVIDIA's "CUDA Driver API" documents them (versions of the
// functions as of CUDA 12, which later drivers keep). A Driver is a table of
// functions of an opened libcuda; test/Runtime/vendor_headers.py compares it
// with cuda.h where that is installed.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_DRIVER_H
#define KERF_DEVICES_CUDA_DRIVER_H

#include "Library.h"

#include <cstddef>

namespace kerf::cuda {

typedef int CUdevice;
typedef unsigned long long CUdeviceptr; ///< an address in device memory
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUarray_st *CUarray;

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_DEVICE_NOT_LICENSED = 102,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

enum CUjit_option : int {
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

enum CUmemorytype : int { CU_MEMORYTYPE_DEVICE = 2 };

enum CUstreamCaptureMode : int { CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };

constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;
constexpr unsigned CU_MEMHOSTALLOC_DEVICEMAP = 2;
constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
constexpr unsigned CU_EVENT_DEFAULT = 0; ///< with timing
constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;

/// A copy of `Height` rows of `WidthInBytes`.
struct CUDA_MEMCPY2D {
  size_t srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
};

// X(member, exported name, arguments)
#define KERF_CUDA_DRIVER(X)                                                    \
  X(init, cuInit, (unsigned flags))                                            \
  X(driverGetVersion, cuDriverGetVersion, (int *version))                      \
  X(getErrorName, cuGetErrorName, (CUresult error, const char **text))         \
  X(getErrorString, cuGetErrorString, (CUresult error, const char **text))     \
  X(deviceGetCount, cuDeviceGetCount, (int *count))                            \
  X(deviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                  \
  X(deviceGetName, cuDeviceGetName, (char *name, int bytes, CUdevice device))  \
  X(deviceGetAttribute, cuDeviceGetAttribute,                                  \
    (int *value, CUdevice_attribute attribute, CUdevice device))               \
  X(deviceTotalMem, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))     \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain,                            \
    (CUcontext * context, CUdevice device))                                    \
  X(primaryContextRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device))    \
  X(contextSetCurrent, cuCtxSetCurrent, (CUcontext context))                   \
  X(contextSynchronize, cuCtxSynchronize, ())                                  \
  X(memAlloc, cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))             \
  X(memFree, cuMemFree_v2, (CUdeviceptr memory))                               \
  X(memAllocHost, cuMemAllocHost_v2, (void **memory, size_t bytes))            \
  X(memFreeHost, cuMemFreeHost, (void *memory))                                \
  X(memGetInfo, cuMemGetInfo_v2, (size_t *freeBytes, size_t *totalBytes))      \
  X(copyHostToDevice, cuMemcpyHtoDAsync_v2,                                    \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))         \
  X(copyDeviceToHost, cuMemcpyDtoHAsync_v2,                                    \
    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))               \
  X(copyOnDevice, cuMemcpyDtoDAsync_v2,                                        \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))         \
  X(copy2D, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))  \
  X(setBytes, cuMemsetD8Async,                                                 \
    (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))      \
  X(setWords, cuMemsetD32Async,                                                \
    (CUdeviceptr to, unsigned value, size_t count, CUstream stream))           \
  X(streamCreate, cuStreamCreate, (CUstream * stream, unsigned flags))         \
  X(streamDestroy, cuStreamDestroy_v2, (CUstream stream))                      \
  X(streamSynchronize, cuStreamSynchronize, (CUstream stream))                 \
  X(streamWaitEvent, cuStreamWaitEvent,                                        \
    (CUstream stream, CUevent event, unsigned flags))                          \
  X(streamBeginCapture, cuStreamBeginCapture_v2,                               \
    (CUstream stream, CUstreamCaptureMode mode))                               \
  X(streamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph * graph))  \
  X(eventCreate, cuEventCreate, (CUevent * event, unsigned flags))             \
  X(eventDestroy, cuEventDestroy_v2, (CUevent event))                          \
  X(eventRecord, cuEventRecord, (CUevent event, CUstream stream))              \
  X(eventSynchronize, cuEventSynchronize, (CUevent event))                     \
  X(eventElapsedTime, cuEventElapsedTime,                                      \
    (float *milliseconds, CUevent start, CUevent end))                         \
  X(moduleLoadDataEx, cuModuleLoadDataEx,                                      \
    (CUmodule * module, const void *image, unsigned count,                     \
     CUjit_option *options, void **values))                                    \
  X(moduleUnload, cuModuleUnload, (CUmodule module))                           \
  X(moduleGetFunction, cuModuleGetFunction,                                    \
    (CUfunction * function, CUmodule module, const char *name))                \
  X(functionGetAttribute, cuFuncGetAttribute,                                  \
    (int *value, CUfunction_attribute attribute, CUfunction function))         \
  X(functionSetAttribute, cuFuncSetAttribute,                                  \
    (CUfunction function, CUfunction_attribute attribute, int value))          \
  X(launchKernel, cuLaunchKernel,                                              \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,      \
     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,  \
     CUstream stream, void **arguments, void **extra))                         \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                             \
    (CUgraphExec * graph, CUgraph recorded, unsigned long long flags))         \
  X(graphLaunch, cuGraphLaunch, (CUgraphExec graph, CUstream stream))          \
  X(graphExecDestroy, cuGraphExecDestroy, (CUgraphExec graph))                 \
  X(graphDestroy, cuGraphDestroy, (CUgraph graph))

/// What to say where the driver finds no GPU.
constexpr const char *noGpu =
    "no GPU: the driver finds none; `nvidia-smi -L` lists them, and "
    "CUDA_VISIBLE_DEVICES may hide them";

/// The functions of an opened libcuda.
struct Driver {
#define KERF_CUDA_MEMBER(member, name, arguments) CUresult(*member) arguments;
  KERF_CUDA_DRIVER(KERF_CUDA_MEMBER)
#undef KERF_CUDA_MEMBER

  /// Opens libcuda and starts it. False after writing a message that says what
  /// was looked for where, and what helps.
  bool open(char *error, size_t errorBytes);
  /// "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)".
  std::string text(CUresult result) const;

  Library library;
  int version = 0; ///< 1000 * major + 10 * minor
  /// Where `open` failed: the driver is there but did not start, for a reason
  /// that may pass.
  bool mayStartLater = false;
  /// Where a kernel's parameter `index` lies and how long it is; an error where
  /// there is none. Null before CUDA 12.4.
  CUresult (*functionGetParamInfo)(CUfunction function, size_t index,
                                   size_t *offset, size_t *bytes) = nullptr;
};

/// A pointer as the driver wants it.
inline CUdeviceptr address(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_DRIVER_H
