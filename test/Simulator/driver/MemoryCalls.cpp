//===- MemoryCalls.cpp - allocations, copies, fills -----------------------===//

#include "State.h"

#include <cstdlib>
#include <cstring>

using namespace kerf::sim;

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  return call("cuMemAlloc", true, [&] {
    forbidInCapture("cuMemAlloc");
    require(bytes, InvalidValue, "0 bytes");
    *address = memory().allocate(bytes);
    require(*address, OutOfMemory,
            std::to_string(bytes) + " bytes are not free (KERF_SIM_MEMORY)");
  });
}
CUresult cuMemFree(CUdeviceptr address) {
  return call("cuMemFree", true, [&] {
    forbidInCapture("cuMemFree");
    finishAll();
    require(!address || memory().release(address), InvalidValue,
            describeAddress(address) + " begins no allocation");
  });
}
CUresult cuMemAllocHost(void **host, size_t bytes) {
  return call("cuMemAllocHost", true, [&] {
    forbidInCapture("cuMemAllocHost");
    require(bytes, InvalidValue, "0 bytes");
    *host = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    require(*host, OutOfMemory, "no host memory");
    memset(*host, 0xFF, bytes);
    state().pinned[*host] = bytes;
  });
}
CUresult cuMemFreeHost(void *host) {
  return call("cuMemFreeHost", true, [&] {
    forbidInCapture("cuMemFreeHost");
    finishAll();
    require(state().pinned.erase(host), InvalidValue,
            "not from cuMemAllocHost");
    std::free(host);
  });
}
CUresult cuMemGetInfo(size_t *freeBytes, size_t *totalBytes) {
  return call("cuMemGetInfo", true, [&] {
    *totalBytes = memory().limit();
    *freeBytes = memory().limit() - memory().used();
  });
}

/// Is host memory one that devices access by themselves?
static bool isPinned(const void *host) {
  const auto &pinned = state().pinned;
  auto after = pinned.upper_bound(const_cast<void *>(host));
  if (after == pinned.begin())
    return false;
  auto [begin, bytes] = *std::prev(after);
  return host < static_cast<const char *>(begin) + bytes;
}

static void copyIn(CUstream_st &stream, CUdeviceptr to, const void *from,
                   size_t bytes) {
  if (!bytes)
    return;
  hostOf(to, bytes, "target");
  require(from, InvalidValue, "no source");
  if (isPinned(from) || stream.capture)
    return enqueue(stream,
                   [=] { memcpy(hostOf(to, bytes, "target"), from, bytes); });
  // Ordinary memory is read before the call returns.
  auto *first = static_cast<const uint8_t *>(from);
  std::vector<uint8_t> copy(first, first + bytes);
  enqueue(stream, [=, copy = std::move(copy)] {
    memcpy(hostOf(to, bytes, "target"), copy.data(), bytes);
  });
}
static void copyOut(CUstream_st &stream, void *to, CUdeviceptr from,
                    size_t bytes) {
  if (!bytes)
    return;
  hostOf(from, bytes, "source");
  require(to, InvalidValue, "no target");
  enqueue(stream, [=] { memcpy(to, hostOf(from, bytes, "source"), bytes); });
  if (!isPinned(to) && !stream.capture)
    finish(stream); // ordinary memory is written before the call returns
}
static void copyWithin(CUstream_st &stream, CUdeviceptr to, CUdeviceptr from,
                       size_t bytes) {
  if (!bytes)
    return;
  hostOf(from, bytes, "source");
  hostOf(to, bytes, "target");
  enqueue(stream, [=] {
    memmove(hostOf(to, bytes, "target"), hostOf(from, bytes, "source"), bytes);
  });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                           CUstream stream) {
  return call("cuMemcpyHtoDAsync", true,
              [&] { copyIn(streamOf(stream), to, from, bytes); });
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  return call("cuMemcpyDtoHAsync", true,
              [&] { copyOut(streamOf(stream), to, from, bytes); });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  return call("cuMemcpyDtoDAsync", true,
              [&] { copyWithin(streamOf(stream), to, from, bytes); });
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  return call("cuMemcpyHtoD", true, [&] {
    forbidInCapture("cuMemcpyHtoD");
    copyIn(state().defaultStream, to, from, bytes);
    finish(state().defaultStream);
  });
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  return call("cuMemcpyDtoH", true, [&] {
    forbidInCapture("cuMemcpyDtoH");
    copyOut(state().defaultStream, to, from, bytes);
    finish(state().defaultStream);
  });
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return call("cuMemcpyDtoD", true, [&] {
    forbidInCapture("cuMemcpyDtoD");
    copyWithin(state().defaultStream, to, from, bytes);
  });
}

