//===- Hosts.h - machines that mpirun starts ranks on -----------*- C++ -*-===//

#ifndef KERF_TRAIN_JOB_HOSTS_H
#define KERF_TRAIN_JOB_HOSTS_H

#include "kerf/Train/Launcher.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// A machine and the ranks that it takes.
struct Host {
  std::string name;
  int64_t slots = 1;
};

/// Reads lines `NAME slots=RANKS`, as mpirun does; `#` begins a comment.
/// Without `slots` a machine takes one rank. False with an error that names the
/// line.
bool readHosts(const std::string &path, std::vector<Host> &hosts,
               std::string &error);

/// The hosts that answer, asked all at once: for each the program that
/// KERF_HOST_PROBE names runs with the host's name, else `ssh NAME true`, and
/// must end well within ten seconds. This machine always answers.
std::vector<Host> answering(const std::vector<Host> &hosts);

/// The first hosts that take `ranks` ranks, the last one perhaps not all that
/// it could.
std::vector<Host> hostsFor(const std::vector<Host> &hosts, int64_t ranks);

/// A job on several machines. Each start takes the machines that answer, and
/// as many ranks as these take and a file was compiled for.
class HostedJob {
public:
  /// `ranks`: of the whole job. `hasFile`: whether there is a file for fewer.
  /// `goesBack`: somebody starts a job again that ended to go on with more.
  HostedJob(std::vector<Host> hosts, int64_t ranks,
            std::function<bool(int64_t)> hasFile, bool goesBack)
      : hosts(std::move(hosts)), ranks(ranks), hasFile(std::move(hasFile)),
        goesBack(goesBack) {}

  /// What is wrong with the hosts even if all of them answer; "" if nothing is.
  std::string check() const;

  /// Runs the job, for the first time or again. Waits while no file is for what
  /// answers. Of fewer ranks than the whole job it ends in good order
  /// (`JobEnd::isMoved`) when more could run, if it goes back: every minute it
  /// looks for machines that are back (KERF_HOST_CHECK: seconds). Machines that
  /// were lost are the fault of a job that failed with them.
  JobEnd run(const std::vector<std::string> &arguments);

private:
  std::vector<Host> hosts;
  int64_t ranks;
  std::function<bool(int64_t)> hasFile;
  bool goesBack;

  int64_t ranksOn(const std::vector<Host> &answer) const;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_HOSTS_H
