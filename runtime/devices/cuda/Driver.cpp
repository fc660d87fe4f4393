//===- Driver.cpp - opening libcuda ---------------------------------------===//

#include "Driver.h"

#include "../common/Checks.h"

using namespace kerf::cuda;
using kerf::device::say;

static std::vector<Symbol> symbolsOf(Driver &driver) {
  return {
#define KERF_CUDA_SYMBOL(member, name, arguments)                              \
  {#name, reinterpret_cast<void **>(&driver.member)},
      KERF_CUDA_DRIVER(KERF_CUDA_SYMBOL)
#undef KERF_CUDA_SYMBOL
  };
}

/// Would another try fail alike, on this machine as it is?
static bool isLasting(CUresult result) {
  switch (result) {
  case CUDA_ERROR_STUB_LIBRARY:
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_INVALID_DEVICE:
  case CUDA_ERROR_DEVICE_NOT_LICENSED:
  case CUDA_ERROR_NOT_SUPPORTED:
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return true;
  default:
    return false;
  }
}

bool Driver::open(char *error, size_t errorBytes) {
  if (!library.open({"libcuda.so.1"}) ||
      !findSymbols(library, symbolsOf(*this))) {
    say(error, errorBytes,
        "no CUDA driver: %s; install NVIDIA's driver, 525 or later (see "
        "docs/cuda.md)",
        library.failure.c_str());
    return false;
  }
  findOptional(library, {"cuFuncGetParamInfo",
                         reinterpret_cast<void **>(&functionGetParamInfo)});
  CUresult result = init(0);
  if (result == CUDA_ERROR_NO_DEVICE) {
    say(error, errorBytes, "%s", noGpu);
    return false;
  }
  if (result != CUDA_SUCCESS) {
    mayStartLater = !isLasting(result);
    say(error, errorBytes,
        "the CUDA driver '%s' does not start: %s; `nvidia-smi` tells more",
        library.path.c_str(), text(result).c_str());
    return false;
  }
  driverGetVersion(&version);
  return true;
}

std::string Driver::text(CUresult result) const {
  const char *name = nullptr, *meaning = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &meaning);
  if (!name || !meaning)
    return "error " + std::to_string(result) + " of the driver";
  return std::string(meaning) + " (" + name + ")";
}
