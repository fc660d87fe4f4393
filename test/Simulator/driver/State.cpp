//===- State.cpp - what every call of the driver does ---------------------===//

#include "State.h"
#include "Bridge.h"

#include <cstdlib>
#include <cstring>
#include <new>

using namespace kerf::sim;

State &kerf::sim::state() {
  static State *state = [] {
    auto *made = new State; // outlives what exit handlers call
    made->defaultStream.lane = made->timeline.addLane();
    return made;
  }();
  return *state;
}

static bool isSet(const char *variable, const char *value) {
  const char *text = getenv(variable);
  return text && strcmp(text, value) == 0;
}

bool kerf::sim::isLate() { return isSet("KERF_SIM_STREAMS", "late"); }

void kerf::sim::require(bool condition, Status status,
                        const std::string &text) {
  if (!condition)
    throw Trap{status, text};
}

CUresult kerf::sim::call(const char *name, bool needsContext,
                         const std::function<void()> &body) {
  State &now = state();
  std::lock_guard lock(now.mutex);
  try {
    require(now.startedBy, NotInitialized, "cuInit was not called");
    require(now.startedBy == getpid(), NotInitialized,
            "cuInit was called before this process was forked");
    if (now.failure)
      return now.failure;
    CUcontext current = nullptr;
    cuCtxGetCurrent(&current);
    require(!needsContext || current, InvalidContext, "no context is current");
    body();
    return now.failure; // of a kernel that this call has run
  } catch (const Trap &trap) {
    if (isSet("KERF_SIM_LOG", "1"))
      fprintf(stderr, "kerf-sim: %s: %s\n", name, trap.text.c_str());
    return trap.status;
  } catch (const std::bad_alloc &) {
    return OutOfMemory; // of the host
  }
}

CUstream_st &kerf::sim::streamOf(CUstream handle) {
  if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
    return state().defaultStream;
  require(state().streams.count(handle), InvalidHandle, "no such stream");
  return *handle;
}

void kerf::sim::runGuarded(const Work &work) {
  if (state().failure)
    return;
  try {
    work();
  } catch (const Trap &trap) {
    fprintf(stderr, "kerf-sim: %s\n", trap.text.c_str());
    state().failure = trap.status;
    state().timeline.clear();
  }
}

/// The default stream waits for blocking streams, and they for it.
static void orderDefault(CUstream_st &stream) {
  State &now = state();
  CUstream_st &standard = now.defaultStream;
  if (&stream != &standard) {
    if (stream.isBlocking)
      now.timeline.join(stream.lane, now.timeline.tip(standard.lane));
    return;
  }
  for (CUstream other : now.streams)
    if (other->isBlocking)
      now.timeline.join(standard.lane, now.timeline.tip(other->lane));
}

void kerf::sim::enqueue(CUstream_st &stream, Work work) {
  State &now = state();
  if (stream.capture) {
    Capture &capture = *stream.capture;
    require(!capture.isInvalid, CaptureInvalidated, "the capture is invalid");
    capture.timeline.append(stream.captureLane, std::move(work));
    ++capture.nodes;
    return;
  }
  if (&stream == &now.defaultStream)
    for (const auto &capture : now.captures)
      if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        capture->isInvalid = true;
        throw Trap{CaptureImplicit,
                   "work for the default stream while another is captured"};
      }
  orderDefault(stream);
  now.timeline.append(stream.lane,
                      [work = std::move(work)] { runGuarded(work); });
  if (!isLate())
    now.timeline.run(now.timeline.tip(stream.lane));
}

void kerf::sim::finish(CUstream_st &stream) {
  if (stream.capture) {
    stream.capture->isInvalid = true;
    throw Trap{CaptureUnsupported, "waits for a stream that is captured"};
  }
  state().timeline.run(state().timeline.tip(stream.lane));
}

void kerf::sim::finishAll() { state().timeline.run(state().timeline.all()); }

void kerf::sim::forbidInCapture(const char *name) {
  for (const auto &capture : state().captures) {
    bool isOther = capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
                   capture->thread != std::this_thread::get_id();
    if (isOther || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
      continue;
    capture->isInvalid = true;
    throw Trap{CaptureUnsupported,
               std::string(name) + " while a stream is captured"};
  }
}

uint8_t *kerf::sim::hostOf(CUdeviceptr address, uint64_t bytes,
                           const char *what) {
  uint8_t *host = memory().host(address, bytes);
  require(host, InvalidValue,
          std::string(what) + ": " + std::to_string(bytes) + " bytes at " +
              describeAddress(address));
  return host;
}

// ---- For the stand-ins of libraries -----------------------------------------

int kerf::sim::bridgeEnqueue(void *stream, std::function<void()> work) {
  return call("library", true, [&] {
    enqueue(streamOf(static_cast<CUstream>(stream)), std::move(work));
  });
}

uint8_t *kerf::sim::bridgeHost(uint64_t address, uint64_t bytes) {
  return memory().host(address, bytes);
}
