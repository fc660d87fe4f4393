//===- MemoryFolder.h - folders of copies in a machine's memory -*- C++ -*-===//
//
// KERF_COPY_FOLDER, else /dev/shm, has a folder `kerf-copies-ID@MACHINE` for
// each run that keeps copies, with a file `owner`: the folder of its states.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_JOB_MEMORYFOLDER_H
#define KERF_TRAIN_JOB_MEMORYFOLDER_H

#include <cstdint>
#include <string>

namespace kerf::runtime {

/// What a copy's manifest has as the ID of its folders.
inline constexpr const char *memoryKey = "memory";

/// What has a file system in memory.
std::string memoryBase();
/// The folder of a run on this machine.
std::string memoryFolder(const std::string &id);
/// "MEMORY/step-12".
std::string stepOfMemory(const std::string &memory, int64_t step);
/// The ID of the copy at `path`, hexadecimal digits; "" of none.
std::string idOfCopy(const std::string &path);

/// Where files of the copy at `path` ("state/step-12.copy") are on this
/// machine.
std::string filesOfCopy(const std::string &id, const std::string &path);

/// Makes a run's folder, which nobody else may read.
[[nodiscard]] bool makeMemory(const std::string &memory,
                              const std::string &states, std::string &error);
/// Bytes of all files of copies in a run's folder.
uint64_t bytesIn(const std::string &memory);
/// Whether so many bytes fit, `held` of which are taken by what will be removed
/// for them; else an error with what to do.
[[nodiscard]] bool hasRoom(uint64_t bytes, uint64_t held, std::string &error);
/// Removes this machine's folders of runs that save to `states`, but for `id`.
void tidyMemory(const std::string &states, const std::string &id);
/// Removes the steps of a run's folder but for one.
void keepOnly(const std::string &memory, int64_t step);

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_MEMORYFOLDER_H
