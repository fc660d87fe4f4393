//===- Output.cpp - Write files whole or not at all -----------------------===//

#include "kerf/Support/Output.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <unistd.h>

using namespace kerf;
namespace fs = llvm::sys::fs;
using llvm::failure;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using Writer = llvm::function_ref<void(llvm::raw_ostream &)>;

/// Flushes `os` and returns its error, which is cleared: the destructor of a
/// stream with a pending error ends the program.
static std::error_code takeError(llvm::raw_fd_ostream &os) {
  os.flush();
  std::error_code code = os.error();
  os.clear_error();
  return code;
}

static LogicalResult report(std::error_code code, StringRef action,
                            std::string &error) {
  if (!code)
    return success();
  error = (action + ": " + code.message()).str();
  return failure();
}

static LogicalResult writeToStream(llvm::raw_fd_ostream &os, Writer writer,
                                   std::string &error) {
  writer(os);
  return report(takeError(os), "cannot write", error);
}

/// Writes to the open file `fd` and closes it in every case.
static std::error_code writeAndSync(int fd, Writer writer) {
  llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
  writer(os);
  std::error_code code = takeError(os);
  // EINVAL: a file system that knows no fsync.
  if (!code && ::fsync(fd) != 0 && errno != EINVAL)
    code = std::error_code(errno, std::generic_category());
  os.close();
  std::error_code closeCode = takeError(os);
  return code ? code : closeCode;
}

std::string kerf::checkFolderOf(StringRef path) {
  StringRef folder = llvm::sys::path::parent_path(path);
  return path == "-" || folder.empty() || fs::exists(folder)
             ? std::string()
             : "there is no folder '" + folder.str() + "'";
}

static LogicalResult replaceFile(StringRef target, const fs::file_status &old,
                                 Writer writer, std::string &error) {
  if (std::string missing = checkFolderOf(target); !missing.empty()) {
    error = missing;
    return failure();
  }
  int fd = -1;
  llvm::SmallString<128> temporary;
  if (std::error_code code =
          fs::createUniqueFile(target + ".tmp-%%%%%%%%", fd, temporary))
    return report(code, "cannot create a temporary file beside it", error);
  llvm::sys::RemoveFileOnSignal(temporary);

  LogicalResult result =
      report(writeAndSync(fd, writer), "cannot write", error);
  if (succeeded(result) && fs::exists(old))
    result = report(fs::setPermissions(temporary, old.permissions()),
                    "cannot set permissions", error);
  if (succeeded(result))
    result = report(fs::rename(temporary, target),
                    "cannot rename the temporary file", error);
  if (failed(result))
    fs::remove(temporary);
  llvm::sys::DontRemoveFileOnSignal(temporary);
  return result;
}

LogicalResult kerf::writeFileAtomically(StringRef path, Writer writer,
                                        std::string &error) {
  if (path == "-")
    return writeToStream(llvm::outs(), writer, error);

  fs::file_status old;
  std::error_code code = fs::status(path, old);
  if (code && code != std::errc::no_such_file_or_directory)
    return report(code, "cannot write", error);
  if (fs::is_directory(old))
    return report(std::make_error_code(std::errc::is_a_directory),
                  "cannot write", error);
  if (fs::exists(old) && !fs::is_regular_file(old)) {
    llvm::raw_fd_ostream os(path, code, fs::CD_OpenExisting);
    if (code)
      return report(code, "cannot open", error);
    return writeToStream(os, writer, error);
  }

  llvm::SmallString<128> target(path);
  if (fs::exists(old))
    if (std::error_code code = fs::real_path(path, target))
      return report(code, "cannot resolve", error);
  return replaceFile(target, old, writer, error);
}
