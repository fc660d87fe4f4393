//===- Session.h - one rank of a job --------------------------------------===//

#ifndef KERF_RUNTIME_CORE_SESSION_H
#define KERF_RUNTIME_CORE_SESSION_H

#include "Artifact.h"
#include "Transport.h"

#include "kerf/Runtime/Device.h"

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

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
  /// Runs calls [begin, end) of the file.
  Status runCalls(uint32_t begin, uint32_t end);

  // Initialize.cpp
  Status initialize(int64_t seed);

  // Tensors.cpp
  /// Looks up a tensor: its layout with its own dtype, and where it lies.
  Status locate(const kerf_tensor &tensor, kerf_layout &layout,
                int64_t &offset) const;
  Status readGlobal(const kerf_layout &layout, int64_t offset, void *data);
  void writeGlobal(const kerf_layout &layout, int64_t offset, const void *data);

  const kerf_artifact &artifact;
  const View &view;
  uint32_t rank = 0;
  uint32_t coordinates[KERF_MAX_AXES] = {};
  std::string sessionName;
  bool checkNans = false, profile = false;

  const kerf_device_api *api = nullptr;
  kerf_device *device = nullptr;
  kerf_image *image = nullptr;
  char *arena = nullptr;
  std::unique_ptr<kerf::runtime::Transport> transport;
  std::unique_ptr<kerf::runtime::Communicator> world;
  std::vector<std::unique_ptr<kerf::runtime::Communicator>> groups;
  std::vector<kerf_step *> steps; ///< by command; null for the runtime's own

  std::atomic<uint32_t> progress{UINT32_MAX};
  std::string broken; ///< message of the run that failed, if any
  struct Timing {
    uint64_t calls = 0;
    double seconds = 0;
  };
  std::vector<Timing> timings; ///< by command, with `profile`
  std::vector<kerf_profile_entry> profileEntries;

private:
  Status chooseRank(const kerf_session_options &options);
  Status openMachine(const kerf_session_options &options);
  Status connect(const kerf_session_options &options);
  Status load();
  Status prepare(uint32_t command);

  /// What the operands of a command depend on.
  struct Place {
    const kerf_call &call;
    int64_t iteration;
  };
  Status runCall(const kerf_call &call);
  Status runCommand(uint32_t index, const Place &place);
  Status dispatch(uint32_t index);
  Status collective(const kerf_command &command);
  void resolve(const kerf_command &command, const Place &place);
  Status findNan(uint32_t index);
  Status describeFailure(uint32_t index, Status status) const;

  std::vector<void *> pointers; ///< of the current command's operands
  std::vector<int32_t> scalars; ///< what they point to
};

#endif // KERF_RUNTIME_CORE_SESSION_H
