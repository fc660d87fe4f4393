//===- Api.h - the part of CUDA's driver API that is simulated ------------===//
//
// Own declarations with the names, numbers and signatures of cuda.h, so that no
// CUDA header is needed; the tests are also compiled against the real one where
// it is installed, and test/Runtime/vendor_headers.py compares the numbers.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_API_H
#define KERF_SIMULATOR_API_H

#include <cstddef>
#include <cstdint>

#define KERF_SIM_EXPORT __attribute__((visibility("default")))

typedef int CUresult;
typedef int CUdevice;
typedef int CUdevice_attribute;
typedef int CUfunction_attribute;
typedef int CUjit_option;
typedef int CUmemorytype;
typedef int CUstreamCaptureMode;
typedef int CUstreamCaptureStatus;
typedef int CUdriverProcAddressQueryResult;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUarray_st *CUarray;

#define CU_MEMORYTYPE_HOST 1
#define CU_MEMORYTYPE_DEVICE 2
#define CU_MEMORYTYPE_UNIFIED 4
#define CU_STREAM_DEFAULT 0
#define CU_STREAM_NON_BLOCKING 1
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
#define CU_EVENT_DEFAULT 0
#define CU_EVENT_DISABLE_TIMING 2
#define CU_STREAM_CAPTURE_MODE_GLOBAL 0
#define CU_STREAM_CAPTURE_MODE_THREAD_LOCAL 1
#define CU_STREAM_CAPTURE_MODE_RELAXED 2
#define CU_STREAM_CAPTURE_STATUS_NONE 0
#define CU_STREAM_CAPTURE_STATUS_ACTIVE 1
#define CU_STREAM_CAPTURE_STATUS_INVALIDATED 2
#define CU_LAUNCH_PARAM_END ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)
#define CU_JIT_ERROR_LOG_BUFFER 5
#define CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES 6
#define CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK 0
#define CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES 1
#define CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES 3
#define CU_FUNC_ATTRIBUTE_NUM_REGS 4
#define CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES 8
#define CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT 16
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR 75
#define CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR 76

typedef struct CUDA_MEMCPY2D_st {
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
} CUDA_MEMCPY2D;

// Names without a version mean the newest one.
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyDtoD cuMemcpyDtoD_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuMemcpy2DAsync cuMemcpy2DAsync_v2
#define cuMemsetD8 cuMemsetD8_v2
#define cuMemsetD32 cuMemsetD32_v2
#define cuModuleGetGlobal cuModuleGetGlobal_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuEventElapsedTime cuEventElapsedTime_v2
#define cuGetProcAddress cuGetProcAddress_v2

extern "C" {
#define KERF_SIM_CALL KERF_SIM_EXPORT CUresult
KERF_SIM_CALL cuInit(unsigned flags);
KERF_SIM_CALL cuDriverGetVersion(int *version);
KERF_SIM_CALL cuGetErrorName(CUresult error, const char **text);
KERF_SIM_CALL cuGetErrorString(CUresult error, const char **text);
KERF_SIM_CALL cuGetProcAddress(const char *symbol, void **function, int version,
                               cuuint64_t flags,
                               CUdriverProcAddressQueryResult *status);

KERF_SIM_CALL cuDeviceGetCount(int *count);
KERF_SIM_CALL cuDeviceGet(CUdevice *device, int ordinal);
KERF_SIM_CALL cuDeviceGetName(char *name, int bytes, CUdevice device);
KERF_SIM_CALL cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                                   CUdevice device);
KERF_SIM_CALL cuDeviceTotalMem(size_t *bytes, CUdevice device);
KERF_SIM_CALL cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
KERF_SIM_CALL cuDevicePrimaryCtxRelease(CUdevice device);
KERF_SIM_CALL cuDevicePrimaryCtxReset(CUdevice device);
KERF_SIM_CALL cuCtxSetCurrent(CUcontext context);
KERF_SIM_CALL cuCtxGetCurrent(CUcontext *context);
KERF_SIM_CALL cuCtxGetDevice(CUdevice *device);
KERF_SIM_CALL cuCtxSynchronize(void);

