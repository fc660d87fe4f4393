//===- Step.cpp - enqueueing steps ----------------------------------------===//

#include "Step.h"

#include "Image.h"
#include "Streams.h"

using namespace kerf::cuda;

kerf_step::~kerf_step() {
  if (id)
    device.watched.erase(id);
  if (device.lastStep == this)
    device.lastStep = nullptr;
  if (device.lastRecorded == this)
    device.lastRecorded = nullptr;
}

std::string kerf_step::explain(const Fault &fault) const {
  return "its kernel reported " + std::to_string(fault.values[0]) + ", " +
         std::to_string(fault.values[1]) + ", " +
         std::to_string(fault.values[2]);
}

int32_t kerf_step::watch() {
  if (!id) {
    id = ++device.lastId;
    device.watched[id] = this;
  }
  return id;
}

bool Request::succeeded(CUresult result, const char *what) {
  return result == CUDA_SUCCESS ||
         fail("cannot %s: %s", what, device.driver.text(result).c_str());
}

CUfunction Request::ownKernel(const char *code, const char *symbol,
                              int sharedBytes) {
  CUmodule &module = device.ownModules[code];
  if (!module) {
    std::string log;
    CUresult result = loadModule(device, code, module, log);
    if (result != CUDA_SUCCESS) {
      device.ownModules.erase(code);
      std::string why = "cannot load the kernels of the cuda library: " +
                        device.driver.text(result) + ": " + log;
      if (isRefusal(result))
        refusal = why;
      fail("%s", why.c_str());
      return nullptr;
    }
  }
  CUfunction function = nullptr;
  if (!succeeded(device.driver.moduleGetFunction(&function, module, symbol),
                 symbol))
    return nullptr;
  if (sharedBytes > 0 &&
      !succeeded(device.driver.functionSetAttribute(
                     function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                     sharedBytes),
                 "reserve shared memory"))
    return nullptr;
  return function;
}

/// Errors of running kernels. A call that enqueues returns those of any step
/// before it, too.
static bool isOfRunning(CUresult result) {
  return result >= 700 && result < 800;
}

kerf_device_status kerf::cuda::enqueued(kerf_step &step, CUresult result,
                                        char *error, size_t errorBytes) {
  kerf_device &device = step.device;
  if (result != CUDA_SUCCESS && !isOfRunning(result)) {
    say(error, errorBytes, "command '%s': %s", step.name.c_str(),
        device.driver.text(result).c_str());
    return KERF_DEVICE_FAILED;
  }
  if (device.recording) {
    ++device.recordedSteps;
    device.lastRecorded = &step;
  } else {
    ++device.enqueuedSteps;
    device.lastStep = &step;
  }
  if (result != CUDA_SUCCESS) {
    say(error, errorBytes, "%s: %s", placeOf(device).c_str(),
        device.driver.text(result).c_str());
    return KERF_DEVICE_FAILED;
  }
  return device.sync && !device.recording
             ? synchronize(&device, error, errorBytes)
             : KERF_DEVICE_OK;
}

kerf_device_status kerf::cuda::launch(kerf_step &step, CUfunction function,
                                      const Grid &grid, void **arguments,
                                      char *error, size_t errorBytes) {
  kerf_device &device = step.device;
  CUresult result = device.driver.launchKernel(
      function, grid.x, grid.y, grid.z, grid.threads, 1, 1, grid.sharedBytes,
      device.streams[0], arguments, nullptr);
  return enqueued(step, result, error, errorBytes);
}
