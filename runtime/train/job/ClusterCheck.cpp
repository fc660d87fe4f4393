//===- ClusterCheck.cpp - a machine beside its description ----------------===//
//
// Descriptions are YAML, which the runtime writes and does not read:
// kerf-inspect, which lies beside kerf-run, compares two of them. It looks at
// the given one first, so that a wrong one is told before a minute of
// measuring.
//
//===----------------------------------------------------------------------===//

#include "kerf/Train/job/ClusterCheck.h"

#include "kerf/Train/Calibrate.h"
#include "kerf/Train/Text.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kerf::runtime;

/// Runs kerf-inspect, which prints; returns its exit status.
static int inspect(std::vector<std::string> arguments, std::string &error) {
  std::error_code failed;
  std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", failed);
  std::string program = (self.parent_path() / "kerf-inspect").string();
  if (access(program.c_str(), X_OK) != 0)
    program = "kerf-inspect"; // of the PATH
  std::vector<char *> argv = {program.data()};
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  pid_t child;
  int code = 0;
  if (int number = posix_spawnp(&child, program.c_str(), nullptr, nullptr,
                                argv.data(), environ)) {
    error = "'--cluster' needs kerf-inspect, which is neither beside kerf-run "
            "nor in the PATH: " +
            std::string(std::strerror(number)) +
            "; install it, or compare elsewhere what --calibrate -o FILE "
            "writes: kerf-inspect cluster DESCRIBED FILE";
    return 1;
  }
  while (waitpid(child, &code, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(code) ? 128 + WTERMSIG(code) : WEXITSTATUS(code);
}

int kerf::runtime::checkCluster(RunOptions options, std::string &error) {
  if (int status = inspect({"cluster", options.cluster}, error))
    return status;
  if (options.output.empty())
    options.output = "measured.yaml";
  if (int status = calibrate(options, error))
    return status;
  return inspect({"cluster", options.cluster, options.output}, error);
}
