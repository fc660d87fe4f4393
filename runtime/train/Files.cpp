//===- Files.cpp - read by mapping, write by rename -----------------------===//

#include "kerf/Train/Files.h"

#include "kerf/Train/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::runtime;

static bool failWith(const char *what, const std::string &path, int code,
                     std::string &error) {
  error =
      std::string("cannot ") + what + " " + quote(path) + ": " + strerror(code);
  return false;
}

//===----------------------------------------------------------------------===//
// MappedFile
//===----------------------------------------------------------------------===//

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(bytes, other.bytes);
  std::swap(length, other.length);
  std::swap(name, other.name);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes)
    munmap(const_cast<uint8_t *>(bytes), length);
}

bool MappedFile::open(const std::string &path, std::string &error) {
  // A pipe is refused below; opening it must not wait for a writer.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0)
    return failWith("open", path, errno, error);
  struct stat status;
  int code = fstat(descriptor, &status) == 0 ? 0 : errno;
  void *memory = nullptr;
  bool isRegular = code == 0 && S_ISREG(status.st_mode);
  if (isRegular && status.st_size > 0) {
    memory =
        mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    code = memory == MAP_FAILED ? errno : 0;
  }
  close(descriptor);
  if (code != 0)
    return failWith("read", path, code, error);
  if (!isRegular) {
    error = "cannot read " + quote(path) + ": expected a regular file" +
            (S_ISDIR(status.st_mode) ? ", found a folder" : "");
    return false;
  }
  *this = MappedFile();
  bytes = static_cast<const uint8_t *>(memory);
  length = status.st_size;
  name = path;
  return true;
}

void MappedFile::adviseRandom() const {
  if (bytes)
    madvise(const_cast<uint8_t *>(bytes), length, MADV_RANDOM);
}

//===----------------------------------------------------------------------===//
// OutputFile
//===----------------------------------------------------------------------===//

/// Bytes of a write. Direct ones begin and end at multiples of a page, and wait
/// for the disk: they must be large.
static constexpr uint64_t bufferBytes = 8 << 20;
static constexpr uint64_t pageBytes = 4096;
static constexpr uint64_t directBytes = 1 << 20; ///< that need no buffer

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(buffer, other.buffer);
  std::swap(buffered, other.buffered);
  std::swap(descriptor, other.descriptor);
  std::swap(lock, other.lock);
  std::swap(special, other.special);
  std::swap(target, other.target);
  std::swap(temporary, other.temporary);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    close(descriptor);
  if (!temporary.empty())
    unlink(temporary.c_str());
  if (lock >= 0)
    close(lock);
}

static constexpr char kTemporary[] = ".tmp-"; // a process number follows

