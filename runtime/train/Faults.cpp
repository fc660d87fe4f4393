//===- Faults.cpp - what ranks tell their launcher ------------------------===//

#include "kerf/Train/Faults.h"

#include "kerf/Train/Text.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

using namespace kerf::runtime;

static constexpr const char *pipeName = "KERF_FAULT_PIPE";
/// Time in which the launcher makes room for a fault.
static constexpr int mostWaitMs = 200;

void kerf::runtime::tellLauncher(const FaultRecord &record) {
  int64_t descriptor = -1;
  const char *text = std::getenv(pipeName);
  if (!text || !parseInteger(text, descriptor) || descriptor < 0)
    return;
  auto end = static_cast<int>(descriptor);
  while (write(end, &record, sizeof record) < 0) {
    pollfd room = {end, POLLOUT, 0};
    bool isFull = errno == EAGAIN && record.isFault();
    if (errno != EINTR && !(isFull && poll(&room, 1, mostWaitMs) > 0))
      return;
  }
}

FaultPipe::~FaultPipe() {
  for (int end : ends)
    if (end >= 0)
      close(end);
}

void FaultPipe::open() {
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    ends[0] = ends[1] = -1;
}

void FaultPipe::handOn() const {
  if (ends[1] < 0)
    return;
  fcntl(ends[1], F_SETFD, 0);
  setenv(pipeName, std::to_string(ends[1]).c_str(), 1);
}

bool FaultPipe::take(FaultRecord &record) {
  // Records are written whole: they are smaller than PIPE_BUF.
  return ends[0] >= 0 && read(ends[0], &record, sizeof record) ==
                             static_cast<ssize_t>(sizeof record);
}

std::string Fault::words() const {
  std::string text = "rank " + std::to_string(rank);
  auto named = [&] {
    return "by signal " + std::to_string(signal) + " (" + strsignal(signal) +
           ")";
  };
  if (!lost.empty())
    text = lost;
  else if (kind == FaultKind::Asked)
    text = "the job was asked to end " + named();
  else if (signal)
    text += " was killed " + named();
  else if (kind == FaultKind::NotFinite)
    text = "the loss was no number";
  else if (kind == FaultKind::Stalled)
    text = "nothing moved in the job";
  else
    text = "the job failed";
  if (step <= 0)
    return text;
  return text + (isBetween ? " after step " : " in step ") +
         std::to_string(step);
}
