//===- CalibrateMain.cpp - kerf-run --calibrate ---------------------------===//
//
// One process measures the device. Groups of ranks are processes of this
// program that the launcher starts; rank 0 writes its figures to a file in
// memory, which KERF_CALIBRATE_TO names.
//
//===----------------------------------------------------------------------===//

#include "kerf/Train/Calibrate.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/Launcher.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <sys/mman.h>
#include <unistd.h>

using namespace kerf::runtime;

static constexpr const char *resultVariable = "KERF_CALIBRATE_TO";

static MeasureOptions measureOptions(const RunOptions &options) {
  MeasureOptions result;
  result.device = options.device;
  result.pluginPath = options.pluginPath;
  result.transport = options.transport;
  result.budgetSec = options.measureMs / 1e3;
  result.isTiny = options.isTiny;
  return result;
}

//===----------------------------------------------------------------------===//
// A rank
//===----------------------------------------------------------------------===//

static int calibrateRank(const RunOptions &options, std::string &error) {
  const char *result = std::getenv(resultVariable);
  const char *session = std::getenv("KERF_SESSION");
  const char *size = std::getenv("WORLD_SIZE");
  int64_t rank = 0, ranks = 0;
  if (!result || !size || !parseInteger(std::getenv("RANK"), rank) ||
      !parseInteger(size, ranks)) {
    error = "'--calibrate' starts its ranks itself: run it once, without RANK "
            "and without mpirun";
    return 1;
  }
  Figures figures;
  int status = measureRank(measureOptions(options), rank, ranks,
                           session ? session : "", figures, error);
  if (status != 0 || rank != 0)
    return status;
  std::ofstream file(result);
  for (const auto &[name, value] : figures)
    file << name << '\t' << format("%.9g", value) << '\n';
  if (file.flush())
    return 0;
  error = "cannot hand over what was measured";
  return 128;
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// Bytes of memory that this process may use at most.
static double memoryBytes() {
  double bytes =
      double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  double limit;
  std::ifstream group("/sys/fs/cgroup/memory.max");
  return group >> limit ? std::min(bytes, limit) : bytes;
}

static std::vector<std::string> rankArguments(const RunOptions &options) {
  std::vector<std::string> arguments = {
      "--calibrate", "--measure-ms=" + std::to_string(options.measureMs)};
  auto pass = [&](const char *name, const std::string &value) {
    if (!value.empty())
      arguments.push_back(name + value);
  };
  pass("--device=", options.device);
  pass("--plugin-path=", options.pluginPath);
  pass("--transport=", options.transport);
  if (options.isTiny)
    arguments.push_back("--measure-tiny");
  return arguments;
}

/// Starts `ranks` ranks and adds their figures.
static int measureTogether(const RunOptions &options, int64_t ranks,
                           Figures &figures, std::string &error) {
  int file = memfd_create("kerf-calibrate", MFD_CLOEXEC);
  if (file < 0) {
    error = "cannot make a file in memory";
    return 128;
  }
  std::string path = format("/proc/%lld/fd/%d", (long long)getpid(), file);
  setenv(resultVariable, path.c_str(), 1);
  int status =
      (options.transport == "mpi" ? launchMpi(ranks, rankArguments(options))
                                  : launchRanks(ranks, rankArguments(options)))
          .status;
  std::ifstream result(path);
  std::string name, value;
  while (std::getline(result, name, '\t') && std::getline(result, value))
    if (double number; parseReal(value, number))
      figures[name] = number;
  close(file);
  return status;
}

/// Numbers of ranks that are measured: 2, 3 and 4, then powers of two, and the
/// largest.
static std::vector<int64_t> groupSizes(int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t ranks = 2; ranks < most; ranks += ranks < 4 ? 1 : ranks)
    sizes.push_back(ranks);
  if (most > 1)
    sizes.push_back(most);
  return sizes;
}

/// Whether others use the machine: from the start, or half of the times were
/// over 1.15 times the fastest.
static bool isDisturbed(double loadBefore, const Figures &figures) {
  for (const auto &[name, value] : figures)
    if (name.compare(0, 6, "spread") == 0 && value > 1.15)
      return true;
  return loadBefore > 0.5;
}

/// Fails at once where the description could not be written after a minute.
static bool canWrite(const std::string &path, std::string &error) {
  return path.empty() || tryFile(behindLinks(path), error);
}

/// Chooses how many ranks are measured together: one per GPU, else per core,
/// and at most what the transport connects.
/// What cannot be is told before anything is measured.
static bool chooseRanks(const RunOptions &options, MachineFacts &facts,
                        std::string &error) {
  constexpr int64_t mostByMemory = 64; // that the transport shm connects
  int64_t all =
      facts.isGpu() ? facts.devices : std::max<int64_t>(2, facts.cores);
  facts.ranks = options.ranks ? options.ranks : all;
  const char *chosen = std::getenv("KERF_TRANSPORT");
  facts.transport = !options.transport.empty() ? options.transport
                    : chosen && *chosen        ? chosen
                                               : "nccl";
  std::string given = "'--ranks=" + std::to_string(facts.ranks) + "': ";
  bool sharesMemory =
      facts.transport == "shm" || (!facts.isGpu() && facts.transport == "nccl");
  if (facts.isGpu() && facts.ranks > facts.devices)
    error = given + "this machine has " + std::to_string(facts.devices) +
            " GPUs, and each takes one rank";
  else if (options.ranks && sharesMemory && facts.ranks > mostByMemory)
    error = given + "the transport shm connects at most " +
            std::to_string(mostByMemory) +
            " ranks; give fewer, or another --transport";
  facts.ranks =
      sharesMemory ? std::min(facts.ranks, mostByMemory) : facts.ranks;
  return error.empty();
}

int kerf::runtime::calibrate(const RunOptions &options, std::string &error) {
  if (isRankProcess())
    return calibrateRank(options, error);
  if (!canWrite(options.output, error))
    return 1;
  double start = now(), load = 0;
  (void)getloadavg(&load, 1);
  Figures figures;
  MachineFacts facts;
  facts.date = today();
  facts.cores = usableCores();
  facts.isTiny = options.isTiny;
  facts.memoryBytes = memoryBytes();
  int status = describeDevice(measureOptions(options), facts, error);
  if (status == 0 && !chooseRanks(options, facts, error))
    return 1;
  if (status == 0)
    status = measureDevice(measureOptions(options), 0, figures, facts, error);
  for (int64_t ranks : groupSizes(facts.ranks))
    if (status == 0)
      status = measureTogether(options, ranks, figures, error);
  if (status != 0)
    return status;
  // A comparison shows what matters of them.
  std::string shown = options.isDoctor ? "" : printFigures(figures);
  std::printf("%s\n%smeasured in %.0f s\n", facts.device.c_str(), shown.c_str(),
              now() - start);
  if (isDisturbed(load, figures))
    std::printf("the machine was busy (load average before: %.2f, see also "
                "spread): calibrate again when it is idle\n",
                load);
  if (options.output.empty()) {
    std::printf("-o FILE writes this as a description for kerfc --cluster\n");
    return 0;
  }
  if (!writeFile(behindLinks(options.output), describeMachine(facts, figures),
                 error))
    return 1;
  std::printf("wrote %s\n", quote(options.output).c_str());
  return 0;
}
