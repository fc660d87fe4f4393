//===- Hosts.cpp - machines that mpirun starts ranks on -------------------===//

#include "kerf/Train/job/Hosts.h"

#include "kerf/Train/Log.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kerf::runtime;

static constexpr double probeSec = 10, checkSec = 60, waitSec = 10;

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

/// A line without its comment; false with what is wrong.
static bool readLine(const std::string &line, std::vector<Host> &hosts,
                     std::string &wrong) {
  std::istringstream words(line.substr(0, line.find('#')));
  Host host;
  if (!(words >> host.name))
    return true;
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    bool isSlots = word.compare(0, equals, "slots") == 0;
    if (isSlots &&
        (equals == std::string::npos ||
         !parseInteger(word.substr(equals + 1).c_str(), host.slots) ||
         host.slots < 1))
      wrong = "expected slots=RANKS, found " + quote(word);
    else if (!isSlots && word.compare(0, equals, "max_slots") != 0 &&
             word.compare(0, equals, "max-slots") != 0)
      wrong = "expected 'NAME slots=RANKS', found " + quote(word);
  }
  for (const Host &other : hosts)
    if (other.name == host.name)
      wrong = quote(host.name) + " is there twice";
  hosts.push_back(host);
  return wrong.empty();
}

bool kerf::runtime::readHosts(const std::string &path, std::vector<Host> &hosts,
                              std::string &error) {
  std::ifstream file(path);
  if (!file) {
    error = "cannot read the host file " + quote(path);
    return false;
  }
  int number = 0;
  std::string wrong;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (readLine(line, hosts, wrong))
      continue;
    error = path + ":" + std::to_string(number) + ": " + wrong;
    return false;
  }
  if (hosts.empty())
    error = "the host file " + quote(path) + " names no machine";
  return error.empty();
}

//===----------------------------------------------------------------------===//
// Who answers
//===----------------------------------------------------------------------===//

static bool isThisMachine(const std::string &name) {
  char own[256] = "";
  (void)gethostname(own, sizeof own - 1);
  return name == "localhost" || name == "127.0.0.1" || name == own;
}

/// Starts to ask a host; 0: nobody could be asked.
static pid_t startProbe(const Host &host) {
  const char *given = std::getenv("KERF_HOST_PROBE");
  std::vector<std::string> words =
      given && *given
          ? std::vector<std::string>{given, host.name}
          : std::vector<std::string>{
                "ssh",     "-o",  "BatchMode=yes", "-o", "ConnectTimeout=5",
                host.name, "true"};
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int failed =
      posix_spawnp(&child, argv[0], &quiet, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&quiet);
  return failed ? 0 : child;
}

