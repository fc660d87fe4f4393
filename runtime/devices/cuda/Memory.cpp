//===- Memory.cpp - memory of a GPU ---------------------------------------===//

#include "Memory.h"

#include "../common/Checks.h"

#include <algorithm>
#include <cstring>
#include <new>

using namespace kerf::cuda;
using kerf::device::say;

static double gibibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

//===----------------------------------------------------------------------===//
// Allocation
//===----------------------------------------------------------------------===//

kerf_device_status kerf::cuda::allocate(kerf_device *device, uint64_t bytes,
                                        void **memory, char *error,
                                        size_t errorBytes) {
  Driver &driver = device->driver;
  *memory = nullptr;
  if (device->recording) {
    say(error, errorBytes, "cannot take memory while a graph is recorded");
    return KERF_DEVICE_INVALID;
  }
  device->makeCurrent();
  CUdeviceptr made = 0;
  CUresult result = driver.memAlloc(&made, bytes);
  if (result != CUDA_SUCCESS) {
    size_t freeBytes = 0, totalBytes = 0;
    driver.memGetInfo(&freeBytes, &totalBytes);
    say(error, errorBytes,
        "cannot allocate %.3f GiB for the model: %s; %.3f of %.3f GiB are "
        "free on the GPU",
        gibibytes(bytes), driver.text(result).c_str(), gibibytes(freeBytes),
        gibibytes(totalBytes));
    return result == CUDA_ERROR_OUT_OF_MEMORY ? KERF_DEVICE_NO_MEMORY
                                              : KERF_DEVICE_FAILED;
  }
  result = driver.setBytes(made, device->poison ? 0xff : 0, bytes,
                           device->streams[0]);
  if (result == CUDA_SUCCESS)
    result = driver.streamSynchronize(device->streams[0]);
  if (result != CUDA_SUCCESS) {
    say(error, errorBytes, "cannot fill fresh memory: %s",
        driver.text(result).c_str());
    driver.memFree(made);
    return KERF_DEVICE_FAILED;
  }
  *memory = reinterpret_cast<void *>(made);
  return KERF_DEVICE_OK;
}

void kerf::cuda::release(kerf_device *device, void *memory, uint64_t) {
  if (!memory)
    return;
  device->makeCurrent();
  device->driver.memFree(address(memory));
}

