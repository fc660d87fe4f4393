//===- Events.cpp - times that the GPU takes itself -----------------------===//
//
// An event takes the GPU's time when the work before it in its stream is done.
// Only differences of events can be asked for; the first event is one that the
// host waits for on an idle GPU, so that it has a time of the host's clock.
//
//===----------------------------------------------------------------------===//

#include "Events.h"

#include "Step.h"
#include "Streams.h"

#include <algorithm>
#include <ctime>
#include <iterator>

using namespace kerf::cuda;

static double hostSeconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static kerf_device_status answer(kerf_device &device, CUresult result,
                                 const char *what, char *error,
                                 size_t errorBytes) {
  if (result == CUDA_SUCCESS)
    return KERF_DEVICE_OK;
  say(error, errorBytes, "cannot %s: %s", what,
      device.driver.text(result).c_str());
  return result == CUDA_ERROR_OUT_OF_MEMORY ? KERF_DEVICE_NO_MEMORY
                                            : KERF_DEVICE_FAILED;
}

void kerf::cuda::dropTimes(kerf_device &device) {
  Times &times = device.times;
  for (CUevent event : times.events)
    device.driver.eventDestroy(event);
  times.events.clear();
  times.anchors.clear();
  if (times.origin)
    device.driver.eventDestroy(times.origin);
  times.origin = nullptr;
}

kerf_device_status kerf::cuda::reserveTimes(kerf_device *device, uint32_t count,
                                            char *error, size_t errorBytes) {
  device->makeCurrent();
  dropTimes(*device);
  Times &times = device->times;
  times.events.reserve(count);
  CUresult result = CUDA_SUCCESS;
  for (uint32_t n = 0; n <= count && result == CUDA_SUCCESS && count; ++n) {
    CUevent event = nullptr;
    result = device->driver.eventCreate(&event, CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS && n == count)
      times.origin = event;
    else if (result == CUDA_SUCCESS)
      times.events.push_back(event);
  }
  if (result != CUDA_SUCCESS)
    dropTimes(*device);
  return answer(*device, result, "make events", error, errorBytes);
}

kerf_device_status kerf::cuda::startTimes(kerf_device *device, char *error,
                                          size_t errorBytes) {
  Times &times = device->times;
  if (!times.origin) {
    say(error, errorBytes, "no room for times was asked for");
    return KERF_DEVICE_INVALID;
  }
  times.anchors.clear();
  kerf_device_status status = synchronize(device, error, errorBytes);
  // The first round wakes host and GPU up; the second one counts.
  for (int round = 0; round < 2 && status == KERF_DEVICE_OK; ++round) {
    double before = hostSeconds();
    CUresult result =
        device->driver.eventRecord(times.origin, device->streams[0]);
    if (result == CUDA_SUCCESS)
      result = device->driver.eventSynchronize(times.origin);
    times.originSec = (before + hostSeconds()) / 2;
    status = answer(*device, result, "take a time", error, errorBytes);
  }
  return status;
}

kerf_device_status kerf::cuda::noteTime(kerf_device *device, uint32_t stream,
                                        uint32_t index, char *error,
                                        size_t errorBytes) {
  Times &times = device->times;
  if (stream >= KERF_DEVICE_STREAMS || index >= times.events.size() ||
      device->recording) {
    say(error, errorBytes, "time %u of %zu on stream %u cannot be taken%s",
        index, times.events.size(), stream,
        device->recording ? " while a graph is recorded" : "");
    return KERF_DEVICE_INVALID;
  }
  device->makeCurrent();
  times.anchors.clear();
  CUresult result =
      device->driver.eventRecord(times.events[index], device->streams[stream]);
  return answer(*device, result, "take a time", error, errorBytes);
}

/// Seconds of an event after the origin. A float of milliseconds is fine for a
/// second: what is later is measured from an event that was read before.
static CUresult secondsOf(kerf_device &device, CUevent event, double &seconds) {
  Times &times = device.times;
  float milliseconds = 0;
  CUresult result =
      device.driver.eventElapsedTime(&milliseconds, times.origin, event);
  seconds = 1e-3 * static_cast<double>(milliseconds);
  constexpr double fine = 1;
  if (result != CUDA_SUCCESS || seconds <= fine)
    return result;
  double surely = seconds * (1 - 1e-6); // beyond the rounding
  auto next = std::partition_point(
      times.anchors.begin(), times.anchors.end(),
      [&](const auto &anchor) { return anchor.second <= surely; });
  double base = 0;
  if (next != times.anchors.begin()) {
    auto [near, nearSec] = *std::prev(next);
    base = nearSec;
    result = device.driver.eventElapsedTime(&milliseconds, near, event);
    seconds = base + 1e-3 * static_cast<double>(milliseconds);
  }
  if (result == CUDA_SUCCESS && seconds - base > fine)
    times.anchors.insert(next, {event, seconds});
  return result;
}

kerf_device_status kerf::cuda::readTime(kerf_device *device, uint32_t index,
                                        double *seconds, char *error,
                                        size_t errorBytes) {
  Times &times = device->times;
  if (index >= times.events.size()) {
    say(error, errorBytes, "no time %u of %zu", index, times.events.size());
    return KERF_DEVICE_INVALID;
  }
  device->makeCurrent();
  double after = 0;
  CUresult result = secondsOf(*device, times.events[index], after);
  *seconds = times.originSec + after;
  return answer(*device, result, "read a time", error, errorBytes);
}
