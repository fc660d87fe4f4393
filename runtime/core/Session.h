//===- Session.h - one rank of a job --------------------------------------===//

#ifndef KERF_RUNTIME_CORE_SESSION_H
#define KERF_RUNTIME_CORE_SESSION_H

#include "Artifact.h"
#include "Bounce.h"
#include "Snapshot.h"
#include "Transport.h"

#include "kerf/Runtime/Device.h"

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Seconds of CLOCK_MONOTONIC.
inline double clockSeconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

/// Does a command need other ranks?
inline bool isExchange(uint32_t opcode) {
  return artifact::isCollective(opcode) || artifact::isMessage(opcode) ||
         opcode == KERF_OP_WAIT;
}

/// Where clocks run together: the same number, not 0, in all processes of a
/// machine until it restarts.
uint64_t machineNumber();

/// Collective: compares the clock of this rank with that of member 0. The
/// result is that of the exchange that was done soonest, and at most half of
/// its time wrong (Cristian 1989).
Status compareClocks(Communicator &group, uint64_t machine, double (*clock)(),
                     double &offsetSec, double &errorSec);

/// Most events that a run of `view` can have: of a training step, or of an
/// evaluation.
int64_t mostMarks(const artifact::View &view);

} // namespace kerf::runtime

/// Behind the C handle.
struct kerf_session {
  using Status = kerf::runtime::Status;
  using View = kerf::artifact::View;

  explicit kerf_session(const kerf_artifact &artifact)
      : artifact(artifact), view(artifact.view) {}
  ~kerf_session();

  // Session.cpp
  Status create(const kerf_session_options &options);

  // Execute.cpp
  /// Runs calls [begin, end) of the rank's program. They are done on return.
  Status runCalls(uint32_t begin, uint32_t end);

  // Graphs.cpp
  /// One training step: command by command, or what was recorded of it.
  Status runStep();

  // Initialize.cpp
  Status initialize(int64_t seed);

  // Tensors.cpp
  /// Gathers a tensor that the ranks of program `owner` have at `offset`; the
  /// others take part, too. `data` may be null.
  Status readGlobal(const kerf_layout &layout, uint32_t owner, int64_t offset,
                    void *data);
  void writeGlobal(const kerf_layout &layout, int64_t offset, const void *data);
  /// Sets a range of the arena to zero.
  void zero(int64_t offset, int64_t bytes);

  const kerf_artifact &artifact;
  View view; ///< of the rank's program, once the rank is known
  uint32_t rank = 0, program = 0;
  uint32_t coordinates[KERF_MAX_AXES] = {};
  std::string sessionName;
  bool checkNans = false, profile = false, noGraphs = false;

  const kerf_device_api *api = nullptr;
  kerf_device *device = nullptr;
  uint64_t freeAtStart = 0; ///< bytes of the device; 0: not known
  int32_t hostThreads = 1;  ///< for work of the runtime's own on the host
  kerf_image *image = nullptr;
  char *arena = nullptr;
  std::unique_ptr<kerf::runtime::Transport> transport;
  std::unique_ptr<kerf::runtime::Communicator> world;
  std::vector<std::unique_ptr<kerf::runtime::Communicator>> groups;
  std::vector<std::unique_ptr<kerf::runtime::Channel>> channels;
  /// Of a device whose memory the host cannot address, with a transport that
  /// cannot, either.
  std::optional<kerf::runtime::BounceBuffers> bounceBuffers;
  std::vector<kerf_step *> steps; ///< by command; null for the runtime's own

  uint32_t started = KERF_NONE; ///< command whose exchange is under way

  std::atomic<uint32_t> progress{UINT32_MAX};
  std::string broken; ///< message of the run that failed, if any
  struct Timing {
    uint64_t calls = 0;
    double seconds = 0;
  };
  std::vector<Timing> timings; ///< by command, with `profile`
  std::vector<kerf_profile_entry> profileEntries;
  kerf_waits waits = {};

