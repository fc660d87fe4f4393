//===- StateFolder.cpp - checkpoints of a run in a folder -----------------===//

#include "kerf/Train/StateFolder.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/StateIndex.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <tuple>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::runtime;

static constexpr std::string_view prefix = "step-";
static constexpr const char *partialSuffix = ".partial";
/// One that another takes the place of, where a file system cannot exchange
/// them at once. It stays whole until the other one is there.
static constexpr const char *replacedSuffix = ".replaced";
/// One that is being removed.
static constexpr const char *removedSuffix = ".removed";
/// One whose files are in memory.
static constexpr const char *copySuffix = ".copy";
static constexpr const char *lockName = ".kerf-run.lock";

std::string kerf::runtime::rankFileName(uint32_t rank) {
  return format("rank-%05u.safetensors", rank);
}

static std::string stepFolder(const std::string &folder, int64_t step) {
  return joinPath(folder, std::string(prefix) + std::to_string(step));
}

std::string kerf::runtime::partialFolder(const std::string &folder,
                                         int64_t step) {
  return stepFolder(folder, step) + partialSuffix;
}

/// The step of "step-12" and "step-12.replaced", or of "step-12.copy"; false
/// for other names.
static bool readStep(std::string name, int64_t &step,
                     const char *suffix = replacedSuffix) {
  if (name.compare(0, prefix.size(), prefix) != 0)
    return false;
  if (endsWith(name, suffix))
    name.resize(name.size() - std::strlen(suffix));
  name.erase(0, prefix.size());
  return parseInteger(name, step) && step >= 0 && std::to_string(step) == name;
}

/// The number of a save, as its manifest says; 0 where that cannot be read.
static int64_t readNumber(const std::string &path) {
  MappedFile file;
  Metadata entries;
  std::string error;
  int64_t number = 0;
  bool isRead =
      file.open(joinPath(path, manifestName), error) &&
      parseManifest({reinterpret_cast<const char *>(file.data()), file.size()},
                    entries, error) &&
      parseInteger(entries[numberKey], number);
  return isRead ? number : 0;
}

/// When a manifest was written, as its file system says; in nanoseconds.
static int64_t timeOf(const std::string &path) {
  struct stat status{};
  if (stat(joinPath(path, manifestName).c_str(), &status) != 0)
    return 0;
  return status.st_mtim.tv_sec * INT64_C(1'000'000'000) +
         status.st_mtim.tv_nsec;
}

/// What cannot be read is the newest, unless a later one can.
static void rankUnreadable(std::vector<SavedStep> &steps) {
  int64_t newest = 0;
  for (const SavedStep &step : steps)
    if (step.isReadable())
      newest = std::max(newest, timeOf(step.path));
  for (SavedStep &step : steps)
    if (!step.isReadable())
      step.number = timeOf(step.path) < newest ? 0 : INT64_MAX;
}

bool kerf::runtime::isEarlier(const SavedStep &a, const SavedStep &b) {
  return std::tie(a.number, a.step) < std::tie(b.number, b.step);
}

std::vector<SavedStep> kerf::runtime::listSteps(const std::string &folder) {
  std::vector<SavedStep> steps;
  for (const std::string &name : listFolder(folder)) {
    SavedStep own;
    own.path = joinPath(folder, name);
    if (!readStep(name, own.step) ||
        !fileExists(joinPath(own.path, manifestName)))
      continue;
    own.number = readNumber(own.path);
    steps.push_back(own);
  }
  rankUnreadable(steps);
  std::sort(steps.begin(), steps.end(), isEarlier);
  return steps;
}

std::string kerf::runtime::pathOfCopy(const std::string &folder, int64_t step) {
  return stepFolder(folder, step) + copySuffix;
}

bool kerf::runtime::isCopyFolder(const std::string &path) {
  return endsWith(path, copySuffix);
}

std::vector<SavedStep> kerf::runtime::listCopies(const std::string &folder) {
  std::vector<SavedStep> copies;
  for (const std::string &name : listFolder(folder)) {
    SavedStep own;
    own.path = joinPath(folder, name);
    if (!isCopyFolder(name) || !readStep(name, own.step, copySuffix) ||
        !fileExists(joinPath(own.path, indexName)))
      continue;
    own.number = readNumber(own.path);
    if (own.isReadable())
      copies.push_back(own);
  }
  std::sort(copies.begin(), copies.end(), isEarlier);
  return copies;
}

std::optional<SavedStep> kerf::runtime::newestState(const std::string &folder) {
  std::vector<SavedStep> steps = listSteps(folder), copies = listCopies(folder);
  if (!copies.empty() &&
      (steps.empty() || !isEarlier(copies.back(), steps.back())))
    return copies.back();
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

std::string kerf::runtime::refuseStates(const std::string &folder) {
  std::vector<SavedStep> steps;
  if (!folder.empty())
    for (auto *list : {listSteps, listCopies})
      for (SavedStep &own : list(folder))
        steps.push_back(std::move(own));
  if (steps.empty())
    return "";
  int64_t last = 0;
  for (const SavedStep &step : steps)
    last = std::max(last, step.step);
  return quote(folder) + " has the states of another run, up to step " +
         std::to_string(last) + ", which this one would remove: go on from " +
         "them with --resume=" + folder + ", or save to another folder";
}

int64_t kerf::runtime::nextNumber(const std::string &folder) {
  int64_t next = 1;
  for (const SavedStep &step : listSteps(folder))
    if (step.isReadable())
      next = std::max(next, step.number + 1);
  return next;
}

static bool isLeft(const std::string &path) {
  return endsWith(path, partialSuffix) || endsWith(path, removedSuffix);
}

static void syncFolder(const std::string &path) {
  int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return;
  fsync(folder);
  close(folder);
}

bool kerf::runtime::isStateFile(const std::string &name) {
  size_t temporary = name.find(".tmp-");
  std::string own = name.substr(0, temporary);
  return own == manifestName || own == indexName ||
         (own.compare(0, 5, "rank-") == 0 && endsWith(own, ".safetensors"));
}

/// Removes a checkpoint: under another name first, so that what is left of one
/// when the job ends is removed by the next save. A folder with files of others
/// keeps them, and its name. Once `isStopped` the rest stays.
static void removeStep(const std::string &path,
                       const std::atomic<bool> *isStopped = nullptr) {
  std::string removed = path;
  if (!isLeft(path)) {
    removed += removedSuffix;
    if (rename(path.c_str(), removed.c_str()) != 0)
      removed = path;
  }
  removeFile(joinPath(removed, manifestName));
  for (const std::string &name : listFolder(removed)) {
    if (isStopped && *isStopped)
      return;
    if (isStateFile(name))
      removeFile(joinPath(removed, name));
  }
  if (rmdir(removed.c_str()) != 0 && removed != path)
    rename(removed.c_str(), path.c_str());
}

void kerf::runtime::tidyFolder(const std::string &folder) {
  for (const std::string &name : listFolder(folder)) {
    std::string path = joinPath(folder, name);
    bool isReplaced =
        endsWith(name, replacedSuffix) &&
        fileExists(
            joinPath(path.substr(0, path.size() - std::strlen(replacedSuffix)),
                     manifestName));
    if (name.compare(0, prefix.size(), prefix) == 0 &&
        (isLeft(name) || isReplaced))
      removeStep(path);
  }
}

bool kerf::runtime::beginStep(const std::string &folder, int64_t step,
                              std::string &error) {
  tidyFolder(folder);
  return makeFolder(partialFolder(folder, step), error);
}

void kerf::runtime::abandonStep(const std::string &folder, int64_t step) {
  removeStep(partialFolder(folder, step));
}

/// Puts `fresh` in place of `old`, which becomes `fresh`'s name or another one.
static bool exchange(const std::string &fresh, const std::string &old,
                     std::string &replaced) {
  replaced = fresh;
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, old.c_str(),
                RENAME_EXCHANGE) == 0)
    return true;
  if (errno != EINVAL && errno != ENOSYS)
    return false;
  replaced = old + replacedSuffix;
  return rename(old.c_str(), replaced.c_str()) == 0 &&
         rename(fresh.c_str(), old.c_str()) == 0;
}

