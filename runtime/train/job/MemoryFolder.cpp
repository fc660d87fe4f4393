//===- MemoryFolder.cpp - folders of copies in a machine's memory ---------===//

#include "kerf/Train/job/MemoryFolder.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/StateReader.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/job/Machines.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

using namespace kerf::runtime;

static constexpr const char *kPrefix = "kerf-copies-", *kOwner = "owner",
                            *kStep = "step-";

std::string kerf::runtime::memoryBase() {
  const char *given = std::getenv("KERF_COPY_FOLDER");
  return given && *given ? given : "/dev/shm";
}

/// A host's name has no "/"; a given one may.
static std::string suffix() {
  std::string name = "@" + machineName();
  for (char &c : name)
    c = c == '/' ? '_' : c;
  return name;
}

std::string kerf::runtime::memoryFolder(const std::string &id) {
  return joinPath(memoryBase(), kPrefix + id + suffix());
}

std::string kerf::runtime::stepOfMemory(const std::string &memory,
                                        int64_t step) {
  return joinPath(memory, kStep + std::to_string(step));
}

std::string kerf::runtime::filesOfCopy(const std::string &id,
                                       const std::string &path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  return joinPath(memoryFolder(id), name.substr(0, name.rfind('.')));
}

std::string kerf::runtime::idOfCopy(const std::string &path) {
  StateReader reader;
  std::string error;
  if (path.empty() || !reader.open(path, error))
    return "";
  auto it = reader.manifest().find(memoryKey);
  bool isThere =
      it != reader.manifest().end() &&
      it->second.find_first_not_of("0123456789abcdef") == std::string::npos;
  return isThere ? it->second : "";
}

/// The same for all spellings of a folder that exists.
static std::string realName(const std::string &path) {
  char *real = realpath(path.c_str(), nullptr);
  std::string name = real ? real : path;
  std::free(real);
  return name;
}

bool kerf::runtime::makeMemory(const std::string &memory,
                               const std::string &states, std::string &error) {
  constexpr mode_t mode = 0700;
  struct stat status{};
  if (mkdir(memory.c_str(), mode) != 0 &&
      (errno != EEXIST || lstat(memory.c_str(), &status) != 0 ||
       !S_ISDIR(status.st_mode) || status.st_uid != getuid())) {
    error = "cannot make " + quote(memory) + ": " + std::strerror(errno);
    return false;
  }
  return writeFile(joinPath(memory, kOwner), realName(states), error);
}

uint64_t kerf::runtime::bytesIn(const std::string &memory) {
  uint64_t bytes = 0;
  for (const std::string &step : listFolder(memory))
    for (const std::string &name : listFolder(joinPath(memory, step))) {
      struct stat status{};
      std::string path = joinPath(joinPath(memory, step), name);
      if (isStateFile(name) && stat(path.c_str(), &status) == 0)
        bytes += static_cast<uint64_t>(status.st_size);
    }
  return bytes;
}

bool kerf::runtime::hasRoom(uint64_t bytes, uint64_t held, std::string &error) {
  struct statvfs status{};
  if (statvfs(memoryBase().c_str(), &status) != 0) {
    error = "cannot look at " + quote(memoryBase()) + ": " +
            std::strerror(errno) +
            "; KERF_COPY_FOLDER names another folder in memory";
    return false;
  }
  uint64_t free =
      static_cast<uint64_t>(status.f_bavail) * status.f_frsize + held;
  if (bytes <= free)
    return true;
  error = "copies take up to " + formatBytes(bytes) + " of " +
          quote(memoryBase()) + ", which has " + formatBytes(free) +
          ": make it larger (mount -o remount,size=SIZE), name another folder "
          "in memory by KERF_COPY_FOLDER, or leave out '--peer-copies'";
  return false;
}

/// Removes the files of a copy and their folder. What else is there stays, and
/// its folders with it.
static void removeFiles(const std::string &folder) {
  for (const std::string &name : listFolder(folder))
    if (isStateFile(name))
      removeFile(joinPath(folder, name));
  rmdir(folder.c_str());
}

static bool isStepName(const std::string &name) {
  return name.compare(0, std::strlen(kStep), kStep) == 0;
}

void kerf::runtime::keepOnly(const std::string &memory, int64_t step) {
  for (const std::string &name : listFolder(memory)) {
    std::string path = joinPath(memory, name);
    if (isStepName(name) && path != stepOfMemory(memory, step))
      removeFiles(path);
  }
}

static bool isOwner(const std::string &memory, const std::string &states) {
  MappedFile file;
  std::string error;
  return file.open(joinPath(memory, kOwner), error) &&
         std::string(reinterpret_cast<const char *>(file.data()),
                     file.size()) == realName(states);
}

static void removeMemory(const std::string &memory) {
  keepOnly(memory, /*step=*/-1);
  removeFile(joinPath(memory, kOwner));
  rmdir(memory.c_str());
}

void kerf::runtime::tidyMemory(const std::string &states,
                               const std::string &id) {
  for (const std::string &name : listFolder(memoryBase())) {
    std::string path = joinPath(memoryBase(), name);
    if (name.compare(0, std::strlen(kPrefix), kPrefix) == 0 &&
        endsWith(name, suffix()) && (id.empty() || path != memoryFolder(id)) &&
        isOwner(path, states))
      removeMemory(path);
  }
}
