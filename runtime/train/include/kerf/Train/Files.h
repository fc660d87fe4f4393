//===- Files.h - read by mapping, write by rename ---------------*- C++ -*-===//
//
// A file that is written appears whole or not at all: the bytes go to a
// temporary file beside it, reach the disk (fsync), and one rename puts it in
// place. Large ones go past the system's page cache where the file system knows
// how (O_DIRECT): through it a gigabyte takes 0.7 s of a processor that
// training wants, too. Errors are one line with the path in quotes.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_FILES_H
#define KERF_TRAIN_FILES_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

/// A regular file mapped for reading; unmapped with the object.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// Maps `path`. Fails if it is missing, unreadable or no regular file. An
  /// empty file is fine.
  [[nodiscard]] bool open(const std::string &path, std::string &error);
  /// Tells the system that the bytes are read here and there.
  void adviseRandom() const;

  const uint8_t *data() const { return bytes; }
  uint64_t size() const { return length; }
  const std::string &path() const { return name; }

private:
  const uint8_t *bytes = nullptr;
  uint64_t length = 0;
  std::string name;
};

/// A file that is being written.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(OutputFile &&other) noexcept { *this = std::move(other); }
  OutputFile &operator=(OutputFile &&other) noexcept;
  /// Removes the temporary file unless `commit` succeeded.
  ~OutputFile();

  /// Opens a temporary file in the folder of `path`, which must exist. Removes
  /// those that killed processes left there of the same `path`. What exists and
  /// is no regular file (/dev/null, a pipe) is written to directly.
  [[nodiscard]] bool open(const std::string &path, std::string &error);
  /// Appends. What the disk says of the last bytes `finish` tells.
  [[nodiscard]] bool write(const void *data, uint64_t size, std::string &error);
  /// Makes the file durable and puts it in place of `path`. On failure `path`
  /// is as it was.
  [[nodiscard]] bool commit(std::string &error);
  /// The two halves of `commit`, for files that appear together.
  [[nodiscard]] bool finish(std::string &error);
  [[nodiscard]] bool publish(std::string &error);

private:
  bool fail(const char *what, int code, std::string &error);
  bool put(const char *next, uint64_t size, bool isLast, std::string &error);
  bool flush(bool isLast, std::string &error);

  struct Free {
    void operator()(char *memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> buffer; ///< aligned as direct writes need it
  uint64_t buffered = 0;
  bool special = false; ///< no regular file: nothing to put in place
  int descriptor = -1;
  int lock = -1; ///< held on the temporary file until it is published
  std::string target, temporary;
};

/// Whether `path` can be written: makes a temporary file beside it that does
/// not stay. What is at `path` is not touched.
[[nodiscard]] bool tryFile(const std::string &path, std::string &error);

/// Whether a pipe or a device is at `path`: something that is written to, not
/// replaced.
bool isSpecialFile(const std::string &path);

/// What a symbolic link leads to, whether it is there or not; a path that is
/// none as it is. For files that people name: links in folders that are saved
/// are replaced, since what they lead to belongs to others.
std::string behindLinks(const std::string &path);

/// Writes `text` to `path` by rename.
[[nodiscard]] bool writeFile(const std::string &path, std::string_view text,
                             std::string &error);
/// Makes the folder `path` and its parents; fine if it exists.
[[nodiscard]] bool makeFolder(const std::string &path, std::string &error);
/// `folder`/`name`.
std::string joinPath(const std::string &folder, const std::string &name);
/// The folder of `path`, "." if it names none.
std::string parentFolder(const std::string &path);
bool isFolder(const std::string &path);
bool fileExists(const std::string &path);
/// Whether two paths name one file or folder.
bool isSameFile(const std::string &a, const std::string &b);
/// Names of the entries of a folder, sorted, without "." and ".."; none if it
/// cannot be read.
std::vector<std::string> listFolder(const std::string &path);
/// Removes a file; fine if there is none.
void removeFile(const std::string &path);

} // namespace kerf::runtime

#endif // KERF_TRAIN_FILES_H
