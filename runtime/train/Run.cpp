//===- Run.cpp - the program kerf-run -------------------------------------===//

#include "kerf/Train/Run.h"

#include "kerf/Train/Launcher.h"
#include "kerf/Train/Options.h"
#include "kerf/Train/Setup.h"
#include "kerf/Train/Signals.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/Trainer.h"

#include <cstdio>
#include <cstdlib>
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

/// A rank that only lost another one adds nothing to what the launcher says.
static bool isSilent(int status) {
  return status == 128 && std::getenv("KERF_LAUNCHED");
}

static int runJob(const std::vector<std::string> &arguments) {
  RunOptions options;
  std::string error;
  if (!parseOptions(arguments, options, error))
    return report(1, error);
  if (options.isHelp || options.isVersion) {
    std::printf("%s", options.isHelp ? helpText().c_str()
                                     : "kerf-run " KERF_VERSION "\n");
    return 0;
  }
  kerf_error failure;
  kerf_artifact *opened = nullptr;
  if (kerf_artifact_open(options.artifact.c_str(), &opened, &failure))
    return report(kerf_exit_code(failure.status), failure.message);
  std::unique_ptr<kerf_artifact, void (*)(kerf_artifact *)> artifact(
      opened, kerf_artifact_close);
  int64_t worldSize = kerf_artifact_meta(opened)->world_size;
  RunSetup setup;
  if (!prepareRun(options, opened, setup, error))
    return report(1, error);
  if (worldSize > 1 && !isRankProcess())
    return launchRanks(worldSize, arguments);
  catchSignals();
  int status = train(options, setup, error);
  if (!error.empty() && !isSilent(status))
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
