//===- Run.cpp - the program kerf-run -------------------------------------===//

#include "kerf/Train/Run.h"

#include "kerf/Train/Calibrate.h"
#include "kerf/Train/Doctor.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/Launcher.h"
#include "kerf/Train/Options.h"
#include "kerf/Train/Setup.h"
#include "kerf/Train/Signals.h"
#include "kerf/Train/State.h"
#include "kerf/Train/Supervise.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/Trace.h"
#include "kerf/Train/Trainer.h"
#include "kerf/Train/Tuning.h"
#include "kerf/Train/job/ClusterCheck.h"
#include "kerf/Train/job/Hosts.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

using namespace kerf::runtime;

static int report(int status, const std::string &message) {
  const char *rank = std::getenv("RANK");
  const char *size = std::getenv("WORLD_SIZE");
  bool isOneOfMany = rank && size && std::string(size) != "1";
  std::fprintf(stderr, "kerf-run: %s%s%serror: %s\n",
               isOneOfMany ? "rank " : "", isOneOfMany ? rank : "",
               isOneOfMany ? ": " : "", message.c_str());
  return status;
}

/// The status of a command whose text is all that it makes: 1 where standard
/// output did not take it.
static int printed(int status) {
  int code = std::fflush(stdout) == 0 ? 0 : errno;
  if (code == 0 && !std::ferror(stdout))
    return status;
  std::string why = code ? std::string(": ") + std::strerror(code) : "";
  return report(status ? status : 1, "cannot write to standard output" + why);
}

static int runDoctor(const RunOptions &options) {
  kerf_error failure;
  kerf_artifact *artifact = nullptr;
  if (!options.artifact.empty() &&
      kerf_artifact_open(options.artifact.c_str(), &artifact, &failure))
    return report(kerf_exit_code(failure.status), failure.message);
  std::string text;
  int status = examineMachine(options, artifact, text);
  kerf_artifact_close(artifact);
  std::printf("%s", text.c_str());
  if (options.cluster.empty())
    return status;
  std::string error;
  int measured = checkCluster(options, error);
  return error.empty() ? std::max(status, measured) : report(measured, error);
}

static int runDry(const RunOptions &options, const kerf_artifact *artifact) {
  kerf_error failure;
  auto print = [](void *, const char *line) { std::printf("%s\n", line); };
  if (kerf_dry_nccl(artifact, static_cast<int32_t>(options.dryRank), print,
                    nullptr, &failure))
    return report(kerf_exit_code(failure.status), failure.message);
  return 0;
}

/// How to go on after a job that failed: from what step, and by which command;
/// "" where nothing was to be saved. Saves from number `first` on are its own.
static std::string resumeNote(const RunOptions &options,
                              const std::vector<std::string> &arguments,
                              int64_t first) {
  if (options.saveState.empty())
    return "";
  std::optional<SavedStep> newest = newestSince(options.saveState, first);
  if (!newest)
    return "nothing to resume: the job saved no state in '" +
           options.saveState + "'";
  return "'" + options.saveState + "' has step " +
         std::to_string(newest->step) + "; to go on from it:\n  " +
         resumeCommand(arguments, options.saveState);
}

/// The name of the file that `kerfc --survive` makes for `ranks` beside `path`.
static std::string survivorName(const std::string &path, int64_t ranks) {
  size_t dot = path.rfind('.'), slash = path.rfind('/');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash))
    dot = path.size();
  return path.substr(0, dot) + "-" + std::to_string(ranks) + path.substr(dot);
}

