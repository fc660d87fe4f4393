//===- Devices.cpp - start, devices, contexts, errors ---------------------===//

#include "State.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace kerf::sim;

static int number(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}
static int deviceCount() { return number("KERF_SIM_DEVICES", 1); }
/// 90 is compute capability 9.0.
static int capability() { return number("KERF_SIM_SM", 90); }

static void requireDevice(CUdevice device) {
  require(device >= 0 && device < deviceCount(), InvalidDevice,
          "no device " + std::to_string(device));
}

CUresult cuInit(unsigned flags) {
  if (flags)
    return InvalidValue;
  if (deviceCount() < 1)
    return NoDevice;
  if (int result = number("KERF_SIM_INIT", 0))
    return static_cast<CUresult>(result);
  State &now = state();
  if (now.startedBy && now.startedBy != getpid())
    return NotInitialized; // nothing of a driver survives a fork
  now.startedBy = getpid();
  return Success;
}

CUresult cuDriverGetVersion(int *version) {
  if (!version)
    return InvalidValue;
  *version = number("KERF_SIM_DRIVER", 13000);
  return Success;
}

namespace {
struct ErrorText {
  int status;
  const char *name, *text;
};
} // namespace

static const ErrorText *errorText(CUresult error) {
  static const ErrorText texts[] = {
      {0, "CUDA_SUCCESS", "no error"},
      {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
      {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
      {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
      {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
      {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
      {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
      {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
       "no kernel image is available for execution on the device"},
      {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
      {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
       "the provided PTX was compiled with an unsupported toolchain."},
      {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
      {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
      {600, "CUDA_ERROR_NOT_READY", "device not ready"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS",
       "an illegal memory access was encountered"},
      {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
       "too many resources requested for launch"},
      {702, "CUDA_ERROR_LAUNCH_TIMEOUT",
       "the launch timed out and was terminated"},
      {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
      {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
       "an illegal instruction was encountered"},
      {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
      {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
      {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
      {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
      {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
       "system has unsupported display driver / cuda driver combination"},
      {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
       "operation not permitted when stream is capturing"},
      {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
       "operation failed due to a previous error during capture"},
      {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
       "capture was not initiated in this stream"},
      {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
       "capturing stream has unjoined work"},
      {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
       "dependency created on uncaptured work in another stream"},
      {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
       "operation would make the legacy stream depend on a capturing blocking "
       "stream"},
      {907, "CUDA_ERROR_CAPTURED_EVENT",
       "operation not permitted on an event last recorded in a capturing "
       "stream"},
  };
  for (const ErrorText &text : texts)
    if (text.status == error)
      return &text;
  return nullptr;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  const ErrorText *found = errorText(error);
  *text = found ? found->name : nullptr;
  return found ? Success : InvalidValue;
}
CUresult cuGetErrorString(CUresult error, const char **text) {
  const ErrorText *found = errorText(error);
  *text = found ? found->text : nullptr;
  return found ? Success : InvalidValue;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                          cuuint64_t, CUdriverProcAddressQueryResult *status) {
  if (!symbol || !function || version < 2000)
    return InvalidValue;
  Dl_info self = {};
  dladdr(reinterpret_cast<void *>(&cuInit), &self);
  void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *function = nullptr;
  for (const char *suffix : {"_v2", ""})
    if (library && !*function)
      *function = dlsym(library, (std::string(symbol) + suffix).c_str());
  if (library)
    dlclose(library);
  if (status)
    *status = *function ? 0 : 1; // found, no such symbol
  return *function ? Success : NotFound;
}

CUresult cuDeviceGetCount(int *count) {
  return call("cuDeviceGetCount", false, [&] { *count = deviceCount(); });
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return call("cuDeviceGet", false, [&] {
    requireDevice(ordinal);
    *device = ordinal;
  });
}
CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
  return call("cuDeviceGetName", false, [&] {
    requireDevice(device);
    require(bytes > 0, InvalidValue, "no room for a name");
    snprintf(name, bytes, "Kerf simulator (no GPU)");
  });
}

/// Those of an H100, where they are not the simulator's own.
static const std::map<int, int> &attributes() {
  static const std::map<int, int> values = {
      {1, 1024},
      {2, 1024},
      {3, 1024},
      {4, 64},
      {5, 2147483647},
      {6, 65535},
      {7, 65535},
      {8, 49152},
      {10, 32},
      {11, 2147483647},
      {12, 65536},
      {13, 1980000},
      {14, 512},
      {15, 1},
      {16, number("KERF_SIM_PROCESSORS", 132)},
      {17, 0},
      {18, 0},
      {19, 1},
      {20, 0},
      {31, 1},
      {32, 1},
      {33, 1},
      {34, 0},
      {35, 0},
      {36, 2619000},
      {37, 5120},
      {38, 52428800},
      {39, 2048},
      {40, 3},
      {41, 1},
      {78, 1},
      {79, 1},
      {80, 1},
      {81, 233472},
      {82, 65536},
      {83, 0},
      {97, 232448},
      {106, 32},
      {111, 1024},
      {115, 0}};
  return values;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice device) {
  return call("cuDeviceGetAttribute", false, [&] {
    requireDevice(device);
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) {
      *value = capability() / 10;
      return;
    }
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) {
      *value = capability() % 10;
      return;
    }
    auto found = attributes().find(attribute);
    require(found != attributes().end(), InvalidValue,
            "attribute " + std::to_string(attribute) + " is not simulated");
    *value = found->second;
  });
}
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  return call("cuDeviceTotalMem", false, [&] {
    requireDevice(device);
    *bytes = memory().limit();
  });
}

// ---- Contexts ---------------------------------------------------------------

static thread_local CUcontext current = nullptr;

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", false, [&] {
    requireDevice(device);
    std::vector<CUctx_st> &contexts = state().contexts;
    if (contexts.empty())
      contexts.resize(deviceCount());
    contexts[device].device = device;
    ++state().contextUsers;
    *context = &contexts[device];
  });
}
static void reset() {
  finishAll();
  state().failure = Success;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  std::lock_guard lock(state().mutex);
  state().failure = Success; // a release succeeds after a fault too
  return call("cuDevicePrimaryCtxRelease", false, [&] {
    requireDevice(device);
    require(state().contextUsers > 0, InvalidContext, "nobody holds it");
    if (--state().contextUsers == 0)
      reset();
  });
}
CUresult cuDevicePrimaryCtxReset(CUdevice) {
  std::lock_guard lock(state().mutex);
  reset();
  return Success;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  return call("cuCtxSetCurrent", false, [&] { current = context; });
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current;
  return Success;
}
CUresult cuCtxGetDevice(CUdevice *device) {
  return call("cuCtxGetDevice", true, [&] { *device = current->device; });
}
CUresult cuCtxSynchronize(void) {
  return call("cuCtxSynchronize", true, [&] {
    forbidInCapture("cuCtxSynchronize");
    finishAll();
  });
}
