//===- Doctor.cpp ---------------------------------------------------------===//

#include "kerf/Train/Doctor.h"

#include "kerf/Train/Launcher.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

using namespace kerf::runtime;

namespace {
/// The text as it grows, and what was found missing.
class Report {
public:
  void heading(const std::string &name) { text += name + "\n"; }
  void line(const char *name, const std::string &value) {
    text += format("  %-11s", name) + value + "\n";
  }
  void missing(const std::string &what) { faults.push_back(what); }
  /// `where`: what the machine was examined for.
  int finish(std::string &result, const std::string &where) {
    for (const std::string &fault : faults)
      text += "missing: " + fault + "\n";
    if (faults.empty())
      text += "nothing is missing" + where + "\n";
    result = text;
    return faults.empty() ? 0 : 1;
  }

private:
  std::string text;
  std::vector<std::string> faults;
};
} // namespace

//===----------------------------------------------------------------------===//
// Machine
//===----------------------------------------------------------------------===//

/// What stands behind "name :" in a file like /proc/cpuinfo.
static std::string fieldOf(const char *path, const std::string &name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0)
      continue;
    size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

/// Bytes of a line "name:  123 kB" of /proc/meminfo.
static uint64_t memoryField(const char *name) {
  return 1024 *
         std::strtoull(fieldOf("/proc/meminfo", name).c_str(), nullptr, 10);
}

/// A number in a file of the control group, `none` if there is no limit.
static uint64_t groupNumber(const char *name, uint64_t none) {
  std::ifstream file(std::string("/sys/fs/cgroup/") + name);
  uint64_t value;
  return file >> value ? value : none;
}

/// Memory that processes started now may take.
static uint64_t availableMemory() {
  uint64_t available = memoryField("MemAvailable");
  uint64_t limit = groupNumber("memory.max", UINT64_MAX);
  uint64_t used = groupNumber("memory.current", 0);
  return std::min(available, limit - std::min(limit, used));
}

static std::string describeCores() {
  std::string text = std::to_string(defaultThreads(1)) + " of " +
                     std::to_string(sysconf(_SC_NPROCESSORS_ONLN)) +
                     " may be used";
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota, period;
  if (file >> quota >> period && period > 0)
    text += format(", for the time of %.3g (a limit of the control group)",
                   quota / period);
  return text;
}

/// Those vector extensions of the processor that kernels are made for.
static std::string describeVectors() {
  std::istringstream flags(fieldOf("/proc/cpuinfo", "flags"));
  std::vector<std::string> all{std::istream_iterator<std::string>(flags), {}};
  std::string text;
  for (const char *name :
       {"avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl",
        "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16"})
    if (std::find(all.begin(), all.end(), name) != all.end())
      text += (text.empty() ? "" : " ") + std::string(name);
  return text.empty() ? "none" : text;
}

static uint64_t freeSharedMemory(uint64_t *total) {
  struct statvfs info;
  bool isThere = statvfs("/dev/shm", &info) == 0;
  *total = isThere ? info.f_blocks * info.f_frsize : 0;
  return isThere ? info.f_bavail * info.f_frsize : 0;
}

static void examineHost(Report &report) {
  report.heading("machine");
  report.line("processor", fieldOf("/proc/cpuinfo", "model name"));
  report.line("cores", describeCores());
  report.line("vectors", describeVectors());
  report.line("memory", formatBytes(availableMemory()) + " available of " +
                            formatBytes(memoryField("MemTotal")));
  uint64_t total, available = freeSharedMemory(&total);
  report.line("/dev/shm", total ? formatBytes(available) + " available of " +
                                      formatBytes(total)
                                : "not there");
}

//===----------------------------------------------------------------------===//
// Libraries
//===----------------------------------------------------------------------===//

/// Where a program of the PATH lies, or "".
static std::string findProgram(const char *name) {
  const char *path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (access(file.c_str(), X_OK) == 0)
      return file;
  }
  return "";
}

/// What a device library says of devices and of other libraries.
static void examineLibraries(const std::string &name, const char *path,
                             Report &report) {
  char text[4096] = "";
  kerf_error error;
  if (kerf_examine_device(name.c_str(), path, text, sizeof text, &error))
    return; // said already
  std::istringstream lines(text);
  std::string what, value;
  while (std::getline(lines, what, '\t') && std::getline(lines, value))
    report.line("", what + ": " + value);
}

