//===- StreamCalls.cpp - streams, events, graphs --------------------------===//

#include "State.h"

#include <algorithm>
#include <cstdlib>

using namespace kerf::sim;

// ---- Streams ----------------------------------------------------------------

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return call("cuStreamCreate", true, [&] {
    require(flags <= CU_STREAM_NON_BLOCKING, InvalidValue, "unknown flags");
    *stream = new CUstream_st;
    (*stream)->isBlocking = flags != CU_STREAM_NON_BLOCKING;
    (*stream)->lane = state().timeline.addLane();
    state().streams.insert(*stream);
  });
}
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) {
  return cuStreamCreate(stream, flags);
}
CUresult cuStreamDestroy(CUstream stream) {
  return call("cuStreamDestroy", true, [&] {
    require(state().streams.count(stream), InvalidHandle, "no such stream");
    finish(*stream);
    state().streams.erase(stream);
    delete stream;
  });
}
CUresult cuStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", true, [&] {
    finish(streamOf(stream));
    forbidInCapture("cuStreamSynchronize");
  });
}
CUresult cuStreamQuery(CUstream stream) {
  return call("cuStreamQuery", true, [&] {
    CUstream_st &which = streamOf(stream);
    Timeline &timeline = state().timeline;
    if (which.capture)
      finish(which); // not permitted
    forbidInCapture("cuStreamQuery");
    require(timeline.isDone(timeline.tip(which.lane)), NotReady, "not done");
  });
}

// ---- Events -----------------------------------------------------------------

static void requireEvent(CUevent event) {
  require(state().events.count(event), InvalidHandle, "no such event");
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  return call("cuEventCreate", true, [&] {
    *event = new CUevent_st;
    (*event)->hasTiming = !(flags & CU_EVENT_DISABLE_TIMING);
    state().events.insert(*event);
  });
}
CUresult cuEventDestroy(CUevent event) {
  return call("cuEventDestroy", true, [&] {
    requireEvent(event);
    state().events.erase(event);
    delete event;
  });
}
/// The GPU's clock: the host's, or one that KERF_SIM_TICK makes go on by so
/// many seconds for each event.
static double secondsNow() {
  static double ticked = 0;
  if (const char *tick = getenv("KERF_SIM_TICK"))
    return ticked += atof(tick);
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return call("cuEventRecord", true, [&] {
    requireEvent(event);
    CUstream_st &which = streamOf(stream);
    event->isRecorded = true;
    event->capture = which.capture;
    if (which.capture) {
      event->clock = which.capture->timeline.tip(which.captureLane);
      return;
    }
    if (event->hasTiming) {
      event->time = std::make_shared<double>();
      enqueue(which, [time = event->time] { *time = secondsNow(); });
    }
    event->clock = state().timeline.tip(which.lane);
  });
}

/// A stream that waits for an event of a capture takes part in it.
static void joinCapture(CUstream_st &stream, const CUevent_st &event) {
  const std::shared_ptr<Capture> &capture = event.capture;
  auto &open = state().captures;
  require(std::find(open.begin(), open.end(), capture) != open.end(),
          CaptureUnmatched, "the event's capture has ended");
  require(!capture->isInvalid, CaptureInvalidated, "the capture is invalid");
  require(&stream != &state().defaultStream, CaptureImplicit,
          "the default stream cannot be captured");
  if (!stream.capture) {
    stream.capture = capture;
    stream.captureLane = capture->timeline.addLane();
    capture->streams.push_back(&stream);
  }
  if (stream.capture != capture) {
    stream.capture->isInvalid = capture->isInvalid = true;
    throw Trap{static_cast<Status>(902), "two captures would be merged"};
  }
  capture->timeline.join(stream.captureLane, event.clock);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return call("cuStreamWaitEvent", true, [&] {
    requireEvent(event);
    CUstream_st &which = streamOf(stream);
    if (!event->isRecorded)
      return;
    if (event->capture)
      return joinCapture(which, *event);
    if (which.capture) {
      which.capture->isInvalid = true;
      throw Trap{CaptureIsolation,
                 "a captured stream waits for work that is not captured"};
    }
    state().timeline.join(which.lane, event->clock);
  });
}

static void requireOutside(const CUevent_st &event) {
  if (!event.capture)
    return;
  event.capture->isInvalid = true;
  throw Trap{static_cast<Status>(907), "the event is of a capture"};
}

