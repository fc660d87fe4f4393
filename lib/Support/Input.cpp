#include "kerf/Support/Input.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace kerf;
namespace fs = llvm::sys::fs;

/// Reads a pipe to its end. Opening one without a writer would wait for ever.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readPipe(llvm::StringRef path) {
  int file = ::open(path.str().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return llvm::createStringError(std::strerror(errno));
  llvm::scope_exit closing([&] { ::close(file); });
  std::string text;
  bool hasWriter = false;
  for (char part[1 << 14];;) {
    ssize_t got = ::read(file, part, sizeof part);
    if (got < 0 && errno == EAGAIN) // There is one: wait for it from now on.
      ::fcntl(file, F_SETFL, 0);
    else if (got < 0 && errno != EINTR)
      return llvm::createStringError(std::strerror(errno));
    if (got == 0 && !hasWriter)
      return llvm::createStringError(
          "is a pipe that nobody writes to, expected "
          "a file");
    if (got == 0)
      return llvm::MemoryBuffer::getMemBufferCopy(text, path);
    hasWriter = true;
    text.append(part, std::max<ssize_t>(got, 0));
  }
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
kerf::readFile(llvm::StringRef path) {
  fs::file_status status;
  // What is not there is told when it is read.
  if (!fs::status(path, status) &&
      (status.type() == fs::file_type::character_file ||
       status.type() == fs::file_type::block_file))
    return llvm::createStringError("is a device, expected a file or a pipe");
  if (status.type() == fs::file_type::fifo_file)
    return readPipe(path);
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(buffer.getError().message());
  return std::move(*buffer);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
kerf::readFileOrStdin(llvm::StringRef path) {
  if (path != "-")
    return readFile(path);
  if (::isatty(STDIN_FILENO))
    llvm::errs() << "note: reading standard input; Ctrl-D ends it\n";
  auto buffer = llvm::MemoryBuffer::getSTDIN();
  if (!buffer)
    return llvm::createStringError(buffer.getError().message());
  return std::move(*buffer);
}