bool kerf::runtime::publishStep(const std::string &folder, int64_t step,
                                std::string &path, std::string &error) {
  std::string partial = partialFolder(folder, step), replaced;
  path = stepFolder(folder, step);
  syncFolder(partial);
  bool isThere = isFolder(path);
  bool isDone = isThere ? exchange(partial, path, replaced)
                        : rename(partial.c_str(), path.c_str()) == 0;
  if (!isDone) {
    error = "cannot rename " + quote(partial) + " to " + quote(path) + ": " +
            strerror(errno);
    return false;
  }
  syncFolder(folder);
  if (isThere)
    removeStep(replaced);
  return true;
}

bool kerf::runtime::publishCopy(const std::string &folder, int64_t step,
                                const std::string &manifest,
                                const std::string &index, std::string &error) {
  std::string path = pathOfCopy(folder, step);
  std::string partial = path + partialSuffix;
  if (isFolder(path))
    removeStep(path);
  if (!makeFolder(partial, error) ||
      !writeFile(joinPath(partial, indexName), index, error) ||
      !writeFile(joinPath(partial, manifestName), manifest, error))
    return false;
  syncFolder(partial);
  if (rename(partial.c_str(), path.c_str()) != 0) {
    error = "cannot rename " + quote(partial) + " to " + quote(path) + ": " +
            strerror(errno);
    return false;
  }
  syncFolder(folder);
  return true;
}

void kerf::runtime::forgetCopies(const std::string &folder,
                                 const std::string &kept) {
  for (const SavedStep &copy : listCopies(folder))
    if (kept.empty() || !isSameFile(copy.path, kept))
      removeStep(copy.path);
}

void kerf::runtime::pruneSteps(const std::string &folder, int64_t keep,
                               int64_t keepEvery,
                               const std::atomic<bool> &isStopped) {
  std::vector<SavedStep> steps = listSteps(folder);
  steps.erase(
      std::remove_if(steps.begin(), steps.end(),
                     [](const SavedStep &own) { return !own.isReadable(); }),
      steps.end());
  auto count = static_cast<int64_t>(steps.size());
  for (int64_t i = 0; i < count - keep; ++i)
    if (keepEvery == 0 || steps[i].step % keepEvery != 0)
      removeStep(steps[i].path, &isStopped);
}

FolderLock::~FolderLock() {
  if (descriptor >= 0)
    close(descriptor);
}

bool FolderLock::take(const std::string &folder, std::string &error) {
  if (!makeFolder(folder, error))
    return false;
  std::string path = joinPath(folder, lockName);
  descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    error = "cannot write " + quote(path) + ": " + strerror(errno);
    return false;
  }
  // Some file systems have no locks: then nothing is kept apart.
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return true;
  error = "another run saves to " + quote(folder) +
          " now; give this one a folder of its own";
  return false;
}
