//===- Launcher.cpp - all ranks of a job on this machine ------------------===//

#include "kerf/Train/Launcher.h"

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Signals.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kerf::runtime;

/// Time in which the other ranks may tell what they saw of a failure.
static constexpr double graceSec = 1.0;
/// Between two reports of what the time went into.
static constexpr double progressSec = 60;
/// Exit status of a rank that only lost another one.
static constexpr int peerLost = 128;

bool kerf::runtime::isRankProcess() { return std::getenv("RANK") != nullptr; }

void kerf::runtime::adoptMpiRank() {
  if (isRankProcess() || !std::getenv("OMPI_COMM_WORLD_RANK"))
    return;
  constexpr const char *names[][2] = {
      {"RANK", "OMPI_COMM_WORLD_RANK"},
      {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
      {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}};
  for (auto [ours, theirs] : names)
    if (const char *value = std::getenv(theirs))
      setenv(ours, value, 1);
  // mpirun tells who was killed.
  setenv("KERF_LAUNCHED", "1", 1);
}

static constexpr const char *restartName = "KERF_RESTARTED";

bool kerf::runtime::isRestart() { return std::getenv(restartName) != nullptr; }

void kerf::runtime::markRestart() { setenv(restartName, "1", 1); }

static constexpr const char *launchName = "KERF_LAUNCHED";

bool kerf::runtime::isOwnLaunch() { return std::getenv(launchName) != nullptr; }

void kerf::runtime::markLaunch() { setenv(launchName, "1", 1); }

/// Signals that were blocked when the program began: ranks begin with them.
static const sigset_t &startMask() {
  static const sigset_t mask = [] {
    sigset_t now;
    sigprocmask(SIG_BLOCK, nullptr, &now);
    return now;
  }();
  return mask;
}

void kerf::runtime::holdSignals() {
  (void)startMask();
  sigset_t held;
  sigemptyset(&held);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&held, signal);
  sigprocmask(SIG_BLOCK, &held, nullptr);
}

int kerf::runtime::pauseUnlessAsked(double seconds) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&signals, signal);
  timespec time = {static_cast<time_t>(seconds), 0};
  return std::max(sigtimedwait(&signals, nullptr, &time), 0);
}

int64_t kerf::runtime::usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0
             ? CPU_COUNT(&set)
             : sysconf(_SC_NPROCESSORS_ONLN);
}

int64_t kerf::runtime::defaultThreads(int64_t worldSize) {
  int64_t ranks = worldSize;
  if (const char *text = std::getenv("LOCAL_WORLD_SIZE"))
    if (!parseInteger(text, ranks) || ranks < 1)
      ranks = worldSize;
  return std::max<int64_t>(1, usableCores() / ranks);
}

namespace {
class Job {
public:
  explicit Job(int64_t worldSize);
  ~Job() {
    kerf_session_cleanup(session.c_str());
    sigprocmask(SIG_SETMASK, &before, nullptr);
  }

  /// Starts all ranks; false if the system refuses.
  bool start(const std::vector<std::string> &arguments);
  JobEnd wait(const JobProgress &progress);

private:
  [[noreturn]] void become(int64_t rank, std::vector<char *> &argv);
  void handleSignal(int signal);
  void reap();
  void killRest();
  void listen();

  int64_t worldSize;
  std::string session;
  pid_t launcher = getpid();
  sigset_t waited, before;
  std::vector<pid_t> ranks; ///< 0 once it ended
  int64_t running = 0;
  FaultPipe pipe;
  AttemptClock clock{now()};
  JobEnd end;
  double failedAt = 0;
  bool isKilled = false;
};
} // namespace

std::string kerf::runtime::drawSecret() {
  unsigned long long words[2] = {};
  size_t got = 0;
  while (got < sizeof words) {
    ssize_t more =
        getrandom(reinterpret_cast<char *>(words) + got, sizeof words - got, 0);
    if (more > 0)
      got += static_cast<size_t>(more);
    else if (errno != EINTR)
      break; // no such call: the clock tells jobs apart
  }
  if (got < sizeof words)
    words[0] = static_cast<unsigned long long>(now() * 1e6);
  return format("%016llx%016llx", words[0], words[1]);
}

Job::Job(int64_t worldSize)
    : worldSize(worldSize),
      session(format("kerf-%lld-", static_cast<long long>(getpid())) +
              drawSecret()) {
  (void)startMask();
  sigemptyset(&waited);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    sigaddset(&waited, signal);
  sigprocmask(SIG_BLOCK, &waited, &before);
  pipe.open();
}

