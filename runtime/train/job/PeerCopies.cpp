//===- PeerCopies.cpp - states in the memory of other machines ------------===//

#include "kerf/Train/job/PeerCopies.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/Launcher.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/job/MemoryFolder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

using namespace kerf::runtime;

/// Bytes that are sent at a time.
static constexpr uint64_t kPartBytes = 4 << 20;

PeerCopies::PeerCopies(kerf_session *session, uint32_t ranks,
                       std::string folder, int64_t every)
    : session(session), folder(std::move(folder)), every(every),
      rank(kerf_session_rank(session)), ranks(ranks) {}

PeerCopies::~PeerCopies() { closeFiles(); }

bool PeerCopies::check(kerf_status code, std::string &error) {
  if (code != KERF_OK)
    error = failure.message;
  return code == KERF_OK;
}

/// Collective: whether all ranks are well. The one that is not has told why.
bool PeerCopies::agree(bool isWell, std::string &error) {
  int32_t worst = isWell ? 0 : 1;
  std::string reason;
  if (!check(kerf_session_agree_max(session, &worst, &failure), reason)) {
    error = reason;
    return false;
  }
  return worst == 0;
}

//===----------------------------------------------------------------------===//
// Start
//===----------------------------------------------------------------------===//

/// The first rank's, of six bytes: a double holds them.
bool PeerCopies::drawId(std::string &error) {
  constexpr size_t digits = 12;
  std::string text = drawSecret().substr(0, digits);
  auto drawn = static_cast<double>(std::strtoull(text.c_str(), nullptr, 16));
  std::vector<double> all(ranks);
  if (!check(kerf_session_gather(session, &drawn, 1, all.data(), &failure),
             error))
    return false;
  ownId = format("%012llx", static_cast<unsigned long long>(all.front()));
  memory = memoryFolder(ownId);
  return true;
}

/// A new copy is written while the one before it is there; at a restart that is
/// the one that the run goes on from.
bool PeerCopies::makeRoom(uint64_t bytes, const std::string &resumed,
                          std::string &error) {
  auto own = static_cast<double>(bytes);
  std::vector<double> all(ranks);
  if (!check(kerf_session_gather(session, &own, 1, all.data(), &failure),
             error))
    return false;
  std::vector<uint64_t> needed(machines.count(), 0);
  for (uint32_t r = 0; r < ranks; ++r)
    for (uint32_t holder : {r, machines.keeperOf(r)})
      needed[machines.of[holder]] += static_cast<uint64_t>(all[r]);
  machineBytes = *std::max_element(needed.begin(), needed.end());
  if (!machines.isFirst(rank))
    return true;
  std::string id = idOfCopy(resumed);
  uint64_t held = id.empty() ? 0 : bytesIn(memoryFolder(id));
  return hasRoom(2 * needed[machines.of[rank]], held, error);
}

bool PeerCopies::open(uint64_t bytes, const std::string &resumed,
                      std::string &error) {
  std::vector<std::string> names;
  if (!check(gatherMachines(session, ranks, names, failure), error))
    return false;
  machines = MachineMap(names);
  if (rank == 0)
    forgetCopies(folder, resumed);
  if (!hasPeers())
    return true;
  if (!drawId(error))
    return false;
  if (machines.isFirst(rank))
    tidyMemory(folder, idOfCopy(resumed));
  bool isWell = makeRoom(bytes, resumed, error) &&
                (!machines.isFirst(rank) || makeMemory(memory, folder, error));
  return failure.status == KERF_OK && agree(isWell, error) && isWell;
}