/// Starts all ranks of a job. One that fails may have been killed: what its
/// trace has until then is merged here.
static int launch(const RunOptions &options, const kerf_artifact *artifact,
                  const std::vector<std::string> &arguments) {
  int64_t worldSize = kerf_artifact_meta(artifact)->world_size;
  int64_t first = nextNumber(options.saveState);
  std::vector<Host> hosts;
  std::string error;
  if (!options.hostfile.empty() && !readHosts(options.hostfile, hosts, error))
    return report(1, error);
  auto hasFile = [&](int64_t ranks) {
    return fileExists(survivorName(options.artifact, ranks));
  };
  HostedJob hosted(hosts, worldSize, hasFile, options.maxRestarts > 0);
  if (!hosts.empty() && !(error = hosted.check()).empty())
    return report(1, error);
  markLaunch();
  auto start = [&](const std::vector<std::string> &own,
                   const JobProgress &progress) {
    if (!options.trace.empty() && !isRestart()) {
      removeTraceParts(options.trace, worldSize);
      setenv(traceLauncher, "1", 1);
    }
    return !hosts.empty()               ? hosted.run(own)
           : options.transport == "mpi" ? launchMpi(worldSize, own)
                                        : launchRanks(worldSize, own, progress);
  };
  int status = options.maxRestarts > 0 ? supervise(options, arguments, start)
                                       : start(arguments, {}).status;
  if (status == 0)
    return status;
  auto tell = [](const std::string &note) {
    if (!note.empty())
      std::fprintf(stderr, "kerf-run: note: %s\n", note.c_str());
  };
  if (!options.trace.empty())
    tell(rescuedTrace(options.trace, artifact));
  if (status != 1) // A rank is lost; else what is wrong comes again.
    tell(resumeNote(options, arguments, first));
  return status;
}

/// The file that `kerfc --survive` made for the ranks that were started, where
/// `path` is for another number of them; "": there is none.
static std::string survivorOf(const std::string &path, int64_t ranks) {
  const char *text = std::getenv("WORLD_SIZE");
  int64_t started = 0;
  if (!isRankProcess() || !text || !parseInteger(text, started) ||
      started == ranks)
    return "";
  std::string name = survivorName(path, started);
  return fileExists(name) ? name : "";
}

/// Opens what is to be run; the status.
static int openArtifact(RunOptions &options, kerf_artifact *&artifact) {
  kerf_error failure;
  if (kerf_artifact_open(options.artifact.c_str(), &artifact, &failure))
    return report(kerf_exit_code(failure.status), failure.message);
  std::string fewer =
      survivorOf(options.artifact, kerf_artifact_meta(artifact)->world_size);
  if (fewer.empty())
    return 0;
  kerf_artifact_close(artifact);
  options.artifact = fewer;
  if (std::string(std::getenv("RANK")) == "0")
    std::fprintf(stderr,
                 "kerf-run: note: runs %s, for as many ranks as were "
                 "started\n",
                 quote(fewer).c_str());
  return openArtifact(options, artifact);
}

static int runJob(const std::vector<std::string> &arguments) {
  adoptMpiRank();
  RunOptions options;
  std::string error;
  if (!parseOptions(arguments, options, error))
    return report(1, error);
  if (options.isHelp || options.isVersion) {
    std::printf("%s", options.isHelp ? helpText().c_str()
                                     : "kerf-run " KERF_VERSION "\n");
    return printed(0);
  }
  if (options.isDoctor)
    return printed(runDoctor(options));
  if (options.isCalibration) {
    int status = calibrate(options, error);
    return error.empty() ? printed(status) : report(status, error);
  }
  kerf_artifact *opened = nullptr;
  if (int status = openArtifact(options, opened))
    return status;
  std::unique_ptr<kerf_artifact, void (*)(kerf_artifact *)> artifact(
      opened, kerf_artifact_close);
  if (options.isDry)
    return printed(runDry(options, opened));
  if (!options.tune.empty()) {
    int status = tuneModel(options, opened, error);
    return error.empty() ? status : report(status, error);
  }
  int64_t worldSize = kerf_artifact_meta(opened)->world_size;
  RunSetup setup;
  if (!prepareRun(options, opened, setup, error))
    return report(1, error);
  if ((worldSize > 1 || options.maxRestarts > 0) && !isRankProcess())
    return launch(options, opened, arguments);
  ignoreWriteSignals();
  int status = train(options, setup, error);
  if (!error.empty())
    report(status, error);
  return status;
}

int kerf::runtime::runMain(int argc, char **argv) {
  try {
    return runJob({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::bad_alloc &) {
    return report(128, "out of memory");
  }
}
