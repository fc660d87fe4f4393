//===- ShmSegment.cpp -----------------------------------------------------===//

#include "ShmSegment.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace kerf::runtime;
using namespace kerf::runtime::shm;

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
                  std::atomic<uint32_t>::is_always_lock_free,
              "atomics are shared between processes");

/// How long a rank sleeps before it looks whether the others live.
static constexpr long kCheckNanoseconds = 50'000'000;

static void sleepBriefly() {
  timespec time = {0, 1'000'000};
  nanosleep(&time, nullptr);
}

static uint32_t allowedCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  // Fails above 1024 cores, where ranks are few by comparison.
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores)
                                                         : 1024;
}

std::string shm::pathOf(const std::string &name) {
  std::string path = "/kerf-" + std::to_string(getuid()) + "-";
  for (char c : name.substr(0, 128))
    path += isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-'
                ? c
                : '_';
  return path;
}

//===----------------------------------------------------------------------===//
// Parts of the memory
//===----------------------------------------------------------------------===//

static constexpr uint64_t kControlBytes = (sizeof(Control) + 63) / 64 * 64;

/// Where the table of channels begins.
static uint64_t channelsAt(uint64_t ranks) {
  return kControlBytes + ranks * sizeof(Doorbell) +
         ranks * ranks * sizeof(Link) + 2 * ranks * sizeof(Half);
}

uint64_t shm::segmentBytes(uint32_t ranks) {
  return channelsAt(ranks) + kMaxChannels * sizeof(ChannelRecord);
}

Doorbell &Segment::doorbell(uint32_t of) {
  return reinterpret_cast<Doorbell *>(memory + kControlBytes)[of];
}

Link &Segment::link(uint32_t writer, uint32_t reader) {
  char *links = memory + kControlBytes + size * sizeof(Doorbell);
  return reinterpret_cast<Link *>(links)[writer * size + reader];
}

Half &Segment::half(uint32_t writer, uint32_t number) {
  char *halves = memory + kControlBytes + size * sizeof(Doorbell) +
                 uint64_t(size) * size * sizeof(Link);
  return reinterpret_cast<Half *>(halves)[writer * 2 + number];
}

ChannelRecord *Segment::channels() {
  return reinterpret_cast<ChannelRecord *>(memory + channelsAt(size));
}

//===----------------------------------------------------------------------===//
// Memory of channels
//===----------------------------------------------------------------------===//

/// Locks or unlocks (`type`) the byte of the file behind those of the ranks.
static void setTableLock(int file, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kMaxRanks;
  lock.l_len = 1;
  while (fcntl(file, F_SETLKW, &lock) != 0 && errno == EINTR)
    ;
}

void Segment::lockChannels() { setTableLock(file, F_WRLCK); }
void Segment::unlockChannels() { setTableLock(file, F_UNLCK); }

Status Segment::reserve(uint64_t bytes, uint64_t &offset) {
  uint64_t at = offset ? offset : control().end;
  if (int error = posix_fallocate(file, at, bytes))
    return failure(KERF_NO_MEMORY,
                   "cannot get %llu bytes of shared memory for a channel: %s",
                   (unsigned long long)bytes, std::strerror(error));
  if (!offset)
    control().end = at + bytes;
  offset = at;
  return {};
}

void Segment::release(uint64_t offset, uint64_t bytes) {
  // Where the file system cannot, the memory stays until the job ends.
  (void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                  bytes);
}

Status Segment::map(uint64_t offset, uint64_t bytes, char *&mapped) {
  void *address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);
  if (address == MAP_FAILED)
    return failure(KERF_NO_MEMORY, "cannot map %llu bytes of shared memory: %s",
                   (unsigned long long)bytes, std::strerror(errno));
  mapped = static_cast<char *>(address);
  return {};
}

