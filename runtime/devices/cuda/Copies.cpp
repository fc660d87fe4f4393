//===- Copies.cpp - copies to the host beside the steps -------------------===//
//
// They run on a stream of their own, between two events: `before` on the
// stream of steps, so that they read what was written until then, and `done`
// behind the last copy.
//
//===----------------------------------------------------------------------===//

#include "Copies.h"

#include "../common/Checks.h"

using namespace kerf::cuda;
using kerf::device::say;

static kerf_device_status report(kerf_device &device, const char *what,
                                 CUresult result, char *error,
                                 size_t errorBytes) {
  if (result == CUDA_SUCCESS)
    return KERF_DEVICE_OK;
  say(error, errorBytes, "%s: %s", what, device.driver.text(result).c_str());
  return KERF_DEVICE_FAILED;
}

/// Makes stream and events at first.
static CUresult open(kerf_device &device) {
  Driver &driver = device.driver;
  Copies &copies = device.copies;
  CUresult result = CUDA_SUCCESS;
  if (!copies.stream)
    result = driver.streamCreate(&copies.stream, CU_STREAM_NON_BLOCKING);
  for (CUevent *event : {&copies.before, &copies.done})
    if (result == CUDA_SUCCESS && !*event)
      result = driver.eventCreate(event, CU_EVENT_DISABLE_TIMING);
  return result;
}

kerf_device_status kerf::cuda::allocHost(kerf_device *device, uint64_t bytes,
                                         void **memory, char *error,
                                         size_t errorBytes) {
  *memory = nullptr;
  device->makeCurrent();
  CUresult result = open(*device);
  if (result == CUDA_SUCCESS)
    result = device->driver.memAllocHost(memory, bytes);
  return report(*device, "cannot pin memory of the host", result, error,
                errorBytes);
}

void kerf::cuda::freeHost(kerf_device *device, void *memory) {
  device->makeCurrent();
  device->driver.memFreeHost(memory);
}

kerf_device_status kerf::cuda::copyBeside(kerf_device *device, void *host,
                                          const void *memory, uint64_t bytes,
                                          char *error, size_t errorBytes) {
  if (device->recording) {
    say(error, errorBytes, "cannot copy while a graph is recorded");
    return KERF_DEVICE_INVALID;
  }
  if (!bytes)
    return KERF_DEVICE_OK;
  device->makeCurrent();
  Driver &driver = device->driver;
  Copies &copies = device->copies;
  CUresult result = open(*device);
  if (result == CUDA_SUCCESS)
    result = driver.eventRecord(copies.before, device->streams[0]);
  if (result == CUDA_SUCCESS)
    result = driver.streamWaitEvent(copies.stream, copies.before, 0);
  if (result == CUDA_SUCCESS)
    result = driver.copyDeviceToHost(
        host, reinterpret_cast<CUdeviceptr>(memory), bytes, copies.stream);
  if (result == CUDA_SUCCESS)
    result = driver.eventRecord(copies.done, copies.stream);
  return report(*device, "a copy from the GPU failed", result, error,
                errorBytes);
}

kerf_device_status kerf::cuda::joinCopies(kerf_device *device, char *error,
                                          size_t errorBytes) {
  if (device->recording) {
    say(error, errorBytes, "cannot join copies while a graph is recorded");
    return KERF_DEVICE_INVALID;
  }
  if (!device->copies.done)
    return KERF_DEVICE_OK;
  device->makeCurrent();
  return report(*device, "cannot order streams",
                device->driver.streamWaitEvent(device->streams[0],
                                               device->copies.done, 0),
                error, errorBytes);
}

kerf_device_status kerf::cuda::awaitCopies(kerf_device *device, char *error,
                                           size_t errorBytes) {
  if (!device->copies.done)
    return KERF_DEVICE_OK;
  device->makeCurrent();
  return report(*device, "a copy from the GPU failed",
                device->driver.eventSynchronize(device->copies.done), error,
                errorBytes);
}

void kerf::cuda::dropCopies(kerf_device &device) {
  Copies &copies = device.copies;
  for (CUevent event : {copies.before, copies.done})
    if (event)
      device.driver.eventDestroy(event);
  if (copies.stream)
    device.driver.streamDestroy(copies.stream);
  copies = {};
}
