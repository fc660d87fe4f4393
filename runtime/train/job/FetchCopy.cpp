//===- FetchCopy.cpp - files of a copy come where they are needed ---------===//
//
// Each rank tells which files its machine has and which it needs. From that all
// find the same list of transfers, one for each file and machine without it,
// and make them in its order.
//
//===----------------------------------------------------------------------===//

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Files.h"
#include "kerf/Train/StateFolder.h"
#include "kerf/Train/Text.h"
#include "kerf/Train/job/MemoryFolder.h"
#include "kerf/Train/job/PeerCopies.h"

#include <algorithm>

using namespace kerf::runtime;

namespace {
/// For each rank a bit for each file, as numbers that a double holds.
class Marks {
public:
  explicit Marks(size_t files) : files(files) {}
  size_t words() const { return (files + kBits - 1) / kBits; }
  std::vector<double> pack(const std::vector<bool> &marks) const {
    std::vector<double> numbers(words(), 0.0);
    for (size_t i = 0; i < files; ++i)
      if (marks[i])
        numbers[i / kBits] += static_cast<double>(UINT64_C(1) << i % kBits);
    return numbers;
  }
  static bool has(const double *numbers, size_t file) {
    return static_cast<uint64_t>(numbers[file / kBits]) >> file % kBits & 1;
  }

private:
  static constexpr size_t kBits = 48;
  size_t files;
};

struct Transfer {
  uint32_t file, from, to;
};

class Fetch {
public:
  /// `path`: of the copy.
  Fetch(kerf_session *session, uint32_t ranks, const StateReader &copy,
        const std::string &path)
      : session(session), files(copy.files()), states(parentFolder(path)),
        memory(memoryFolder(idOfCopy(path))),
        folder(filesOfCopy(idOfCopy(path), path)),
        rank(kerf_session_rank(session)), ranks(ranks) {}

  bool run(const std::vector<bool> &needed, std::string &missing,
           std::string &error);
  kerf_error failure{};

private:
  bool gather(const std::vector<bool> &needed, std::string &error);
  bool plan(std::vector<Transfer> &transfers, std::string &missing) const;
  bool move(const Transfer &transfer, std::string &problem);
  bool check(kerf_status code, std::string &error);
  bool hasFile(uint32_t file) const;

  kerf_session *session;
  const std::vector<IndexedFile> &files;
  std::string states, memory, folder; ///< `folder`: of the files
  uint32_t rank, ranks;
  MachineMap machines;
  size_t width = 0;        ///< numbers of a rank
  std::vector<double> all; ///< marks of what each rank has, then needs
};
} // namespace

bool Fetch::check(kerf_status code, std::string &error) {
  if (code != KERF_OK)
    error = failure.message;
  return code == KERF_OK;
}

bool Fetch::hasFile(uint32_t file) const {
  MappedFile own;
  std::string error;
  return own.open(joinPath(folder, files[file].name), error) &&
         own.size() == files[file].bytes;
}

bool Fetch::gather(const std::vector<bool> &needed, std::string &error) {
  std::vector<std::string> names;
  if (!check(gatherMachines(session, ranks, names, failure), error))
    return false;
  machines = MachineMap(names);
  std::vector<bool> present(files.size());
  for (uint32_t file = 0; file < files.size(); ++file)
    present[file] = hasFile(file);
  Marks marks(files.size());
  std::vector<double> own = marks.pack(present);
  for (double number : marks.pack(needed))
    own.push_back(number);
  width = own.size();
  all.resize(width * ranks);
  return check(kerf_session_gather(session, own.data(),
                                   static_cast<uint32_t>(width), all.data(),
                                   &failure),
               error);
}