/// The devices that come with the runtime. What is not there is missing only if
/// the artifact is for it. Returns the memory of that one, as its driver
/// reports it.
static kerf_memory examineDevices(const RunOptions &options,
                                  const kerf_artifact *artifact,
                                  Report &report) {
  report.heading("devices");
  std::string needed =
      artifact
          ? kerf_artifact_string(artifact, kerf_artifact_meta(artifact)->target)
          : "cpu";
  std::vector<std::string> names = {"cpu", "cuda"};
  if (std::find(names.begin(), names.end(), needed) == names.end())
    names.push_back(needed);
  const char *path =
      options.pluginPath.empty() ? nullptr : options.pluginPath.c_str();
  kerf_memory ofNeeded = {};
  for (const std::string &name : names) {
    char text[512] = "";
    kerf_memory memory = {};
    kerf_error error;
    bool fails = kerf_probe_device(name.c_str(), artifact, path, &memory, text,
                                   sizeof text, &error);
    report.line(name.c_str(), fails ? error.message : text);
    if (!fails || name == needed)
      examineLibraries(name, path, report);
    if (!fails && memory.device_total)
      report.line("", formatBytes(memory.device_free) + " of " +
                          formatBytes(memory.device_total) + " are free");
    if (fails && name == needed)
      report.missing("the device '" + name + "'");
    if (name == needed)
      ofNeeded = memory;
  }
  return ofNeeded;
}

static void examineTransports(const RunOptions &options, bool isNeeded,
                              Report &report) {
  report.heading("transports");
  std::string chosen = options.transport.empty() ? "shm" : options.transport;
  std::vector<std::string> names = {"shm", "tcp", "mpi", "nccl"};
  if (std::find(names.begin(), names.end(), chosen) == names.end())
    names.push_back(chosen);
  const char *path =
      options.pluginPath.empty() ? nullptr : options.pluginPath.c_str();
  for (const std::string &name : names) {
    char text[512] = "";
    kerf_error error;
    bool fails =
        kerf_probe_transport(name.c_str(), path, text, sizeof text, &error);
    std::string found = fails ? error.message : text;
    if (name == "mpi") {
      std::string starter = findProgram("mpirun");
      fails |= starter.empty();
      found += starter.empty() ? "; no mpirun in PATH (Debian: openmpi-bin)"
                               : "; " + starter;
    }
    report.line(name.c_str(), found);
    if (fails && isNeeded && name == chosen)
      report.missing("the transport '" + name + "'");
  }
}

//===----------------------------------------------------------------------===//
// Job
//===----------------------------------------------------------------------===//

/// Arenas of all ranks, and the largest one.
static uint64_t arenaBytes(const kerf_artifact *artifact, uint64_t &largest) {
  uint32_t count = 0;
  const kerf_program *programs = kerf_artifact_programs(artifact, &count);
  uint64_t bytes = 0;
  for (uint32_t p = 0; p < count; ++p) {
    bytes += programs[p].arena_bytes *
             (kerf_artifact_meta(artifact)->world_size / count);
    largest = std::max(largest, programs[p].arena_bytes);
  }
  return bytes;
}

/// `onDevice`: what the driver of a device with memory of its own reports.
static void examineJob(const RunOptions &options, const kerf_artifact *artifact,
                       const kerf_memory &onDevice, Report &report) {
  const kerf_meta *meta = kerf_artifact_meta(artifact);
  report.heading("job of " + quote(options.artifact));
  uint32_t stages = 0;
  (void)kerf_artifact_programs(artifact, &stages);
  report.line("ranks",
              std::to_string(meta->world_size) +
                  (stages > 1 ? " in " + std::to_string(stages) + " stages"
                              : std::string()));
  auto compare = [&](const char *name, uint64_t needed, uint64_t available,
                     const std::string &what) {
    bool fits = needed <= available;
    report.line(name, formatBytes(needed) + " needed, " +
                          formatBytes(available) + " available" +
                          (fits ? "" : ": too little"));
    if (!fits)
      report.missing(formatBytes(needed - available) + " of " + what);
  };
  uint64_t shared = 0, total = 0, largest = 0;
  if (options.transport.empty() || options.transport == "shm")
    shared = kerf_shared_memory_bytes(artifact);
  uint64_t arenas = arenaBytes(artifact, largest);
  if (onDevice.device_total) {
    compare("device", largest, onDevice.device_free, "memory on the device");
    arenas = 0;
  }
  compare("memory", arenas + shared, availableMemory(),
          "memory on this machine");
  if (shared > 0)
    compare("/dev/shm", shared, freeSharedMemory(&total),
            "/dev/shm (mount it larger; for a container: --shm-size)");
}

int kerf::runtime::examineMachine(const RunOptions &options,
                                  const kerf_artifact *artifact,
                                  std::string &text) {
  Report report;
  examineHost(report);
  kerf_memory onDevice = examineDevices(options, artifact, report);
  bool needsTransport =
      !options.transport.empty() ||
      (artifact && kerf_artifact_meta(artifact)->world_size > 1);
  examineTransports(options, needsTransport, report);
  if (artifact)
    examineJob(options, artifact, onDevice, report);
  // Without a file nobody has said that GPUs are needed.
  return report.finish(text, artifact ? "" : " for programs of target cpu");
}
