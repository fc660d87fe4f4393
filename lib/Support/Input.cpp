#include "kerf/Support/Input.h"

#include "llvm/Support/FileSystem.h"

using namespace kerf;
namespace fs = llvm::sys::fs;

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
kerf::readFile(llvm::StringRef path) {
  fs::file_status status;
  // What is not there is told when it is read.
  if (!fs::status(path, status) &&
      (status.type() == fs::file_type::character_file ||
       status.type() == fs::file_type::block_file))
    return llvm::createStringError("is a device, expected a file or a pipe");
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(buffer.getError().message());
  return std::move(*buffer);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
kerf::readFileOrStdin(llvm::StringRef path) {
  if (path != "-")
    return readFile(path);
  auto buffer = llvm::MemoryBuffer::getSTDIN();
  if (!buffer)
    return llvm::createStringError(buffer.getError().message());
  return std::move(*buffer);
}
