//===- Times.cpp - when the device did what a run enqueued ----------------===//
//
// The host's clock tells when a command was enqueued. A device with a clock of
// its own is asked to note the moments before and after each command in its
// stream; nothing waits for that. When the run is over they are read, and
// replace the host's times in the trace and the profile.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Plugin.h"

#include <algorithm>
#include <cstdio>
#include <utility>

using namespace kerf::runtime;

/// Times of a run beyond which a device is not asked for them.
static constexpr int64_t mostTimes = INT64_C(1) << 20;

/// Turns a failed call of the device into a status.
template <typename Call> static Status ask(Call call) {
  char error[512] = "";
  if (auto result = call(error, sizeof error))
    return failure(statusOf(result), "%s", error);
  return {};
}

bool kerf_session::isTimedByDevice() const {
  return (profile || isTracing) && api->note_time && !isTooLongToTime;
}

Status kerf_session::reserveTimes(int64_t marks) {
  if (!api->note_time)
    return {};
  if (marks > mostTimes / 2) {
    if (!std::exchange(isTooLongToTime, true))
      std::fprintf(stderr,
                   "kerf: a run of %lld commands is timed by the host, which "
                   "waits for each of them: the device does it for up to "
                   "%lld\n",
                   (long long)marks, (long long)(mostTimes / 2));
    return {};
  }
  timed.reserve(marks);
  return ask([&](char *error, size_t bytes) {
    return api->reserve_times(device, static_cast<uint32_t>(2 * marks), error,
                              bytes);
  });
}

Status kerf_session::startTimes() {
  timed.clear();
  if (!isTimedByDevice())
    return {};
  return ask([&](char *error, size_t bytes) {
    return api->start_times(device, error, bytes);
  });
}

Status kerf_session::noteTime(uint32_t stream, uint32_t index) {
  return ask([&](char *error, size_t bytes) {
    return api->note_time(device, stream, index, error, bytes);
  });
}

/// What the host does itself, or waits for, has times of the host.
bool kerf_session::isEnqueued(uint32_t index) const {
  uint32_t opcode = view.commands[index].opcode;
  return isExchange(opcode) ? transport->onDevice() : steps[index] != nullptr;
}

/// The stream on which a command that is enqueued runs.
uint32_t kerf_session::streamOf(uint32_t index) const {
  const kerf_command &command = view.commands[index];
  return kerf::artifact::isCollective(command.opcode)
             ? groups[view.attrs[command.first_attr + KERF_COLLECTIVE_GROUP]]
                   ->stream()
             : 0;
}

/// `time` is for `endTime`. The stream does not begin before stream 0 got here.
Status kerf_session::beginTime(uint32_t stream, size_t &time) {
  Status status;
  if (stream != 0)
    status = ask([&](char *error, size_t bytes) {
      return api->order(device, 0, stream, error, bytes);
    });
  if (status.failed())
    return status;
  time = timed.size();
  timed.push_back({KERF_NONE, stream, SIZE_MAX});
  return noteTime(stream, static_cast<uint32_t>(2 * time));
}

Status kerf_session::endTime(size_t time) {
  return noteTime(timed[time].stream, static_cast<uint32_t>(2 * time + 1));
}

Status kerf_session::readTimes() {
  Status status;
  for (size_t n = 0; n < timed.size() && !status.failed(); ++n) {
    double start = 0, end = 0;
    for (auto [seconds, index] :
         {std::pair(&start, 2 * n), std::pair(&end, 2 * n + 1)})
      if (!status.failed())
        status = ask([&](char *error, size_t bytes) {
          return api->read_time(device, static_cast<uint32_t>(index), seconds,
                                error, bytes);
        });
    if (status.failed())
      break;
    if (timed[n].mark != SIZE_MAX) {
      Mark &mark = marks[timed[n].mark];
      mark.start = start;
      mark.end = end;
      mark.stream = timed[n].stream;
    }
    if (profile && timed[n].command != KERF_NONE)
      timings[timed[n].command].seconds += end - start;
  }
  // Streams run at the same time: in order of their ends, as promised.
  if (!timed.empty())
    std::sort(marks.begin(), marks.begin() + static_cast<ptrdiff_t>(marked),
              [](const Mark &a, const Mark &b) {
                return a.end != b.end ? a.end < b.end : a.start > b.start;
              });
  return status;
}