kerf_device_status kerf::cuda::memoryInfo(kerf_device *device,
                                          uint64_t *freeBytes,
                                          uint64_t *totalBytes, char *error,
                                          size_t errorBytes) {
  device->makeCurrent();
  size_t unused = 0, all = 0;
  CUresult result = device->driver.memGetInfo(&unused, &all);
  *freeBytes = unused;
  *totalBytes = all;
  if (result == CUDA_SUCCESS)
    return KERF_DEVICE_OK;
  say(error, errorBytes, "cannot ask for the GPU's memory: %s",
      device->driver.text(result).c_str());
  return KERF_DEVICE_FAILED;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

namespace {
/// A copy between host and device memory on stream 0. Large ones go through
/// pinned memory in halves, so that the host fills or empties one half while
/// the GPU copies the other.
class Copy {
public:
  explicit Copy(kerf_device &device)
      : device(device), driver(device.driver), stream(device.streams[0]) {}

  CUresult in(CUdeviceptr to, const char *from, size_t bytes);
  CUresult out(char *to, CUdeviceptr from, size_t bytes);

private:
  static constexpr size_t direct = 1 << 16; ///< bytes; the driver stages them
  static constexpr size_t half = 8 << 20;

  bool hasStaging();
  char *halfOf(size_t part) {
    return device.staging.memory + part % 2 * device.staging.halfBytes;
  }
  CUevent doneOf(size_t part) { return device.staging.done[part % 2]; }
  CUresult wait(CUresult result) {
    return result == CUDA_SUCCESS ? driver.streamSynchronize(stream) : result;
  }

  kerf_device &device;
  Driver &driver;
  CUstream stream;
};
} // namespace

/// Makes the pinned memory at first. Without it the driver copies pageable
/// memory itself, only slower.
bool Copy::hasStaging() {
  Staging &staging = device.staging;
  if (staging.memory)
    return true;
  for (CUevent &event : staging.done)
    if (!event &&
        driver.eventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
      return false;
  void *memory = nullptr;
  if (driver.memAllocHost(&memory, 2 * half) != CUDA_SUCCESS)
    return false;
  staging.memory = static_cast<char *>(memory);
  staging.halfBytes = half;
  return true;
}

CUresult Copy::in(CUdeviceptr to, const char *from, size_t bytes) {
  if (bytes <= direct || !hasStaging())
    return wait(driver.copyHostToDevice(to, from, bytes, stream));
  CUresult result = CUDA_SUCCESS;
  for (size_t at = 0, part = 0; at < bytes; at += half, ++part) {
    size_t count = std::min(half, bytes - at);
    if (part >= 2)
      result = driver.eventSynchronize(doneOf(part));
    if (result != CUDA_SUCCESS)
      return result;
    std::memcpy(halfOf(part), from + at, count);
    result = driver.copyHostToDevice(to + at, halfOf(part), count, stream);
    if (result == CUDA_SUCCESS)
      result = driver.eventRecord(doneOf(part), stream);
    if (result != CUDA_SUCCESS)
      return result;
  }
  return wait(result);
}

CUresult Copy::out(char *to, CUdeviceptr from, size_t bytes) {
  if (bytes <= direct || !hasStaging())
    return wait(driver.copyDeviceToHost(to, from, bytes, stream));
  size_t parts = (bytes + half - 1) / half;
  auto countOf = [&](size_t part) {
    return std::min(half, bytes - part * half);
  };
  for (size_t part = 0; part <= parts; ++part) {
    CUresult result = CUDA_SUCCESS;
    if (part < parts) {
      result = driver.copyDeviceToHost(halfOf(part), from + part * half,
                                       countOf(part), stream);
      if (result == CUDA_SUCCESS)
        result = driver.eventRecord(doneOf(part), stream);
    }
    if (part > 0 && result == CUDA_SUCCESS) {
      size_t last = part - 1;
      result = driver.eventSynchronize(doneOf(last));
      if (result == CUDA_SUCCESS)
        std::memcpy(to + last * half, halfOf(last), countOf(last));
    }
    if (result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

/// Keeps the first failure. Nothing may be thrown to the caller.
static void keepFailure(kerf_device &device, const char *what,
                        CUresult result) noexcept {
  if (result != CUDA_SUCCESS && device.copyFailure.empty())
    device.copyFailure =
        std::string(what) + " failed: " + device.driver.text(result);
}

void kerf::cuda::copyIn(kerf_device *device, void *memory, const void *host,
                        uint64_t bytes) {
  if (!bytes)
    return;
  device->makeCurrent();
  keepFailure(*device, "a copy to the GPU",
              Copy(*device).in(address(memory), static_cast<const char *>(host),
                               bytes));
}

void kerf::cuda::copyOut(kerf_device *device, void *host, const void *memory,
                         uint64_t bytes) {
  if (!bytes)
    return;
  device->makeCurrent();
  keepFailure(
      *device, "a copy from the GPU",
      Copy(*device).out(static_cast<char *>(host), address(memory), bytes));
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

static constexpr size_t scalarsPerBlock = 1024;

/// The address of a new scalar, with its value on the way.
static CUresult makeScalar(kerf_device &device, int32_t value,
                           CUdeviceptr &made) {
  if (device.scalarBlocks.empty() || device.scalarsInBlock == scalarsPerBlock) {
    CUdeviceptr block = 0;
    CUresult result = device.driver.memAlloc(&block, scalarsPerBlock * 4);
    if (result != CUDA_SUCCESS)
      return result;
    device.scalarBlocks.push_back(block);
    device.scalarsInBlock = 0;
  }
  made = device.scalarBlocks.back() + device.scalarsInBlock * 4;
  CUresult result = device.driver.setWords(made, static_cast<unsigned>(value),
                                           1, device.streams[0]);
  device.scalarsInBlock += result == CUDA_SUCCESS;
  return result;
}

kerf_device_status kerf::cuda::scalar(kerf_device *device, int32_t value,
                                      const void **address, char *error,
                                      size_t errorBytes) {
  *address = nullptr;
  auto found = device->scalars.find(value);
  if (found == device->scalars.end()) {
    if (device->recording) {
      say(error, errorBytes,
          "the scalar %d was not asked for before the recording", value);
      return KERF_DEVICE_INVALID;
    }
    device->makeCurrent();
    CUdeviceptr made = 0;
    try {
      CUresult result = makeScalar(*device, value, made);
      if (result != CUDA_SUCCESS) {
        say(error, errorBytes, "cannot make a scalar: %s",
            device->driver.text(result).c_str());
        return KERF_DEVICE_FAILED;
      }
      found = device->scalars.emplace(value, made).first;
    } catch (const std::bad_alloc &) {
      say(error, errorBytes, "out of memory");
      return KERF_DEVICE_NO_MEMORY;
    }
  }
  *address = reinterpret_cast<const void *>(found->second);
  return KERF_DEVICE_OK;
}