std::string PeerCopies::describe() const {
  return format("every %lld steps in the memory of %u machines: twice ",
                static_cast<long long>(every), machines.count()) +
         formatBytes(machineBytes) + " of " + quote(memoryBase()) +
         " at most on each";
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

std::string PeerCopies::fileOf(uint32_t owner) const {
  return joinPath(stepOfMemory(memory, step), rankFileName(owner));
}

std::string PeerCopies::place(int64_t next, std::string &error) {
  step = next;
  std::string path = stepOfMemory(memory, step);
  return makeFolder(path, error) ? joinPath(path, rankFileName(rank)) : "";
}

void PeerCopies::closeFiles() {
  for (int descriptor : descriptors)
    if (descriptor >= 0)
      close(descriptor);
  descriptors.clear();
}

void PeerCopies::start(int64_t next, const std::vector<uint64_t> &bytes) {
  step = next;
  sizes = bytes;
  sent = 0;
  descriptors.assign(sizes.size(), -1);
  buffer.resize(kPartBytes);
}

static std::string problemAt(const char *what, const std::string &path) {
  return std::string("cannot ") + what + " " + quote(path) + ": " +
         std::strerror(errno);
}

/// Where this rank cannot read any more it sends what it has: the other side
/// waits for so many bytes.
bool PeerCopies::sendPart(uint32_t owner, uint64_t offset, uint64_t bytes,
                          std::string &problem) {
  int &file = descriptors[owner];
  if (file < 0)
    file = ::open(fileOf(owner).c_str(), O_RDONLY | O_CLOEXEC);
  ssize_t got =
      file < 0 ? -1
               : pread(file, buffer.data(), bytes, static_cast<off_t>(offset));
  if (got != static_cast<ssize_t>(bytes))
    problem = problemAt("read", fileOf(owner));
  return check(kerf_session_send(session, machines.keeperOf(owner),
                                 buffer.data(), bytes, &failure),
               problem);
}

bool PeerCopies::keepPart(uint32_t owner, uint64_t offset, uint64_t bytes,
                          std::string &problem) {
  if (!check(
          kerf_session_receive(session, owner, buffer.data(), bytes, &failure),
          problem))
    return false;
  int &file = descriptors[owner];
  constexpr mode_t mode = 0600;
  if (file < 0)
    file = ::open(fileOf(owner).c_str(),
                  O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0 ||
      pwrite(file, buffer.data(), bytes, static_cast<off_t>(offset)) !=
          static_cast<ssize_t>(bytes))
    problem = problemAt("write", fileOf(owner));
  return true;
}

/// All ranks send and receive in the order of the files' owners: the first
/// exchange that is not done can always be made.
bool PeerCopies::send(bool all, bool &isDone, std::string &error) {
  uint64_t longest = *std::max_element(sizes.begin(), sizes.end());
  // In a quarter of the steps until the next copy.
  uint64_t turns = static_cast<uint64_t>(std::max<int64_t>(every / 4, 1));
  uint64_t end = all ? longest : sent + std::max(kPartBytes, longest / turns);
  std::string problem;
  for (; sent < std::min(end, longest); sent += kPartBytes)
    for (uint32_t owner = 0; owner < sizes.size(); ++owner) {
      if (sent >= sizes[owner])
        continue;
      uint64_t bytes = std::min(kPartBytes, sizes[owner] - sent);
      bool isMet = owner == rank ? sendPart(owner, sent, bytes, problem)
                   : machines.keeperOf(owner) == rank
                       ? keepPart(owner, sent, bytes, problem)
                       : true;
      if (!isMet) {
        error = problem;
        return false;
      }
    }
  isDone = sent >= longest;
  if (!problem.empty())
    error = problem;
  return !isDone || agree(problem.empty(), error);
}

bool PeerCopies::complete(const std::string &manifest, const std::string &index,
                          std::string &error) {
  closeFiles();
  sizes.clear();
  bool isWell = rank != 0 || publishCopy(folder, step, manifest, index, error);
  if (!agree(isWell, error))
    return false;
  if (rank == 0)
    forgetCopies(folder, pathOfCopy(folder, step));
  if (machines.isFirst(rank)) {
    keepOnly(memory, step);
    tidyMemory(folder, ownId);
  }
  return true;
}

void PeerCopies::forget() {
  closeFiles();
  if (rank == 0)
    forgetCopies(folder);
  if (machines.isFirst(rank))
    tidyMemory(folder, "");
}
