//===- Streams.cpp - stands in for libcuda's streams ----------------------===//

#include "Streams.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

int put(CUstream_st *stream, std::function<bool()> go, void *owner) {
  std::lock_guard lock(Machine::get().mutex);
  stream->tasks.push_back({std::move(go), owner});
  return 0;
}

EXPORT int cuGetErrorString(int, const char **text) {
  *text = "an error of the stand-in";
  return 0;
}
EXPORT int cuStreamCreate(CUstream_st **stream, unsigned) {
  std::lock_guard lock(Machine::get().mutex);
  *stream = &Machine::get().streams.emplace_back();
  return 0;
}
EXPORT int cuStreamDestroy_v2(CUstream_st *stream) {
  std::lock_guard lock(Machine::get().mutex);
  Machine::get().streams.remove_if(
      [&](const CUstream_st &other) { return &other == stream; });
  return 0;
}
EXPORT int cuStreamQuery(CUstream_st *stream) {
  constexpr int notReady = 600;
  std::lock_guard lock(Machine::get().mutex);
  return stream->tasks.empty() ? 0 : notReady;
}
EXPORT int cuLaunchHostFunc(CUstream_st *stream, void (*function)(void *),
                            void *data) {
  return put(stream, [=] {
    function(data);
    return true;
  });
}
EXPORT int cuEventCreate(CUevent_st **event, unsigned) {
  *event = new CUevent_st;
  return 0;
}
EXPORT int cuEventDestroy_v2(CUevent_st *) {
  return 0; // tasks may know it still; tests are short
}
EXPORT int cuEventRecord(CUevent_st *event, CUstream_st *stream) {
  std::lock_guard lock(Machine::get().mutex);
  uint64_t number = ++event->recorded;
  return put(stream, [=] {
    event->reached = std::max(event->reached, number);
    return true;
  });
}
EXPORT int cuStreamWaitEvent(CUstream_st *stream, CUevent_st *event, unsigned) {
  std::lock_guard lock(Machine::get().mutex);
  uint64_t number = event->recorded;
  return put(stream, [=] { return event->reached >= number; });
}
EXPORT int cuStreamWriteValue32_v2(CUstream_st *stream,
                                   unsigned long long address, uint32_t value,
                                   unsigned) {
  return put(stream, [=] {
    std::memcpy(reinterpret_cast<void *>(address), &value, sizeof value);
    return true;
  });
}
EXPORT int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from,
                                size_t bytes, CUstream_st *stream) {
  return put(stream, [=] {
    std::memmove(reinterpret_cast<void *>(to),
                 reinterpret_cast<const void *>(from), bytes);
    return true;
  });
}

/// CUDA_MEMCPY2D, of which only memory of one kind is used.
struct Copy2D {
  size_t fromX, fromY;
  int fromKind;
  const void *fromHost;
  unsigned long long from;
  void *fromArray;
  size_t fromPitch, toX, toY;
  int toKind;
  void *toHost;
  unsigned long long to;
  void *toArray;
  size_t toPitch, width, height;
};

EXPORT int cuMemcpy2DAsync_v2(const Copy2D *given, CUstream_st *stream) {
  return put(stream, [copy = *given] {
    for (size_t row = 0; row < copy.height; ++row)
      std::memmove(reinterpret_cast<char *>(copy.to) + row * copy.toPitch,
                   reinterpret_cast<const char *>(copy.from) +
                       row * copy.fromPitch,
                   copy.width);
    return true;
  });
}
EXPORT int cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  return 0;
}
EXPORT int cuMemFreeHost(void *memory) {
  std::free(memory);
  return 0;
}
EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long *address,
                                        void *memory, unsigned) {
  *address = reinterpret_cast<uintptr_t>(memory);
  return 0;
}
