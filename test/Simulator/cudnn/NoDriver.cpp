//===- NoDriver.cpp - a libcuda for making plans without a GPU ------------===//
//
// cuDNN compiles plans for a GPU that is only described to it, but opens
// libcuda and loads what it compiled. This one takes every kernel and has no
// GPU; nothing can run on it.
//
//===----------------------------------------------------------------------===//

#define KERF_SIM_CALL(name)                                                    \
  extern "C" __attribute__((visibility("default"))) int name

namespace {
constexpr int success = 0, noDevice = 100, notSupported = 801;
int something;
} // namespace

KERF_SIM_CALL(cuDriverGetVersion)(int *version) {
  *version = 13000;
  return success;
}
KERF_SIM_CALL(cuDeviceGetCount)(int *count) {
  *count = 0;
  return success;
}
KERF_SIM_CALL(cuGetErrorName)(int, const char **text) {
  *text = "no GPU";
  return success;
}
KERF_SIM_CALL(cuGetErrorString)(int, const char **text) {
  *text = "no GPU";
  return success;
}
KERF_SIM_CALL(cuCtxGetCurrent)(void **context) {
  *context = nullptr;
  return success;
}
KERF_SIM_CALL(cuOccupancyMaxPotentialClusterSize)(int *size) {
  *size = 8;
  return success;
}

// Whatever makes an object, or reads a number of one.
#define KERF_SIM_MAKES(name)                                                   \
  KERF_SIM_CALL(name)(void **object) {                                         \
    *object = &something;                                                      \
    return success;                                                            \
  }
KERF_SIM_MAKES(cuLibraryLoadData)
KERF_SIM_MAKES(cuLibraryGetKernel)
KERF_SIM_MAKES(cuKernelGetFunction)
KERF_SIM_MAKES(cuModuleLoadData)
KERF_SIM_MAKES(cuModuleLoadDataEx)
KERF_SIM_MAKES(cuModuleLoadFatBinary)
KERF_SIM_MAKES(cuModuleGetFunction)

#define KERF_SIM_READS(name)                                                   \
  KERF_SIM_CALL(name)(int *value) {                                            \
    *value = 0;                                                                \
    return success;                                                            \
  }
KERF_SIM_READS(cuKernelGetAttribute)
KERF_SIM_READS(cuFuncGetAttribute)

#define KERF_SIM_RETURNS(name, result)                                         \
  KERF_SIM_CALL(name)() { return result; }
KERF_SIM_RETURNS(cuLibraryUnload, success)
KERF_SIM_RETURNS(cuModuleUnload, success)
KERF_SIM_RETURNS(cuKernelSetAttribute, success)
KERF_SIM_RETURNS(cuFuncSetAttribute, success)
KERF_SIM_RETURNS(cuInit, noDevice)
KERF_SIM_RETURNS(cuDeviceGet, noDevice)
KERF_SIM_RETURNS(cuDeviceGetAttribute, noDevice)
KERF_SIM_RETURNS(cuDevicePrimaryCtxRetain, noDevice)
KERF_SIM_RETURNS(cuDevicePrimaryCtxRelease, noDevice)
KERF_SIM_RETURNS(cuDevicePrimaryCtxReset, noDevice)
KERF_SIM_RETURNS(cuCtxGetDevice, noDevice)
KERF_SIM_RETURNS(cuCtxGetLimit, noDevice)
KERF_SIM_RETURNS(cuCtxPopCurrent, noDevice)
KERF_SIM_RETURNS(cuCtxPushCurrent, noDevice)
KERF_SIM_RETURNS(cuStreamGetCtx, noDevice)
KERF_SIM_RETURNS(cuStreamGetGreenCtx, noDevice)
KERF_SIM_RETURNS(cuStreamSynchronize, noDevice)
KERF_SIM_RETURNS(cuLibraryLoadFromFile, notSupported)
KERF_SIM_RETURNS(cuLinkCreate, notSupported)
KERF_SIM_RETURNS(cuLinkCreate_v2, notSupported)
KERF_SIM_RETURNS(cuLinkAddData, notSupported)
KERF_SIM_RETURNS(cuLinkAddData_v2, notSupported)
KERF_SIM_RETURNS(cuLinkAddFile_v2, notSupported)
KERF_SIM_RETURNS(cuLinkComplete, notSupported)
KERF_SIM_RETURNS(cuLinkDestroy, notSupported)
KERF_SIM_RETURNS(cuModuleGetGlobal_v2, notSupported)
KERF_SIM_RETURNS(cuLaunchKernel, notSupported)
KERF_SIM_RETURNS(cuLaunchKernelEx, notSupported)
KERF_SIM_RETURNS(cuLaunchCooperativeKernel, notSupported)
KERF_SIM_RETURNS(cuMemcpyDtoH_v2, notSupported)
KERF_SIM_RETURNS(cuOccupancyMaxActiveBlocksPerMultiprocessor, notSupported)
KERF_SIM_RETURNS(cuTensorMapEncodeIm2col, notSupported)
KERF_SIM_RETURNS(cuTensorMapEncodeTiled, notSupported)
