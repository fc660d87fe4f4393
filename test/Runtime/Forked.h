//===- Forked.h - ranks as processes --------------------------------------===//

#ifndef KERF_TEST_RUNTIME_FORKED_H
#define KERF_TEST_RUNTIME_FORKED_H

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kerf::test {

/// Runs body(rank), which returns an exit status, in `ranks` processes and
/// returns how each ended: its status, or 128 + the signal. A process that
/// hangs is killed by its alarm after `seconds`.
template <typename Body>
std::vector<int> runRanks(uint32_t ranks, Body body, unsigned seconds = 30) {
  std::vector<pid_t> children;
  for (uint32_t r = 0; r < ranks; ++r) {
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(seconds);
      _exit(body(r));
    }
    children.push_back(child);
  }
  std::vector<int> results;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    results.push_back(WIFEXITED(status) ? WEXITSTATUS(status)
                                        : 128 + WTERMSIG(status));
  }
  return results;
}

/// A name for a job that no other one has.
inline std::string jobName() {
  static int number = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

/// Is there shared memory of the job named `name`?
inline bool hasSegment(const std::string &name) {
  std::string path = "/dev/shm/kerf-" + std::to_string(getuid()) + "-" + name;
  return access(path.c_str(), F_OK) == 0;
}

} // namespace kerf::test

#endif // KERF_TEST_RUNTIME_FORKED_H
