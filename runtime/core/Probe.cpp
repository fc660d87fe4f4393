//===- Probe.cpp - what a machine offers ----------------------------------===//

#include "Artifact.h"
#include "Plugin.h"
#include "ShmChannel.h"
#include "Status.h"
#include "nccl/Nccl.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace kerf::runtime;

/// Has the device all that the artifact's kernels need?
static Status checkFeatures(const kerf_device_api &api,
                            const kerf_artifact &artifact) {
  char missing[256] = "";
  const char *needed = artifact.view.string(artifact.view.meta->features);
  if (api.check_features(needed, missing, sizeof missing) == 0)
    return {};
  return failure(KERF_UNSUPPORTED, "this machine lacks: %s", missing);
}

static Status probeDevice(const char *given, const kerf_artifact *artifact,
                          const char *pluginPath, kerf_memory &memory,
                          std::string &text) {
  std::string target =
      artifact ? artifact->view.string(artifact->view.meta->target) : "cpu";
  std::string name = given ? given : target;
  const kerf_device_api *api = nullptr;
  Status status = openDevice(name, pluginPath, api);
  if (status.failed())
    return status;
  kerf_device *device = nullptr;
  kerf_device_options options = {};
  char error[512] = "";
  if (auto result = api->create(&options, &device, error, sizeof error))
    return failure(statusOf(result), "%s", error);
  text = api->describe(device);
  if (api->memory_info &&
      api->memory_info(device, &memory.device_free, &memory.device_total, error,
                       sizeof error))
    status = failure(KERF_FAILED, "%s", error);
  api->destroy(device);
  if (!status.failed() && artifact && name == target)
    status = checkFeatures(*api, *artifact);
  return status;
}

static Status probeTransport(const std::string &name, const char *pluginPath,
                             std::string &text) {
  if (name == "nccl")
    return nccl::describeNccl(text);
  if (name == "tcp") {
    text = "sockets of several machines, through rank 0";
    return {};
  }
  if (name != "shm") {
    const kerf_wire_api *api = nullptr;
    Status status = openWire(name, pluginPath, api);
    if (!status.failed())
      text = api->describe();
    return status;
  }
  std::string path = shm::pathOf("probe-" + std::to_string(getpid()));
  int file =
      shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    return failure(KERF_FAILED, "cannot make shared memory '%s': %s",
                   path.c_str(), std::strerror(errno));
  shm_unlink(path.c_str());
  close(file);
  text = "shared memory of one machine, up to " +
         std::to_string(shm::kMaxRanks) + " ranks";
  return {};
}

static kerf_status give(const Status &status, const std::string &text,
                        char *buffer, size_t bytes, kerf_error *error) {
  std::snprintf(buffer, bytes, "%s", text.c_str());
  return status.report(error);
}

kerf_status kerf_probe_device(const char *name, const kerf_artifact *artifact,
                              const char *pluginPath, kerf_memory *memory,
                              char *buffer, size_t bytes, kerf_error *error) {
  std::string text;
  kerf_memory found = {};
  Status status = probeDevice(name, artifact, pluginPath, found, text);
  if (memory)
    *memory = found;
  return give(status, text, buffer, bytes, error);
}

kerf_status kerf_examine_device(const char *name, const char *pluginPath,
                                char *buffer, size_t bytes, kerf_error *error) {
  const kerf_device_api *api = nullptr;
  Status status = openDevice(name, pluginPath, api);
  if (bytes)
    buffer[0] = 0;
  if (!status.failed() && api->examine)
    api->examine(buffer, bytes);
  return status.report(error);
}

kerf_status kerf_probe_transport(const char *name, const char *pluginPath,
                                 char *buffer, size_t bytes,
                                 kerf_error *error) {
  std::string text;
  Status status = probeTransport(name, pluginPath, text);
  return give(status, text, buffer, bytes, error);
}

uint64_t kerf_shared_memory_bytes(const kerf_artifact *artifact) {
  const kerf::artifact::View &view = artifact->view;
  uint32_t ranks = view.meta->world_size;
  if (ranks == 1)
    return 0;
  uint64_t bytes = shm::segmentBytes(ranks);
  for (uint32_t p = 0; p < view.programs.count; ++p) {
    const kerf_program &program = view.programs[p];
    for (uint32_t c = 0; c < program.channel_count; ++c) {
      const kerf_channel &channel = view.channels[program.first_channel + c];
      // Both ends have a record; all ranks of a stage have the channel.
      if (channel.from == p)
        bytes += shm::channelBytes({0, 1, 0, channel.holds, channel.bytes}) *
                 (ranks / view.programs.count);
    }
  }
  return bytes;
}