/// Whether an open file still has a name.
static bool isNamed(int descriptor, const std::string &name) {
  struct stat open{}, named{};
  return fstat(descriptor, &open) == 0 && lstat(name.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// Removes temporary files of `path` that nobody holds: a process that is
/// killed while it saves leaves one, as large as what it saved. Runs on several
/// machines that save to one path must not share a file system whose locks hold
/// on one machine alone.
static void removeAbandoned(const std::string &path) {
  std::string folder = parentFolder(path);
  std::string start = path.substr(path.rfind('/') + 1) + kTemporary;
  for (const std::string &name : listFolder(folder)) {
    if (name.compare(0, start.size(), start) != 0 ||
        name.find_first_not_of("0123456789", start.size()) != std::string::npos)
      continue;
    std::string file = joinPath(folder, name);
    int held = ::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (held < 0)
      continue;
    // Its owner may have put it in place and started the next one meanwhile.
    if (flock(held, LOCK_EX | LOCK_NB) == 0 && isNamed(held, file))
      unlink(file.c_str());
    close(held);
  }
}

bool OutputFile::fail(const char *what, int code, std::string &error) {
  return failWith(what, target, code, error);
}

std::string kerf::runtime::behindLinks(const std::string &path) {
  constexpr int kMostLinks = 40; // as the system follows
  std::string found = path;
  for (int links = 0; links < kMostLinks; ++links) {
    char to[4096];
    ssize_t length = readlink(found.c_str(), to, sizeof to);
    if (length <= 0 || length == sizeof to)
      break;
    std::string next(to, length);
    found = next[0] == '/' ? next : joinPath(parentFolder(found), next);
  }
  return found;
}

bool kerf::runtime::isSpecialFile(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISDIR(status.st_mode);
}

bool OutputFile::open(const std::string &path, std::string &error) {
  *this = OutputFile();
  target = path;
  if (isFolder(path))
    return fail("write", EISDIR, error);
  if (isSpecialFile(path)) {
    special = true;
    descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    return descriptor >= 0 || fail("write", errno, error);
  }
  removeAbandoned(path);
  std::string name;
  // Names are taken by processes of other machines that have this number.
  for (int attempt = 0; descriptor < 0 && attempt < 100; ++attempt) {
    name = path + kTemporary + std::to_string(getpid()) +
           (attempt ? "0" + std::to_string(attempt) : "");
    descriptor = ::open(
        name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST)
      break;
  }
  if (descriptor < 0)
    return fail("write", errno, error);
  temporary = std::move(name);
  // Not `descriptor` itself, which is closed before the file is in place.
  lock = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  flock(lock, LOCK_EX | LOCK_NB);
  return true;
}

/// Not all file systems know direct writes.
static bool setDirect(int descriptor, bool isDirect) {
#ifdef O_DIRECT
  int flags = fcntl(descriptor, F_GETFL);
  int wanted = isDirect ? flags | O_DIRECT : flags & ~O_DIRECT;
  return flags >= 0 &&
         (wanted == flags || fcntl(descriptor, F_SETFL, wanted) == 0);
#else
  return !isDirect;
#endif
}

/// Writes bytes that lie and end at pages; the last part may end anywhere, and
/// is written through the page cache, as is what the disk takes no direct write
/// of.
bool OutputFile::put(const char *next, uint64_t size, bool isLast,
                     std::string &error) {
  isLast |= special;
  setDirect(descriptor, !isLast);
  for (const char *end = next + size; next < end;) {
    ssize_t written =
        ::write(descriptor, next, std::min<uint64_t>(end - next, bufferBytes));
    if (written < 0 && errno == EINTR)
      continue;
    bool isRefused = written < 0 && (errno == EINVAL || errno == EFAULT ||
                                     errno == EOPNOTSUPP);
    if (isRefused && !isLast) {
      isLast = true;
      setDirect(descriptor, false);
      continue;
    }
    if (written <= 0)
      return fail("write", written < 0 ? errno : ENOSPC, error);
    next += written;
    if (written % pageBytes != 0) {
      isLast = true;
      setDirect(descriptor, false);
    }
  }
  return true;
}

bool OutputFile::flush(bool isLast, std::string &error) {
  return put(buffer.get(), std::exchange(buffered, 0), isLast, error);
}

bool OutputFile::write(const void *data, uint64_t size, std::string &error) {
  if (!buffer) {
    buffer.reset(
        static_cast<char *>(std::aligned_alloc(pageBytes, bufferBytes)));
    if (!buffer)
      return fail("write", ENOMEM, error);
  }
  const char *next = static_cast<const char *>(data);
  while (size > 0) {
    // Of large parts that lie as the disk wants them, only what the last page
    // lacks is copied.
    uint64_t lacking = (pageBytes - buffered % pageBytes) % pageBytes;
    bool isApart = size >= lacking + directBytes &&
                   reinterpret_cast<uintptr_t>(next + lacking) % pageBytes == 0;
    if (isApart && buffered == 0) {
      uint64_t whole = size / pageBytes * pageBytes;
      if (!put(next, whole, /*isLast=*/false, error))
        return false;
      next += whole;
      size -= whole;
      continue;
    }
    uint64_t taken = isApart ? lacking : std::min(size, bufferBytes - buffered);
    std::memcpy(buffer.get() + buffered, next, taken);
    buffered += taken;
    next += taken;
    size -= taken;
    if ((isApart || buffered == bufferBytes) && !flush(/*isLast=*/false, error))
      return false;
  }
  return true;
}

bool OutputFile::finish(std::string &error) {
  if (!flush(/*isLast=*/true, error))
    return false;
  buffer.reset();
  int code = special || fsync(descriptor) == 0 ? 0 : errno;
  if (close(descriptor) != 0 && code == 0)
    code = errno;
  descriptor = -1;
  return code == 0 || fail("write", code, error);
}

bool OutputFile::publish(std::string &error) {
  if (special)
    return true;
  if (rename(temporary.c_str(), target.c_str()) != 0)
    return fail("write", errno, error);
  temporary.clear();
  close(lock);
  lock = -1;
  // The rename itself becomes durable with the folder.
  int folder =
      ::open(parentFolder(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
  return true;
}

bool OutputFile::commit(std::string &error) {
  return finish(error) && publish(error);
}

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

bool kerf::runtime::writeFile(const std::string &path, std::string_view text,
                              std::string &error) {
  OutputFile file;
  return file.open(path, error) &&
         file.write(text.data(), text.size(), error) && file.commit(error);
}

bool kerf::runtime::tryFile(const std::string &path, std::string &error) {
  // Who reads a pipe would take it for ended when it is opened and closed.
  if (isSpecialFile(path))
    return access(path.c_str(), W_OK) == 0 ||
           failWith("write", path, errno, error);
  OutputFile file;
  return file.open(path, error) && file.write("", 1, error) &&
         file.finish(error);
}

bool kerf::runtime::makeFolder(const std::string &path, std::string &error) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST)
      return failWith("make the folder", path, errno, error);
    if (at == std::string::npos)
      break;
  }
  return isFolder(path) || failWith("make the folder", path, ENOTDIR, error);
}

std::string kerf::runtime::joinPath(const std::string &folder,
                                    const std::string &name) {
  return endsWith(folder, "/") ? folder + name : folder + "/" + name;
}

std::string kerf::runtime::parentFolder(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool kerf::runtime::isFolder(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool kerf::runtime::fileExists(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

bool kerf::runtime::isSameFile(const std::string &a, const std::string &b) {
  struct stat first{}, second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

std::vector<std::string> kerf::runtime::listFolder(const std::string &path) {
  std::vector<std::string> names;
  if (DIR *folder = opendir(path.c_str())) {
    while (const dirent *entry = readdir(folder))
      if (std::string name = entry->d_name; name != "." && name != "..")
        names.push_back(std::move(name));
    closedir(folder);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void kerf::runtime::removeFile(const std::string &path) {
  unlink(path.c_str());
}