void Job::become(int64_t rank, std::vector<char *> &argv) {
  // Ranks leave the terminal's group: an interrupt reaches them once, through
  // the launcher, and die with it.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher)
    _exit(peerLost);
  auto set = [](const char *name, const std::string &value) {
    setenv(name, value.c_str(), 1);
  };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(worldSize));
  set("LOCAL_WORLD_SIZE", std::to_string(worldSize));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(20000 + launcher % 40000));
  set("KERF_SESSION", session);
  set("KERF_LAUNCHED", "1");
  pipe.handOn();
  sigprocmask(SIG_SETMASK, &startMask(), nullptr);
  execv("/proc/self/exe", argv.data());
  std::fprintf(stderr, "kerf-run: error: cannot start rank %lld: %s\n",
               static_cast<long long>(rank), std::strerror(errno));
  _exit(peerLost);
}

bool Job::start(const std::vector<std::string> &arguments) {
  std::vector<std::string> copies = {"kerf-run"};
  copies.insert(copies.end(), arguments.begin(), arguments.end());
  std::vector<char *> argv;
  for (std::string &argument : copies)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  for (int64_t rank = 0; rank < worldSize; ++rank) {
    pid_t child = fork();
    if (child == 0)
      become(rank, argv);
    if (child < 0) {
      std::fprintf(stderr, "kerf-run: error: cannot start rank %lld: %s\n",
                   static_cast<long long>(rank), std::strerror(errno));
      killRest();
      return false;
    }
    ranks.push_back(child);
    ++running;
  }
  return true;
}

void Job::killRest() {
  isKilled = true;
  for (pid_t rank : ranks)
    if (rank > 0)
      kill(rank, SIGKILL);
}

void Job::handleSignal(int signal) {
  end.askedBy = signal;
  for (pid_t rank : ranks)
    if (rank > 0)
      kill(rank, signal);
}

void Job::reap() {
  int code = 0;
  for (pid_t child; (child = waitpid(-1, &code, WNOHANG)) > 0;) {
    auto it = std::find(ranks.begin(), ranks.end(), child);
    if (it == ranks.end())
      continue;
    *it = 0;
    --running;
    int own = WIFSIGNALED(code) ? 128 + WTERMSIG(code) : WEXITSTATUS(code);
    if (own == 0 || isKilled)
      continue;
    if (WIFSIGNALED(code))
      std::fprintf(stderr,
                   "kerf-run: error: rank %lld was killed by signal %d "
                   "(%s)\n",
                   static_cast<long long>(it - ranks.begin()), WTERMSIG(code),
                   strsignal(WTERMSIG(code)));
    // Ranks that only lost another one are not the cause.
    if (end.status == 0 || end.status == peerLost)
      end.status = own;
    if (WIFSIGNALED(code) && end.fault.signal == 0) {
      end.fault.kind = FaultKind::Failed;
      end.fault.rank = it - ranks.begin();
      end.fault.signal = WTERMSIG(code);
    }
    if (failedAt == 0)
      failedAt = now();
  }
}

/// Of ranks that failed by themselves the first one in number is the cause; one
/// that was killed comes before all.
void Job::listen() {
  for (FaultRecord told; pipe.take(told);) {
    if (end.firstStep == 0)
      end.firstStep = told.step;
    end.lastStep = std::max(end.lastStep, told.step);
    if (told.kind == FaultKind::Done)
      end.doneStep = std::max(end.doneStep, told.step);
    clock.note(told);
    bool isCause = told.isFault() && told.kind != FaultKind::PeerLost;
    if (!isCause || end.fault.signal != 0 ||
        (end.fault.rank >= 0 && end.fault.rank <= told.rank))
      continue;
    end.fault.kind = told.kind;
    end.fault.rank = told.rank;
  }
}

JobEnd Job::wait(const JobProgress &progress) {
  double told = now();
  while (running > 0) {
    timespec timeout = {0, 50'000'000};
    int signal = sigtimedwait(&waited, nullptr, &timeout);
    if (signal > 0 && signal != SIGCHLD)
      handleSignal(signal);
    reap();
    listen();
    if (failedAt > 0 && !isKilled && now() - failedAt > graceSec)
      killRest();
    if (progress && now() - told > progressSec) {
      told = now();
      progress(clock.until(told));
    }
  }
  listen();
  end.times = clock.until(now());
  // One that comes as the job ends is for the launcher alone.
  timespec none = {0, 0};
  for (int signal; (signal = sigtimedwait(&waited, nullptr, &none)) > 0;)
    if (signal != SIGCHLD)
      end.askedBy = signal;
  // A rank that dies of being asked twice is no fault.
  if (end.askedBy && end.status != 0 &&
      (end.fault.kind == FaultKind::None || end.fault.signal == end.askedBy))
    end.fault = {FaultKind::Asked, -1, end.askedBy};
  if (end.status != 0 && end.fault.kind == FaultKind::None)
    end.fault.kind = end.status < 128 ? FaultKind::Refused : FaultKind::Failed;
  if (end.status != 0)
    end.fault.step = end.lastStep > 0 ? end.lastStep : -1;
  end.fault.isBetween = end.lastStep > 0 && end.doneStep == end.lastStep;
  return end;
}

