//===- Link.cpp - from object files to a shared object --------------------===//

#include "Machine.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace kerf;

/// A folder that is removed in the end.
namespace {
struct TemporaryFolder {
  llvm::SmallString<128> path;
  std::error_code create() {
    return llvm::sys::fs::createUniqueDirectory("kerf-link", path);
  }
  std::string file(const llvm::Twine &name) const {
    llvm::SmallString<128> full(path);
    llvm::sys::path::append(full, name);
    return full.str().str();
  }
  ~TemporaryFolder() {
    if (!path.empty())
      llvm::sys::fs::remove_directories(path);
  }
};
} // namespace

static bool writeFile(const std::string &path, llvm::ArrayRef<char> bytes) {
  std::error_code code;
  llvm::raw_fd_ostream os(path, code);
  if (code)
    return false;
  os.write(bytes.data(), bytes.size());
  os.close();
  return !os.has_error();
}

FailureOr<std::string>
kerf::codegen::linkShared(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects,
                          std::string &error) {
  TemporaryFolder folder;
  if (std::error_code code = folder.create()) {
    error = "cannot make a temporary folder: " + code.message();
    return failure();
  }
  std::string output = folder.file("kernels.so");
  std::vector<std::string> arguments = {
      "ld.lld",      "-shared",     "--build-id=none", "--hash-style=gnu", "-z",
      "noexecstack", "--threads=1", "--strip-all",     "-soname=kernels",  "-o",
      output};
  for (auto [i, object] : llvm::enumerate(objects)) {
    arguments.push_back(folder.file(std::to_string(i) + ".o"));
    if (!writeFile(arguments.back(), object)) {
      error = "cannot write '" + arguments.back() + "'";
      return failure();
    }
  }
  std::vector<const char *> words;
  for (const std::string &argument : arguments)
    words.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream os(messages);
  static std::mutex lock; // lld has global state
  std::lock_guard<std::mutex> guard(lock);
  lld::Result result =
      lld::lldMain(words, os, os, {{lld::Gnu, &lld::elf::link}});
  auto buffer = llvm::MemoryBuffer::getFile(output);
  if (result.retCode != 0 || !buffer) {
    error = "linking kernels failed: " + messages;
    return failure();
  }
  return (*buffer)->getBuffer().str();
}
