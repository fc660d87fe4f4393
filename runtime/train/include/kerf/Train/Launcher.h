//===- Launcher.h - all ranks of a job on this machine ----------*- C++ -*-===//

#ifndef KERF_TRAIN_LAUNCHER_H
#define KERF_TRAIN_LAUNCHER_H

#include "kerf/Train/Faults.h"
#include "kerf/Train/job/Goodput.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Whether somebody else started this process as a rank (RANK is set).
bool isRankProcess();

/// Whether kerf-run itself started the ranks of the job, by `launchRanks` or
/// `launchMpi`: only then it can start them again. `markLaunch` says so to
/// them.
bool isOwnLaunch();
void markLaunch();

/// Whether the job was started again after a fault: what its options said of
/// its beginning is done. `markRestart` says so to the ranks that are started.
bool isRestart();
void markRestart();

/// 128 bits that nobody can guess, as 32 digits: the name of the job's shared
/// memory, and what ranks say to each other over tcp, follow from the session's
/// name.
std::string drawSecret();

/// Keeps signals that end a program from doing so, for who looks for them
/// (`sigtimedwait`); ranks that are started do not inherit that.
void holdSignals();

/// Sleeps so many seconds; the signal that ends a job (SIGINT, SIGTERM, SIGHUP)
/// that came before or ended it early, or 0.
int pauseUnlessAsked(double seconds);

/// In a process that mpirun started: sets RANK, WORLD_SIZE, LOCAL_RANK and
/// LOCAL_WORLD_SIZE to what MPI says, unless RANK is set.
void adoptMpiRank();

/// Cores that this process may use.
int64_t usableCores();

/// Threads for one of the ranks that share this machine when the user names no
/// number: the cores this process may use, divided by LOCAL_WORLD_SIZE.
int64_t defaultThreads(int64_t worldSize);

/// How a job ended.
struct JobEnd {
  /// That of the rank which failed first by itself, 128 + N if signal N killed
  /// it.
  int status = 0;
  int askedBy = 0;      ///< a signal to the launcher that ended it, 0: none
  bool isMoved = false; ///< it ended in good order, to go on with more ranks
  Fault fault;          ///< where the status is not 0
  int64_t firstStep = 0, lastStep = 0; ///< begun, as ranks told; 0: none
  int64_t doneStep = 0;                ///< the last one that was made; 0: none
  AttemptTimes times; ///< nothing where mpirun started the ranks
};

/// What an attempt's time went into until now.
using JobProgress = std::function<void(const AttemptTimes &)>;

/// Runs this program once per rank with `arguments`, tells the ranks about each
/// other (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT, KERF_SESSION), and waits for all. SIGINT, SIGTERM and SIGHUP
/// are passed on. When a rank fails, the others get a moment to say why and are
/// killed. No rank outlives the launcher. Calls `progress`, if it is there,
/// every minute.
JobEnd launchRanks(int64_t worldSize, const std::vector<std::string> &arguments,
                   const JobProgress &progress = {});

/// Where mpirun starts ranks.
struct MpiHosts {
  std::string file; ///< its host file; "": this machine
  /// Asked every `checkSec` seconds: whether the job is to save and end
  /// (`JobEnd::isMoved`). Empty: no.
  std::function<bool()> isOver;
  double checkSec = 60;
};

/// The same through mpirun; the fault has its status alone.
JobEnd launchMpi(int64_t worldSize, const std::vector<std::string> &arguments,
                 const MpiHosts &hosts = {});

} // namespace kerf::runtime

#endif // KERF_TRAIN_LAUNCHER_H