CUresult cuEventSynchronize(CUevent event) {
  return call("cuEventSynchronize", true, [&] {
    requireEvent(event);
    requireOutside(*event);
    forbidInCapture("cuEventSynchronize");
    state().timeline.run(event->clock);
  });
}
CUresult cuEventQuery(CUevent event) {
  return call("cuEventQuery", true, [&] {
    requireEvent(event);
    requireOutside(*event);
    forbidInCapture("cuEventQuery");
    require(state().timeline.isDone(event->clock), NotReady, "not done");
  });
}
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return call("cuEventElapsedTime", true, [&] {
    for (CUevent event : {start, end}) {
      requireEvent(event);
      require(event->hasTiming && event->isRecorded && !event->capture,
              InvalidHandle, "the event has no time");
      require(state().timeline.isDone(event->clock), NotReady, "not done");
    }
    *milliseconds = static_cast<float>((*end->time - *start->time) * 1e3);
  });
}
// Drivers before 12.8 have it by this name alone, later ones by both.
#undef cuEventElapsedTime
extern "C" KERF_SIM_EXPORT CUresult cuEventElapsedTime(float *milliseconds,
                                                       CUevent start,
                                                       CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

// ---- Captures ---------------------------------------------------------------

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture", true, [&] {
    CUstream_st &which = streamOf(stream);
    require(&which != &state().defaultStream, CaptureUnsupported,
            "the default stream cannot be captured");
    require(!which.capture, InvalidValue, "the stream is captured already");
    require(mode >= 0 && mode <= CU_STREAM_CAPTURE_MODE_RELAXED, InvalidValue,
            "unknown mode");
    auto capture = std::make_shared<Capture>();
    capture->origin = &which;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->streams.push_back(&which);
    which.capture = capture;
    which.captureLane = capture->timeline.addLane();
    state().captures.push_back(capture);
  });
}

static void checkJoined(const Capture &capture) {
  Clock all = capture.timeline.all();
  Clock known = capture.timeline.tip(capture.origin->captureLane);
  known.resize(all.size());
  for (size_t lane = 0; lane < all.size(); ++lane)
    require(known[lane] >= all[lane], CaptureUnjoined,
            "the first stream does not wait for all work of the others");
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  if (graph)
    *graph = nullptr;
  return call("cuStreamEndCapture", true, [&] {
    CUstream_st &which = streamOf(stream);
    require(which.capture.get(), InvalidValue, "the stream is not captured");
    std::shared_ptr<Capture> capture = which.capture;
    if (capture->origin != &which) {
      capture->isInvalid = true;
      throw Trap{CaptureUnmatched, "the capture began in another stream"};
    }
    auto &open = state().captures;
    open.erase(std::find(open.begin(), open.end(), capture));
    for (CUstream member : capture->streams)
      member->capture = nullptr;
    require(!capture->isInvalid, CaptureInvalidated, "the capture is invalid");
    checkJoined(*capture);
    *graph = new CUgraph_st{capture->timeline, capture->nodes};
    state().graphs.insert(*graph);
  });
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  return call("cuStreamIsCapturing", true, [&] {
    const CUstream_st &which = streamOf(stream);
    *status = !which.capture             ? CU_STREAM_CAPTURE_STATUS_NONE
              : which.capture->isInvalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  });
}

// ---- Graphs -----------------------------------------------------------------

static void requireGraph(CUgraph graph) {
  require(state().graphs.count(graph), InvalidHandle, "no such graph");
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return call("cuGraphGetNodes", true, [&] {
    requireGraph(graph);
    require(!nodes, NotSupported, "nodes are only counted");
    *count = graph->nodes;
  });
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                     unsigned long long) {
  return call("cuGraphInstantiate", true, [&] {
    requireGraph(graph);
    *exec = new CUgraphExec_st{graph->timeline};
    state().execs.insert(*exec);
  });
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return call("cuGraphLaunch", true, [&] {
    require(state().execs.count(exec), InvalidHandle, "no such graph");
    CUstream_st &which = streamOf(stream);
    require(!which.capture, NotSupported,
            "graphs within graphs are not simulated");
    enqueue(which, [timeline = exec->timeline]() mutable {
      if (isLate())
        timeline.run(timeline.all());
      else
        timeline.runInOrder();
    });
  });
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return call("cuGraphExecDestroy", true, [&] {
    require(state().execs.erase(exec), InvalidHandle, "no such graph");
    delete exec;
  });
}
CUresult cuGraphDestroy(CUgraph graph) {
  return call("cuGraphDestroy", true, [&] {
    requireGraph(graph);
    state().graphs.erase(graph);
    delete graph;
  });
}