JobEnd kerf::runtime::launchRanks(int64_t worldSize,
                                  const std::vector<std::string> &arguments,
                                  const JobProgress &progress) {
  Job job(worldSize);
  bool isStarted = job.start(arguments);
  JobEnd end = job.wait(progress);
  if (!isStarted)
    end.status = peerLost;
  return end;
}

//===----------------------------------------------------------------------===//
// mpirun
//===----------------------------------------------------------------------===//

[[noreturn]] static void becomeMpirun(std::vector<std::string> &command,
                                      const sigset_t &signals) {
  // mpirun ends its ranks in good order when it is told to.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  std::vector<char *> argv;
  for (std::string &word : command)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  std::fprintf(stderr,
               "kerf-run: error: cannot start mpirun: %s (Debian: "
               "openmpi-bin)\n",
               std::strerror(errno));
  _exit(1);
}

/// Waits for mpirun. It kills its ranks on SIGTERM, but passes on SIGUSR1, on
/// which they end in good order.
static JobEnd waitForMpirun(pid_t child, const sigset_t &signals,
                            const MpiHosts &hosts) {
  int asked = 0, code = 0;
  double askedAt = 0;
  bool isOver = false;
  double next = now() + hosts.checkSec;
  while (waitpid(child, &code, WNOHANG) == 0) {
    timespec timeout = {0, 50'000'000};
    int signal = sigtimedwait(&signals, nullptr, &timeout);
    if (hosts.isOver && !isOver && asked == 0 && now() > next) {
      if ((isOver = hosts.isOver()))
        kill(child, SIGUSR1);
      next = now() + hosts.checkSec;
    }
    if (signal <= 0 || signal == SIGCHLD)
      continue;
    if (asked != 0 && now() - askedAt < kSameRequestSec)
      continue;
    kill(child, asked == 0 ? SIGUSR1 : SIGTERM);
    askedAt = asked == 0 ? now() : askedAt;
    asked = signal;
  }
  int status = WIFSIGNALED(code) ? 128 + WTERMSIG(code) : WEXITSTATUS(code);
  JobEnd end;
  end.isMoved = isOver && asked == 0 && status == 128 + SIGUSR1;
  end.status = asked != 0 && status == 128 + SIGUSR1 ? 128 + asked : status;
  end.askedBy = asked;
  if (end.status != 0 && asked)
    end.fault = {FaultKind::Asked, -1, asked};
  else if (end.status != 0)
    end.fault.kind = end.status < 128 ? FaultKind::Refused : FaultKind::Failed;
  return end;
}

/// mpirun with its options, before the program. Neighbours in rank talk most:
/// they fill a machine before the next one starts.
static std::vector<std::string> mpirunFor(int64_t ranks,
                                          const MpiHosts &hosts) {
  std::vector<std::string> command = {"mpirun", "--bind-to", "none", "-n",
                                      std::to_string(ranks)};
  if (hosts.file.empty())
    command.push_back("--oversubscribe");
  else
    command.insert(command.end(),
                   {"--hostfile", hosts.file, "--map-by", "slot"});
  return command;
}

JobEnd kerf::runtime::launchMpi(int64_t worldSize,
                                const std::vector<std::string> &arguments,
                                const MpiHosts &hosts) {
  std::error_code failed;
  std::vector<std::string> command = mpirunFor(worldSize, hosts);
  command.push_back(std::filesystem::read_symlink("/proc/self/exe", failed));
  command.insert(command.end(), arguments.begin(), arguments.end());
  (void)startMask();
  sigset_t waited, before;
  sigemptyset(&waited);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    sigaddset(&waited, signal);
  sigprocmask(SIG_BLOCK, &waited, &before);
  std::fflush(nullptr);
  pid_t child = fork();
  if (child == 0)
    becomeMpirun(command, startMask());
  if (child < 0) {
    std::fprintf(stderr, "kerf-run: error: cannot start mpirun: %s\n",
                 std::strerror(errno));
    JobEnd end;
    end.status = peerLost;
    end.fault.kind = FaultKind::Failed;
    return end;
  }
  JobEnd end = waitForMpirun(child, waited, hosts);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return end;
}
