//===- Session.h - one rank of a job --------------------------------------===//

#ifndef KERF_RUNTIME_CORE_SESSION_H
#define KERF_RUNTIME_CORE_SESSION_H

#include "Artifact.h"
#include "Bounce.h"
#include "Transport.h"

#include "kerf/Runtime/Device.h"

#include <atomic>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
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
  int32_t hostThreads = 1; ///< for work of the runtime's own on the host
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
    uint32_t call, command; ///< KERF_NONE: the call as a whole
    int64_t iteration;      ///< -1 outside of loops
  };
  bool isTracing = false;
  std::vector<Mark> marks; ///< as many as a run can have
  size_t marked = 0;       ///< of the last run

  /// Does the host read and write the arena itself?
  bool hasHostMemory() const { return api->flags & KERF_DEVICE_HOST_MEMORY; }
  /// Waits for what was enqueued. Fails with what went wrong in it.
  Status synchronize() const;
  /// As `synchronize`, without what the transport enqueued.
  Status waitForDevice() const;
  /// Copies `bytes` at `memory` of the device to `host`, after all steps so
  /// far. Fails with what went wrong in them or in the copy.
  Status fetch(void *host, const void *memory, uint64_t bytes) const;

private:
  Status chooseRank(const kerf_session_options &options);
  Status openMachine(const kerf_session_options &options);
  Status createDevice(const kerf_session_options &options);
  Status checkFeatures() const;
  Status connect(const kerf_session_options &options);
  Status openGroups();
  Status openChannels();
  Status load();
  Status loadArena();
  Status loadKernels();
  Status prepare(uint32_t command);
  Status reserveBounceBuffers();

  /// What the operands of a command depend on.
  struct Place {
    const kerf_call &call;
    int64_t iteration; ///< -1 outside of loops
  };
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
  int32_t scalarAt(const kerf_scalar &scalar, const Place &place) const;
  Status resolve(uint32_t index, const Place &place);
  void account(uint32_t index, const Place &place, double start, double end);
  void mark(uint32_t command, const Place &place, double start, double end);
  Status findNan(uint32_t index);
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
  void dropParts();

  bool hasStepped = false;  ///< a training step ran command by command
  bool isRecording = false; ///< what is enqueued is recorded
  std::vector<Part> parts;  ///< of the training step, once it is recorded

  std::vector<void *> pointers; ///< of the current command's operands
  std::vector<int32_t> scalars; ///< what they point to
};

#endif // KERF_RUNTIME_CORE_SESSION_H