/// Whether what `startProbe` started ends well until `limit`; it is ended then.
static bool endsWell(pid_t probe, double limit) {
  int code = 0;
  pid_t ended = 0;
  while ((ended = waitpid(probe, &code, WNOHANG)) == 0 && now() < limit)
    usleep(20'000);
  if (ended == probe)
    return code == 0;
  kill(probe, SIGKILL);
  waitpid(probe, &code, 0);
  return false;
}

std::vector<Host> kerf::runtime::answering(const std::vector<Host> &hosts) {
  std::vector<pid_t> probes;
  for (const Host &host : hosts)
    probes.push_back(isThisMachine(host.name) ? -1 : startProbe(host));
  std::vector<Host> answer;
  double limit = now() + probeSec;
  for (size_t i = 0; i < hosts.size(); ++i)
    if (probes[i] < 0 || (probes[i] > 0 && endsWell(probes[i], limit)))
      answer.push_back(hosts[i]);
  return answer;
}

std::vector<Host> kerf::runtime::hostsFor(const std::vector<Host> &hosts,
                                          int64_t ranks) {
  std::vector<Host> used;
  for (const Host &host : hosts) {
    if (ranks <= 0)
      break;
    used.push_back({host.name, std::min(host.slots, ranks)});
    ranks -= host.slots;
  }
  return used;
}

//===----------------------------------------------------------------------===//
// The job
//===----------------------------------------------------------------------===//

static void tell(const std::string &text) {
  std::fprintf(stderr, "kerf-run: note: %s\n", text.c_str());
}

/// "'a' and 'c' do not answer", of those that are not among `answer`.
static std::string silentOf(const std::vector<Host> &hosts,
                            const std::vector<Host> &answer) {
  std::set<std::string> there;
  for (const Host &host : answer)
    there.insert(host.name);
  std::vector<std::string> names;
  for (const Host &host : hosts)
    if (!there.count(host.name))
      names.push_back(quote(host.name));
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return names.empty() ? ""
                       : text + (names.size() == 1 ? " does not answer"
                                                   : " do not answer");
}

/// The most ranks that a file is for and these hosts take; 0: none.
int64_t HostedJob::ranksOn(const std::vector<Host> &answer) const {
  int64_t slots = 0;
  for (const Host &host : answer)
    slots += host.slots;
  if (slots >= ranks)
    return ranks;
  for (int64_t fewer = slots; fewer > 0; --fewer)
    if (hasFile(fewer))
      return fewer;
  return 0;
}

/// Seconds between two looks for machines that are back.
static double secondsBetween() {
  const char *text = std::getenv("KERF_HOST_CHECK");
  double seconds = 0;
  return text && parseReal(text, seconds) && seconds > 0 ? seconds : checkSec;
}

/// A host file in memory, which mpirun reads by its path.
static int writeHosts(const std::vector<Host> &hosts, std::string &path) {
  int file = memfd_create("kerf-hosts", MFD_CLOEXEC);
  path = format("/proc/%lld/fd/%d", (long long)getpid(), file);
  std::ofstream out(path);
  for (const Host &host : hosts)
    out << host.name << " slots=" << host.slots << "\n";
  return file;
}

std::string HostedJob::check() const {
  return ranksOn(hosts) ? ""
                        : "the host file has room for fewer than " +
                              std::to_string(ranks) +
                              " ranks, and there is no file for what it has "
                              "room for: add machines, or compile one (kerfc "
                              "--survive, or --devices)";
}

JobEnd HostedJob::run(const std::vector<std::string> &arguments) {
  std::vector<Host> answer = answering(hosts);
  bool isTold = false;
  int64_t own = 0;
  for (; (own = ranksOn(answer)) == 0; answer = answering(hosts)) {
    if (!isTold)
      tell(silentOf(hosts, answer) +
           ": no file is for what is left (kerfc --survive); waiting");
    isTold = true;
    if (int signal = pauseUnlessAsked(waitSec)) {
      JobEnd end;
      end.status = 128 + signal;
      end.askedBy = signal;
      return end;
    }
  }
  std::string silent = silentOf(hosts, answer);
  if (own < ranks)
    tell((silent.empty() ? "the host file has no room for more" : silent) +
         ": goes on with " + std::to_string(own) + " of " +
         std::to_string(ranks) + " ranks");
  std::vector<Host> used = hostsFor(answer, own);
  MpiHosts on;
  int file = writeHosts(used, on.file);
  on.checkSec = secondsBetween();
  if (own < ranks && goesBack)
    on.isOver = [&] { return ranksOn(answering(hosts)) > own; };
  JobEnd end = launchMpi(own, arguments, on);
  close(file);
  if (end.isMoved)
    tell("machines are back: goes on with more ranks");
  if (end.status == 0 || end.askedBy || end.isMoved)
    return end;
  // mpirun tells of a machine that is gone in its own ways.
  end.fault.lost = silentOf(used, answering(used));
  if (!end.fault.lost.empty()) {
    end.fault.kind = FaultKind::Failed;
    end.status = std::max(end.status, 128);
  }
  return end;
}
