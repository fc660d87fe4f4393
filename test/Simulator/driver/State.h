//===- State.h - what the stand-in for the driver keeps -------------------===//

#ifndef KERF_SIMULATOR_STATE_H
#define KERF_SIMULATOR_STATE_H

#include "Api.h"
#include "Machine.h"
#include "Timeline.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include <unistd.h>

namespace kerf::sim {

/// Streams that are recorded together.
struct Capture {
  Timeline timeline;
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = 0;
  std::thread::id thread;
  bool isInvalid = false;
  std::vector<CUstream> streams;
  uint64_t nodes = 0;
};

} // namespace kerf::sim

struct CUstream_st {
  size_t lane = 0;
  bool isBlocking = true; ///< waits for the default stream
  std::shared_ptr<kerf::sim::Capture> capture;
  size_t captureLane = 0;
};

struct CUevent_st {
  bool hasTiming = true, isRecorded = false;
  kerf::sim::Clock clock;
  std::shared_ptr<kerf::sim::Capture> capture; ///< where it was recorded
  std::shared_ptr<double> time;                ///< seconds of the GPU's clock
};

struct CUgraph_st {
  kerf::sim::Timeline timeline;
  uint64_t nodes = 0;
};

struct CUgraphExec_st {
  kerf::sim::Timeline timeline;
};

struct CUfunc_st {
  CUmodule module = nullptr;
  const kerf::sim::Entry *entry = nullptr;
  uint32_t dynamicLimit = 0; ///< bytes of dynamic shared memory, 0: default
  bool isLoaded = false;     ///< drivers load a kernel when it runs first
};

struct CUmod_st {
  std::shared_ptr<kerf::sim::Program> program;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct CUctx_st {
  CUdevice device = 0;
};

namespace kerf::sim {

/// Everything that lives as long as the process. Calls hold `mutex`.
struct State {
  std::recursive_mutex mutex;
  pid_t startedBy = 0;      ///< process that called cuInit; 0: none
  Status failure = Success; ///< of a kernel: every later call gives it
  int contextUsers = 0;
  std::vector<CUctx_st> contexts;
  Timeline timeline;
  CUstream_st defaultStream;
  std::set<CUstream> streams;
  std::set<CUevent> events;
  std::set<CUmodule> modules;
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> execs;
  std::vector<std::shared_ptr<Capture>> captures; ///< open ones
  std::map<void *, size_t> pinned;                ///< host memory, bytes
};

State &state();
/// Does work run only when it is waited for? KERF_SIM_STREAMS=late
bool isLate();

/// Runs the body of a call: locks, checks that the driver is started, a context
/// is current (`needsContext`) and no kernel has failed, and turns a Trap into
/// its status.
CUresult call(const char *name, bool needsContext,
              const std::function<void()> &body);

/// Throws Trap unless `condition`.
void require(bool condition, Status status, const std::string &text);

/// The stream of a handle; null is the default one. Throws.
CUstream_st &streamOf(CUstream handle);
/// Enqueues work, or records it where the stream is captured. `isAtomic`
/// streams order themselves.
void enqueue(CUstream_st &stream, Work work);
/// Waits for the stream, which must not be captured.
void finish(CUstream_st &stream);
void finishAll();
/// A call that captures forbid: invalidates those of this thread and throws.
void forbidInCapture(const char *name);
/// Runs `work` as a kernel's: a Trap makes the context useless and is told on
/// stderr.
void runGuarded(const Work &work);

/// Host memory of device memory. Throws Trap{InvalidValue}.
uint8_t *hostOf(CUdeviceptr address, uint64_t bytes, const char *what);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_STATE_H