KERF_SIM_CALL cuMemAlloc(CUdeviceptr *memory, size_t bytes);
KERF_SIM_CALL cuMemFree(CUdeviceptr memory);
KERF_SIM_CALL cuMemAllocHost(void **memory, size_t bytes);
KERF_SIM_CALL cuMemFreeHost(void *memory);
KERF_SIM_CALL cuMemGetInfo(size_t *freeBytes, size_t *totalBytes);
KERF_SIM_CALL cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes);
KERF_SIM_CALL cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes);
KERF_SIM_CALL cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes);
KERF_SIM_CALL cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                                CUstream stream);
KERF_SIM_CALL cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                                CUstream stream);
KERF_SIM_CALL cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                CUstream stream);
KERF_SIM_CALL cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream);
KERF_SIM_CALL cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count);
KERF_SIM_CALL cuMemsetD32(CUdeviceptr to, unsigned value, size_t count);
KERF_SIM_CALL cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                              CUstream stream);
KERF_SIM_CALL cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                               CUstream stream);

KERF_SIM_CALL cuModuleLoadData(CUmodule *module, const void *image);
KERF_SIM_CALL cuModuleLoadDataEx(CUmodule *module, const void *image,
                                 unsigned count, CUjit_option *options,
                                 void **values);
KERF_SIM_CALL cuModuleUnload(CUmodule module);
KERF_SIM_CALL cuModuleGetFunction(CUfunction *function, CUmodule module,
                                  const char *name);
KERF_SIM_CALL cuModuleGetGlobal(CUdeviceptr *memory, size_t *bytes,
                                CUmodule module, const char *name);
KERF_SIM_CALL cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                 CUfunction function);
KERF_SIM_CALL cuFuncGetParamInfo(CUfunction function, size_t index,
                                 size_t *offset, size_t *bytes);
KERF_SIM_CALL cuFuncSetAttribute(CUfunction function,
                                 CUfunction_attribute attribute, int value);
KERF_SIM_CALL cuLaunchKernel(CUfunction function, unsigned gridX,
                             unsigned gridY, unsigned gridZ, unsigned blockX,
                             unsigned blockY, unsigned blockZ,
                             unsigned sharedBytes, CUstream stream,
                             void **arguments, void **extra);

KERF_SIM_CALL cuStreamCreate(CUstream *stream, unsigned flags);
KERF_SIM_CALL cuStreamCreateWithPriority(CUstream *stream, unsigned flags,
                                         int priority);
KERF_SIM_CALL cuStreamDestroy(CUstream stream);
KERF_SIM_CALL cuStreamSynchronize(CUstream stream);
KERF_SIM_CALL cuStreamQuery(CUstream stream);
KERF_SIM_CALL cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
KERF_SIM_CALL cuEventCreate(CUevent *event, unsigned flags);
KERF_SIM_CALL cuEventDestroy(CUevent event);
KERF_SIM_CALL cuEventRecord(CUevent event, CUstream stream);
KERF_SIM_CALL cuEventSynchronize(CUevent event);
KERF_SIM_CALL cuEventQuery(CUevent event);
KERF_SIM_CALL cuEventElapsedTime(float *milliseconds, CUevent start,
                                 CUevent end);

KERF_SIM_CALL cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode);
KERF_SIM_CALL cuStreamEndCapture(CUstream stream, CUgraph *graph);
KERF_SIM_CALL cuStreamIsCapturing(CUstream stream,
                                  CUstreamCaptureStatus *status);
KERF_SIM_CALL cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
KERF_SIM_CALL cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                          unsigned long long flags);
KERF_SIM_CALL cuGraphLaunch(CUgraphExec exec, CUstream stream);
KERF_SIM_CALL cuGraphExecDestroy(CUgraphExec exec);
KERF_SIM_CALL cuGraphDestroy(CUgraph graph);
#undef KERF_SIM_CALL
} // extern "C"

#endif // KERF_SIMULATOR_API_H