  /// One event of a recorded run.
  struct Mark {
    double start, end;
    uint32_t call, command;      ///< KERF_NONE: the call as a whole
    int64_t iteration;           ///< -1 outside of loops
    uint32_t stream = KERF_NONE; ///< of the device, whose times these are then
  };
  bool isTracing = false;
  std::vector<Mark> marks; ///< as many as a run can have
  size_t marked = 0;       ///< of the last run

  // Times.cpp
  /// Are times of commands asked of the device?
  bool isTimedByDevice() const;
  /// Makes room on the device for the times of a run of so many marks. A run
  /// of too many is timed by the host.
  Status reserveTimes(int64_t marks);
  /// What the device notes the time of: times 2n and 2n+1 of its n-th.
  struct Timed {
    uint32_t command, stream; ///< KERF_NONE: of a call
    size_t mark;              ///< SIZE_MAX: none
  };
  bool isTooLongToTime = false; ///< on the device
  std::vector<Timed> timed; ///< of the run that is under way, or the last one

  /// Does the host read and write the arena itself?
  bool hasHostMemory() const { return api->flags & KERF_DEVICE_HOST_MEMORY; }
  /// Waits for what was enqueued. Fails with what went wrong in it.
  Status synchronize() const;
  /// As `synchronize`, without what the transport enqueued.
  Status waitForDevice() const;
  /// Copies `bytes` at `memory` of the device to `host`, after all steps so
  /// far. Fails with what went wrong in them or in the copy.
  Status fetch(void *host, const void *memory, uint64_t bytes) const;

  // Snapshot.cpp
  using Snapshot = kerf::runtime::Snapshot;
  /// Memory of the host for snapshots; `beside`: such that a device copies to
  /// it beside its steps, where it can.
  Status takeSnapshotMemory(uint64_t bytes, bool beside, void **memory);
  /// Copies parts of the arena as they are now, beside the next step where
  /// that is possible.
  Status beginSnapshot(std::vector<Snapshot::Part> parts);
  /// Returns when the snapshot is there. Another thread may call it.
  Status finishSnapshot();
  std::unique_ptr<Snapshot> snapshot; ///< the one that was begun last, or null

  /// Gives up what is recorded, also half a recording (Graphs.cpp); what a
  /// `recordable` transport calls before it fails.
  void dropParts();

private:
  Status chooseRank(const kerf_session_options &options);
  Status openMachine(const kerf_session_options &options);
  Status createDevice(const kerf_session_options &options);
  Status checkFeatures() const;
  Status connect(const kerf_session_options &options);
  Status openGroups();
  Status openChannels();
  Status load();
  Status loadKernels();
  Status prepare(uint32_t command);
  Status reserveExchanges();
  Status reserveBounceBuffers();

  /// What the operands of a command depend on.
  struct Place {
    const kerf_call &call;
    int64_t iteration; ///< -1 outside of loops
  };
  /// Calls `body(command, iteration)` for the commands that a call runs, in
  /// order, until one fails.
  template <typename Body>
  Status forCommands(const kerf_call &call, Body body) const;
  Status runCall(const kerf_call &call);
  Status runCommands(const kerf_call &call);
  Status runCommand(uint32_t index, const Place &place);
  Status runAll(uint32_t begin, uint32_t end);
  Status finishRun(Status status);
  Status stopIf(uint32_t index, const void *number) const;
  Status dispatch(uint32_t index);
  Status settle();
  Status makeWay(uint32_t index, const Place &place);
  Status collective(uint32_t index);
  Status message(const kerf_command &command);
  Status expectNext(const kerf_command &command);
  void lookAhead(uint32_t begin, uint32_t end);
  Status awaitSnapshot(uint32_t index);
  int32_t scalarAt(const kerf_scalar &scalar, const Place &place) const;
  std::vector<int64_t> fixedScalars(const kerf_command &command) const;
  Status resolve(uint32_t index, const Place &place);
  void account(uint32_t index, const Place &place, double start, double end,
               size_t time = SIZE_MAX);
  void mark(uint32_t command, const Place &place, double start, double end,
            size_t time = SIZE_MAX);
  bool isEnqueued(uint32_t index) const;
  uint32_t streamOf(uint32_t index) const;
  Status startTimes();
  Status noteTime(uint32_t stream, uint32_t index);
  Status beginTime(uint32_t stream, size_t &time);
  Status endTime(size_t time);
  Status readTimes();
  Status findNan(uint32_t index, const Place &place);
  Status describeInputs(const kerf_command &command, std::string &text) const;
  std::string parameterAt(const void *address) const;
  std::string operandName(uint32_t n, uint64_t bytes) const;
  std::string makerName(const kerf_command &command) const;
  void noteMaker(const void *address, uint64_t bytes,
                 const kerf_command &command);
  Status describeFailure(uint32_t index, Status status) const;

