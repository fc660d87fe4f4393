//===- Signals.cpp - end a run in good order ------------------------------===//

#include "kerf/Train/Signals.h"

#include <csignal>

static volatile std::sig_atomic_t received = 0;

static void remember(int signal) {
  received = signal;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
}

void kerf::runtime::catchSignals() {
  struct sigaction action{};
  action.sa_handler = remember;
  // Blocking system calls of the step go on.
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
}

void kerf::runtime::ignoreWriteSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

int kerf::runtime::stopSignal() { return received; }