// ---- Rows -------------------------------------------------------------------

/// One side of a copy of rows: where its first byte is on the host, checked.
static uint8_t *sideOf(CUmemorytype type, const void *host, CUdeviceptr device,
                       size_t x, size_t y, size_t pitch, size_t width,
                       size_t height, const char *what) {
  size_t offset = y * pitch + x;
  if (type == CU_MEMORYTYPE_HOST)
    return static_cast<uint8_t *>(const_cast<void *>(host)) + offset;
  require(type == CU_MEMORYTYPE_DEVICE, NotSupported,
          "copies of rows are simulated between host and device memory");
  return hostOf(device + offset, (height - 1) * pitch + width, what);
}

static void copyRows(const CUDA_MEMCPY2D &copy) {
  uint8_t *from = sideOf(copy.srcMemoryType, copy.srcHost, copy.srcDevice,
                         copy.srcXInBytes, copy.srcY, copy.srcPitch,
                         copy.WidthInBytes, copy.Height, "source");
  uint8_t *to = sideOf(copy.dstMemoryType, copy.dstHost, copy.dstDevice,
                       copy.dstXInBytes, copy.dstY, copy.dstPitch,
                       copy.WidthInBytes, copy.Height, "target");
  for (size_t row = 0; row < copy.Height; ++row)
    memmove(to + row * copy.dstPitch, from + row * copy.srcPitch,
            copy.WidthInBytes);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
  return call("cuMemcpy2DAsync", true, [&] {
    if (!copy->WidthInBytes || !copy->Height)
      return;
    bool isPitchFine = true;
    for (size_t pitch : {copy->srcPitch, copy->dstPitch})
      isPitchFine &= copy->Height == 1 ||
                     (pitch >= copy->WidthInBytes && pitch <= 0x7FFFFFFF);
    require(isPitchFine, InvalidValue,
            "a pitch is less than the width or over 2147483647");
    CUDA_MEMCPY2D kept = *copy;
    if (kept.Height == 1) // the pitch does not count
      kept.srcPitch = kept.dstPitch = kept.WidthInBytes;
    enqueue(streamOf(stream), [kept] { copyRows(kept); });
  });
}

// ---- Fills ------------------------------------------------------------------

template <class T>
static void fill(CUstream_st &stream, CUdeviceptr to, T value, size_t count) {
  if (!count)
    return;
  require(to % sizeof(T) == 0, InvalidValue, "the target is not aligned");
  hostOf(to, count * sizeof(T), "target");
  enqueue(stream, [=] {
    uint8_t *host = hostOf(to, count * sizeof(T), "target");
    for (size_t at = 0; at < count; ++at)
      memcpy(host + at * sizeof(T), &value, sizeof(T));
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream) {
  return call("cuMemsetD8Async", true,
              [&] { fill<uint8_t>(streamOf(stream), to, value, count); });
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                          CUstream stream) {
  return call("cuMemsetD32Async", true,
              [&] { fill<uint32_t>(streamOf(stream), to, value, count); });
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return call("cuMemsetD8", true, [&] {
    forbidInCapture("cuMemsetD8");
    fill<uint8_t>(state().defaultStream, to, value, count);
  });
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return call("cuMemsetD32", true, [&] {
    forbidInCapture("cuMemsetD32");
    fill<uint32_t>(state().defaultStream, to, value, count);
  });
}