  /// A part of a training step that the device recorded, and the
  /// KERF_OP_STOP_IF behind it with the address that it reads; KERF_NONE behind
  /// the last part.
  struct Part {
    kerf_graph *graph;
    uint32_t stop;
    const void *number;
  };
  bool mayRecord() const;
  Status record();
  Status beginPart();
  Status endPart(uint32_t stop, const void *number);
  Status replay();

  bool hasStepped = false;  ///< a training step ran command by command
  bool isRecording = false; ///< what is enqueued is recorded
  std::vector<Part> parts;  ///< of the training step, once it is recorded

  /// By receives of the calls that run, in order: bytes of the message that the
  /// same channel brings next, before the host waits for the device; 0: none.
  std::vector<uint64_t> ahead;
  uint32_t aheadOf = KERF_NONE; ///< the first of these calls
  size_t received = 0;          ///< messages of the run

  /// Of the training step, once there is a snapshot.
  std::unique_ptr<kerf::runtime::WriteOrder> writeOrder;
  bool isBesideSnapshot = false; ///< the next training step
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> snapshotMemory;
  void *pinnedMemory = nullptr; ///< of snapshots, the device's

  /// Who wrote a range of memory last, by where it begins; with `check_nans`.
  struct Maker {
    uintptr_t end;
    std::string name;
  };
  std::map<uintptr_t, Maker> makers;

  std::vector<void *> pointers; ///< of the current command's operands
  std::vector<int32_t> scalars; ///< what they point to
};

namespace kerf::runtime {
/// Does a command with these flags run in this call?
inline bool applies(const kerf_command &command, const kerf_call &call) {
  bool first = call.flags & KERF_CALL_FIRST, last = call.flags & KERF_CALL_LAST;
  return !((command.flags & KERF_IF_FIRST && !first) ||
           (command.flags & KERF_UNLESS_FIRST && first) ||
           (command.flags & KERF_IF_LAST && !last));
}
} // namespace kerf::runtime

template <typename Body>
kerf::runtime::Status kerf_session::forCommands(const kerf_call &call,
                                                Body body) const {
  Status status;
  const kerf_func &func = view.funcs[call.func];
  uint32_t end = func.first_command + func.command_count;
  for (uint32_t c = func.first_command; c < end; ++c) {
    const kerf_command &command = view.commands[c];
    bool runs = kerf::runtime::applies(command, call);
    if (command.opcode != KERF_OP_LOOP) {
      if (runs)
        status = body(c, -1);
      if (status.failed())
        return status;
      continue;
    }
    const int64_t *attrs = view.attrs.data + command.first_attr;
    int64_t count = runs ? attrs[KERF_LOOP_END] - attrs[KERF_LOOP_START] : 0;
    uint32_t bodyEnd = c + 1 + attrs[KERF_LOOP_BODY];
    for (int64_t n = 0; n < count; ++n) {
      int64_t iteration = attrs[KERF_LOOP_REVERSE]
                              ? attrs[KERF_LOOP_END] - 1 - n
                              : attrs[KERF_LOOP_START] + n;
      for (uint32_t b = c + 1; b < bodyEnd; ++b)
        if (kerf::runtime::applies(view.commands[b], call))
          if (status = body(b, iteration); status.failed())
            return status;
    }
    c = bodyEnd - 1;
  }
  return status;
}

#endif // KERF_RUNTIME_CORE_SESSION_H
