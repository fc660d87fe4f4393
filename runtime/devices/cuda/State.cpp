//===- State.cpp - taking and giving back a GPU ---------------------------===//

#include "State.h"

#include "Copies.h"
#include "Events.h"

#include "../common/Checks.h"

#include <cstdio>
#include <cstdlib>

using namespace kerf::cuda;
using kerf::device::say;

/// Is a variable set, and not to "0"?
static bool isOn(const char *name) {
  const char *value = std::getenv(name);
  return value && *value && !(value[0] == '0' && !value[1]);
}

void kerf_device::makeCurrent() { driver.contextSetCurrent(context); }

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

namespace {
/// Calls of the driver, until one fails.
struct Opening {
  kerf_device &device;
  char *error;
  size_t errorBytes;
  kerf_device_status failure = KERF_DEVICE_FAILED; ///< of the call that failed

  bool call(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
      return true;
    say(error, errorBytes, "cannot %s: %s", what,
        device.driver.text(result).c_str());
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
      failure = KERF_DEVICE_NO_MEMORY;
    return false;
  }
  bool attribute(CUdevice_attribute which, int &value) {
    return call(device.driver.deviceGetAttribute(&value, which, device.ordinal),
                "ask what the GPU can do");
  }
  bool readAttributes();
  kerf_device_status chooseDevice(uint32_t localRank);
  bool makeStreams();
};
} // namespace

bool Opening::readAttributes() {
  int major = 0, minor = 0, pitch = 0;
  if (!attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major) ||
      !attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor) ||
      !attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device.processors) ||
      !attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, pitch))
    return false;
  device.capability = 10 * major + minor;
  device.maxPitch = pitch;
  return true;
}

kerf_device_status Opening::chooseDevice(uint32_t localRank) {
  int count = 0;
  CUresult result = device.driver.deviceGetCount(&count);
  if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && count < 1)) {
    say(error, errorBytes, "%s", noGpu);
    return KERF_DEVICE_UNSUPPORTED;
  }
  if (!call(result, "count the GPUs") ||
      !call(device.driver.deviceGet(&device.ordinal, localRank % count),
            "open the GPU") ||
      !readAttributes())
    return failure;
  if (device.capability >= 80)
    return KERF_DEVICE_OK;
  say(error, errorBytes,
      "GPU %d has compute capability %d.%d, expected 8.0 or later",
      device.ordinal, device.capability / 10, device.capability % 10);
  return KERF_DEVICE_UNSUPPORTED;
}

bool Opening::makeStreams() {
  Driver &driver = device.driver;
  if (!call(driver.primaryContextRetain(&device.context, device.ordinal),
            "use the GPU") ||
      !call(driver.contextSetCurrent(device.context), "use the GPU"))
    return false;
  for (uint32_t n = 0; n < KERF_DEVICE_STREAMS; ++n)
    if (!call(driver.streamCreate(&device.streams[n], CU_STREAM_NON_BLOCKING),
              "make a stream") ||
        !call(driver.eventCreate(&device.events[n], CU_EVENT_DISABLE_TIMING),
              "make an event"))
      return false;
  return call(driver.memAlloc(&device.fault, sizeof(Fault)),
              "allocate memory of the GPU") &&
         call(
             driver.setBytes(device.fault, 0, sizeof(Fault), device.streams[0]),
             "write memory of the GPU");
}

//===----------------------------------------------------------------------===//
// Describing
//===----------------------------------------------------------------------===//

static std::string blasName(kerf_device &device) {
  if (!device.blas.library.failure.empty())
    return "no cuBLASLt: " + device.blas.library.failure;
  size_t version = device.blas.getVersion();
  return "cuBLASLt " + std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + " (" + device.blas.library.path +
         ")";
}

static std::string describeGpu(kerf_device &device) {
  char name[128] = "", text[384];
  size_t bytes = 0;
  device.driver.deviceGetName(name, sizeof name, device.ordinal);
  device.driver.deviceTotalMem(&bytes, device.ordinal);
  std::snprintf(text, sizeof text,
                "cuda: %s, sm_%d, %d processors, %.1f GiB, driver %d.%d, ",
                name, device.capability, device.processors,
                static_cast<double>(bytes) / (1 << 30),
                device.driver.version / 1000, device.driver.version % 100 / 10);
  return text + blasName(device) + (device.tf32 ? ", f32 matmuls in TF32" : "");
}

kerf_device_status kerf::cuda::openGpu(kerf_device &device,
                                       const kerf_device_options &options,
                                       char *error, size_t errorBytes) {
  device.workers = options.workers > 0 ? options.workers : 1;
  device.sync = isOn("KERF_CUDA_SYNC");
  device.log = isOn("KERF_CUDA_LOG");
  device.tf32 = isOn("KERF_CUDA_TF32");
  device.poison = isOn("KERF_POISON");
  device.ownAttention = isOn("KERF_CUDA_OWN_ATTENTION");
  device.anyOrder = isOn("KERF_CUDA_ATTENTION_ANY_ORDER");
  device.ownBgrad = isOn("KERF_CUDA_OWN_BGRAD");
  device.noWgmma = isOn("KERF_CUDA_NO_WGMMA");
  if (!device.driver.open(error, errorBytes))
    return device.driver.mayStartLater ? KERF_DEVICE_FAILED
                                       : KERF_DEVICE_UNSUPPORTED;
  Opening opening{.device = device, .error = error, .errorBytes = errorBytes};
  if (auto status = opening.chooseDevice(options.local_rank))
    return status;
  if (!opening.makeStreams())
    return opening.failure;
  // Only matmuls need it: they say why it is missing.
  device.blas.open(device.driver.version);
  device.description = describeGpu(device);
  return takeTuning(device, options, error, errorBytes) ? KERF_DEVICE_OK
                                                        : KERF_DEVICE_INVALID;
}

//===----------------------------------------------------------------------===//
// Closing
//===----------------------------------------------------------------------===//

void kerf::cuda::closeGpu(kerf_device &device) {
  Driver &driver = device.driver;
  if (!device.context)
    return;
  device.makeCurrent();
  driver.contextSynchronize(); // its failure was told before
  device.cudnn.stop();
  if (device.blas.handle)
    device.blas.destroy(device.blas.handle);
  for (auto [code, module] : device.ownModules)
    driver.moduleUnload(module);
  for (CUdeviceptr block : device.scalarBlocks)
    driver.memFree(block);
  if (device.fault)
    driver.memFree(device.fault);
  dropTimes(device);
  dropCopies(device);
  Staging &staging = device.staging;
  for (CUevent event : staging.done)
    if (event)
      driver.eventDestroy(event);
  if (staging.memory)
    driver.memFreeHost(staging.memory);
  for (uint32_t n = 0; n < KERF_DEVICE_STREAMS; ++n) {
    if (device.events[n])
      driver.eventDestroy(device.events[n]);
    if (device.streams[n])
      driver.streamDestroy(device.streams[n]);
  }
  driver.contextSetCurrent(nullptr);
  driver.primaryContextRelease(device.ordinal);
}
