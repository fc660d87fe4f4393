//===- Signals.cpp - end a run in good order ------------------------------===//

#include "kerf/Train/Signals.h"

#include <csignal>
#include <ctime>

#include <unistd.h>

static volatile std::sig_atomic_t received = 0;

static constexpr int endings[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

/// nohup's: a lost terminal shall not end the run.
static bool isIgnored(int signal) {
  struct sigaction now{};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

static double secondsNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
}

/// The first signal asks for an end in good order, the next one for an end at
/// once. One request may come several times: from the terminal or `timeout` to
/// a whole group of processes, and again from the launcher.
static void remember(int signal) {
  static double first = 0;
  double now = secondsNow();
  if (received == 0) {
    first = now;
    received = signal;
    return;
  }
  if (now - first < kerf::runtime::kSameRequestSec)
    return;
  for (int ending : endings)
    if (!isIgnored(ending))
      std::signal(ending, SIG_DFL);
  std::raise(signal); // when this handler is left
}

/// Data and weights are read where the system maps them: where a file becomes
/// shorter meanwhile, there is nothing to read.
static void tellLostFile(int) {
  constexpr char text[] =
      "kerf-run: error: a file that is being read (data, weights or a state) "
      "became shorter, or its disk fails\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(128 + SIGBUS);
}

void kerf::runtime::catchSignals() {
  std::signal(SIGBUS, tellLostFile);
  struct sigaction action{};
  action.sa_handler = remember;
  // Blocking system calls of the step go on.
  action.sa_flags = SA_RESTART;
  for (int signal : endings)
    if (signal != SIGHUP || !isIgnored(signal))
      sigaction(signal, &action, nullptr);
}

void kerf::runtime::ignoreWriteSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

int kerf::runtime::stopSignal() { return received; }