uint64_t Segment::memoryBytes() const {
  struct stat info = {};
  fstat(file, &info);
  return info.st_blocks * 512; // the unit of stat
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

void Segment::pause() { __builtin_ia32_pause(); }

void Segment::ring(uint32_t to) {
  Doorbell &bell = doorbell(to);
  bell.rings.fetch_add(1);
  if (bell.sleeping.load())
    syscall(SYS_futex, &bell.rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Segment::isAlive(uint32_t of) {
  if (of == rank)
    return true;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = of;
  lock.l_len = 1;
  // A lock in the way is that of the living rank.
  return fcntl(file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Segment::abort(const char *message) {
  uint32_t none = 0;
  if (!control().abortState.compare_exchange_strong(none, 1))
    return false;
  std::snprintf(control().abortMessage, sizeof control().abortMessage, "%s",
                message);
  control().abortState.store(2);
  for (uint32_t r = 0; r < size; ++r)
    ring(r);
  return true;
}

/// Waits for who writes the message of an abort, unless that rank died at it.
bool Segment::isMessageThere() {
  constexpr double patienceSec = 0.1;
  double start = secondsNow();
  while (control().abortState.load() != 2 && secondsNow() - start < patienceSec)
    sleepBriefly();
  return control().abortState.load() == 2;
}

Status Segment::checkPeers(uint32_t peer) {
  if (control().abortState.load() == 2)
    return failure(KERF_PEER_LOST, "%s", control().abortMessage);
  for (uint32_t r = 0; r < size; ++r) {
    uint32_t state = control().states[r].load();
    bool isDead = state == kJoined && !isAlive(r) &&
                  control().states[r].load() == kJoined;
    bool isGone = state == kLeft && r == peer;
    if (!isDead && !isGone)
      continue;
    Status status = failure(KERF_PEER_LOST, "rank %u %s", r,
                            isDead ? "died" : "left the job");
    if (abort(status.message.c_str()) || !isMessageThere())
      return status;
    // It told why before it ended, but after the look above.
    return failure(KERF_PEER_LOST, "%s", control().abortMessage);
  }
  return {};
}

Status Segment::checkStall() {
  if (!watch.isStalled())
    return {};
  std::string message = watch.describe();
  std::string told = "rank " + std::to_string(rank) + ": " + message;
  // Many notice at once: one tells.
  if (abort(told.c_str()))
    return failure(KERF_STALLED, "%s", message.c_str());
  return {};
}

Status Segment::waitAsleep(uint32_t peer, void *predicate,
                           bool (*ready)(void *)) {
  Doorbell &bell = doorbell(rank);
  watch.beginWait();
  Status status;
  while (!status.failed()) {
    uint32_t rings = bell.rings.load();
    bell.sleeping.store(1);
    if (ready(predicate))
      break;
    timespec time = {0, kCheckNanoseconds};
    long result =
        syscall(SYS_futex, &bell.rings, FUTEX_WAIT, rings, &time, nullptr, 0);
    bool isLate = result != 0 && errno == ETIMEDOUT;
    if (!isLate && control().abortState.load() == 0)
      continue;
    status = checkPeers(peer);
    if (!status.failed())
      status = checkStall();
    // What a rank did before it left or died still counts.
    if (status.failed() && ready(predicate))
      status = {};
    if (!status.failed() && ready(predicate))
      break;
  }
  bell.sleeping.store(0);
  watch.endWait();
  return status;
}

Status Segment::poll(const std::function<bool()> &ready) {
  for (uint32_t spin = 0; spin < spins; ++spin)
    if (ready())
      return {};
  watch.beginWait();
  Status status;
  constexpr double checkSec = 0.05;
  auto isReadyBy = [&](double deadline) {
    while (!ready()) {
      if (secondsNow() > deadline)
        return false;
      timespec time = {0, 20'000};
      nanosleep(&time, nullptr);
    }
    return true;
  };
  while (!status.failed() && !isReadyBy(secondsNow() + checkSec)) {
    status = checkPeers(rank);
    if (!status.failed())
      status = checkStall();
  }
  // What a rank did before it left or died still counts.
  if (status.code == KERF_PEER_LOST && isReadyBy(secondsNow() + checkSec))
    status = {};
  watch.endWait();
  return status;
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

Segment::Segment(const Rendezvous &rendezvous)
    : rank(rendezvous.rank), size(rendezvous.size), watch(rendezvous),
      path(pathOf(rendezvous.name)) {
  bool isCrowded =
      uint64_t(rendezvous.size) * rendezvous.workers > allowedCores();
  constexpr uint32_t spinsOfFew = 2000; // about 100 microseconds
  spins = isCrowded ? 0 : spinsOfFew;
}

void Segment::close() {
  if (memory)
    munmap(memory, bytes());
  if (file >= 0)
    ::close(file);
  memory = nullptr;
  file = -1;
}

Segment::~Segment() {
  if (joined) {
    control().states[rank].store(kLeft);
    for (uint32_t r = 0; r < size; ++r)
      ring(r);
  }
  if (linked)
    shm_unlink(path.c_str());
  close();
}

/// Locks the byte of a rank; false when somebody has it.
static bool lockByte(int file, uint32_t rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return fcntl(file, F_SETLK, &lock) == 0;
}

/// Shared memory that another user made, or that others may write, is not ours
/// whatever its name says.
static Status checkOwner(int file, const std::string &path,
                         const std::string &job) {
  struct stat info = {};
  if (fstat(file, &info) != 0)
    return failure(KERF_FAILED, "cannot look at shared memory '%s': %s",
                   path.c_str(), std::strerror(errno));
  if (info.st_uid == geteuid() && (info.st_mode & 077) == 0)
    return {};
  return failure(KERF_INVALID,
                 "shared memory '%s' of the job '%s' is of user %u, mode %03o, "
                 "expected one of user %u alone: choose another MASTER_PORT or "
                 "KERF_SESSION",
                 path.c_str(), job.c_str(), info.st_uid, info.st_mode & 0777,
                 geteuid());
}

/// True for a segment of this user that no rank has, and none is about to: its
/// maker locks the first byte at once and lives as long as the job.
static bool isAbandoned(int file) {
  constexpr time_t oldSeconds = 60;
  struct stat info = {};
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET; // all bytes
  return fstat(file, &info) == 0 && info.st_uid == geteuid() &&
         time(nullptr) - info.st_mtime > oldSeconds &&
         fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/// Removes what jobs left that were killed, launcher and all, before their
/// ranks had met: nobody comes back for a name that is drawn anew each time.
static void removeAbandoned() {
  std::string start = pathOf("").substr(1);
  DIR *folder = opendir("/dev/shm");
  if (!folder)
    return;
  while (dirent *entry = readdir(folder)) {
    std::string name = entry->d_name;
    if (name.compare(0, start.size(), start) != 0)
      continue;
    int file = shm_open(("/" + name).c_str(), O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
      continue;
    if (isAbandoned(file))
      shm_unlink(("/" + name).c_str());
    close(file);
  }
  closedir(folder);
}

/// True once `file` is locked as rank 0's and its name is still its own:
/// between the making and the locking another job may take it for one that was
/// left.
static bool isTaken(int file) {
  struct stat info = {};
  return lockByte(file, 0) && fstat(file, &info) == 0 && info.st_nlink > 0;
}

/// Removes the segment that `file` is if no job has it, and says so otherwise.
/// Whoever removes it holds its lock, so that no two jobs remove one name.
static Status removeLeft(int file, const std::string &path,
                         const std::string &job) {
  if (Status status = checkOwner(file, path, job); status.failed())
    return status;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  if (fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
    return failure(KERF_INVALID,
                   "a job named '%s' is running (process %d): choose another "
                   "MASTER_PORT or KERF_SESSION",
                   job.c_str(), lock.l_pid);
  if (isTaken(file))
    shm_unlink(path.c_str());
  return {};
}

/// Rank 0: makes the segment, in place of one that a killed job left.
Status Segment::create(const Rendezvous &rendezvous) {
  constexpr int attempts = 100;
  removeAbandoned();
  for (int attempt = 0;; ++attempt) {
    file = shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0 && isTaken(file))
      break;
    bool retry = file >= 0 || errno == EEXIST;
    close();
    if (!retry || attempt == attempts)
      return failure(KERF_FAILED, "cannot make shared memory '%s': %s",
                     path.c_str(), std::strerror(errno));
    file = shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 && errno == EACCES)
      return failure(KERF_INVALID,
                     "shared memory '%s' of the job '%s' is of another user: "
                     "choose another MASTER_PORT or KERF_SESSION",
                     path.c_str(), rendezvous.name.c_str());
    if (file < 0)
      continue;
    Status status = removeLeft(file, path, rendezvous.name);
    close();
    if (status.failed())
      return status;
  }
  linked = true;
  if (int error = posix_fallocate(file, 0, bytes()))
    return failure(KERF_NO_MEMORY, "cannot get %llu bytes of shared memory: %s",
                   (unsigned long long)bytes(), std::strerror(error));
  Status status = map(0, bytes(), memory);
  if (status.failed())
    return status;
  control().programHash = rendezvous.programHash;
  control().size = size;
  uint64_t page = sysconf(_SC_PAGESIZE);
  control().end = (bytes() + page - 1) / page * page;
  control().ready.store(kReady);
  return {};
}

/// Another rank: opens the segment if it is there and its maker lives.
Status Segment::open(const Rendezvous &rendezvous, bool &found) {
  found = false;
  file = shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0600);
  if (file < 0)
    return {};
  if (Status status = checkOwner(file, path, rendezvous.name);
      status.failed()) {
    close();
    return status;
  }
  struct stat info;
  uint32_t size = 0;
  uint64_t ready = 0;
  // Read before it is mapped: its size may be that of another world.
  if (fstat(file, &info) != 0 || info.st_size < (off_t)sizeof(Control) ||
      pread(file, &ready, sizeof ready, offsetof(Control, ready)) < 0 ||
      pread(file, &size, sizeof size, offsetof(Control, size)) < 0 ||
      ready != kReady || !isAlive(0)) {
    close();
    return {};
  }
  if (size != rendezvous.size) {
    close();
    return failure(KERF_INVALID, "rank 0 starts %u ranks, rank %u expects %u",
                   size, rank, rendezvous.size);
  }
  found = true;
  return map(0, bytes(), memory);
}

Status Segment::find(const Rendezvous &rendezvous) {
  double deadline = secondsNow() + rendezvous.timeoutSec;
  while (true) {
    bool found;
    Status status = open(rendezvous, found);
    if (status.failed() || found)
      return status;
    if (secondsNow() > deadline)
      return failure(KERF_FAILED,
                     "rank 0 of the job '%s' did not come within %g s",
                     rendezvous.name.c_str(), rendezvous.timeoutSec);
    sleepBriefly();
  }
}

Status Segment::enter(const Rendezvous &rendezvous) {
  if (!lockByte(file, rank))
    return failure(KERF_INVALID, "rank %u is in the job '%s' already", rank,
                   rendezvous.name.c_str());
  if (control().programHash != rendezvous.programHash) {
    Status status = failure(KERF_INVALID,
                            "rank %u runs another program than rank 0: start "
                            "all ranks with the same file",
                            rank);
    abort(status.message.c_str());
    control().states[rank].store(kLeft);
    return status;
  }
  for (uint32_t r = 0; r < size; ++r)
    watch.setNote(r, &control().notes[r]);
  joined = true;
  control().states[rank].store(kJoined);
  return {};
}

/// The first rank that did not come yet, or `size`.
uint32_t Segment::missingRank() {
  uint32_t missing = 0;
  while (missing < size && control().states[missing].load() != kAbsent)
    ++missing;
  return missing;
}

/// Rank 0 after a failure: ranks that come late find out why, and do not wait
/// for a job that is over.
void Segment::tellLateRanks() {
  constexpr double patienceSec = 2;
  double start = secondsNow();
  while (missingRank() != size && secondsNow() - start < patienceSec)
    sleepBriefly();
}

Status Segment::awaitAll(const Rendezvous &rendezvous) {
  double deadline = secondsNow() + rendezvous.timeoutSec;
  while (true) {
    uint32_t missing = missingRank();
    if (missing == size && control().abortState.load() == 0)
      return {};
    Status status = checkPeers(rank);
    if (status.failed())
      return status;
    if (secondsNow() > deadline) {
      status = failure(KERF_FAILED, "rank %u did not come within %g s", missing,
                       rendezvous.timeoutSec);
      abort(status.message.c_str());
      return status;
    }
    sleepBriefly();
  }
}

Status Segment::join(const Rendezvous &rendezvous,
                     std::unique_ptr<Segment> &segment) {
  if (rendezvous.size > kMaxRanks || rendezvous.rank >= rendezvous.size)
    return failure(KERF_INVALID,
                   "rank %u of %u, expected one of at most %u on a machine",
                   rendezvous.rank, rendezvous.size, kMaxRanks);
  std::unique_ptr<Segment> made(new Segment(rendezvous));
  Status status =
      made->rank == 0 ? made->create(rendezvous) : made->find(rendezvous);
  if (!status.failed())
    status = made->enter(rendezvous);
  if (!status.failed())
    status = made->awaitAll(rendezvous);
  if (status.code == KERF_PEER_LOST && made->linked)
    made->tellLateRanks();
  if (status.failed())
    return status;
  if (made->linked)
    shm_unlink(made->path.c_str());
  made->linked = false;
  segment = std::move(made);
  return {};
}