/// False where a file that is needed is nowhere: the first such.
bool Fetch::plan(std::vector<Transfer> &transfers, std::string &missing) const {
  auto has = [&](uint32_t r, uint32_t file) {
    return Marks::has(&all[r * width], file);
  };
  auto needs = [&](uint32_t r, uint32_t file) {
    return Marks::has(&all[r * width + width / 2], file);
  };
  for (uint32_t file = 0; file < files.size(); ++file) {
    std::vector<uint32_t> holders;
    for (uint32_t r = 0; r < ranks; ++r)
      if (has(r, file))
        holders.push_back(r);
    for (const std::vector<uint32_t> &own : machines.ranks) {
      auto to = std::find_if(own.begin(), own.end(),
                             [&](uint32_t r) { return needs(r, file); });
      if (to == own.end() || has(*to, file))
        continue;
      if (holders.empty()) {
        missing = files[file].name;
        return false;
      }
      transfers.push_back({file, holders[file % holders.size()], *to});
    }
  }
  return true;
}

/// Sends or receives a whole file. What cannot be read or written is told
/// later: the other side waits for all bytes.
bool Fetch::move(const Transfer &transfer, std::string &problem) {
  constexpr uint64_t partBytes = 4 << 20;
  const IndexedFile &file = files[transfer.file];
  std::string path = joinPath(folder, file.name);
  bool isSender = transfer.from == rank;
  MappedFile source;
  OutputFile target;
  bool isOpen = isSender ? source.open(path, problem)
                         : makeMemory(memory, states, problem) &&
                               makeFolder(folder, problem) &&
                               target.open(path, problem);
  std::vector<char> buffer(isSender ? 0 : partBytes), zeros;
  for (uint64_t at = 0; at < file.bytes; at += partBytes) {
    uint64_t bytes = std::min(partBytes, file.bytes - at);
    if (isSender && !isOpen)
      zeros.resize(bytes);
    const void *data = !isSender ? nullptr
                       : isOpen  ? static_cast<const void *>(source.data() + at)
                                 : zeros.data();
    kerf_status code =
        isSender
            ? kerf_session_send(session, transfer.to, data, bytes, &failure)
            : kerf_session_receive(session, transfer.from, buffer.data(), bytes,
                                   &failure);
    if (!check(code, problem))
      return false;
    if (!isSender && isOpen)
      isOpen = target.write(buffer.data(), bytes, problem);
  }
  if (!isSender && isOpen)
    (void)target.commit(problem);
  return true;
}

bool Fetch::run(const std::vector<bool> &needed, std::string &missing,
                std::string &error) {
  std::vector<Transfer> transfers;
  if (!gather(needed, error) || !plan(transfers, missing))
    return false;
  std::string problem;
  for (const Transfer &transfer : transfers)
    if ((transfer.from == rank || transfer.to == rank) &&
        !move(transfer, problem)) {
      error = problem;
      return false;
    }
  // Also ranks that need what another rank of their machine fetched wait here.
  int32_t worst = problem.empty() ? 0 : 1;
  if (!check(kerf_session_agree_max(session, &worst, &failure), error))
    return false;
  error = problem;
  return worst == 0;
}

bool kerf::runtime::fetchCopy(kerf_session *session,
                              const kerf_artifact *artifact,
                              const StateReader &copy, const std::string &path,
                              kerf_error &failure, std::string &error) {
  uint32_t rank = kerf_session_rank(session);
  std::string missing;
  auto ranks = static_cast<uint32_t>(kerf_artifact_meta(artifact)->world_size);
  Fetch fetch(session, ranks, copy, path);
  bool isWhole = fetch.run(copy.filesOf(artifact, rank), missing, error);
  failure = fetch.failure;
  if (missing.empty())
    return isWhole;
  if (rank != 0)
    return false;
  forgetCopies(parentFolder(path));
  std::optional<SavedStep> newest = newestState(parentFolder(path));
  error = quote(path) +
          " was in the memory of machines that are gone: " + quote(missing) +
          " is on none; " +
          (newest ? "the newest state is " + quote(newest->path)
                  : "there is no other state");
  return false;
}
