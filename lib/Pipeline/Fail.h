//===- Fail.h - errors of the command line --------------------------------===//

#ifndef KERF_LIB_PIPELINE_FAIL_H
#define KERF_LIB_PIPELINE_FAIL_H

#include "kerf/Support/Output.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

namespace kerf {

/// What `fail` returns: exit status 1, or a failure.
struct Failed {
  operator int() const { return 1; }
  operator llvm::LogicalResult() const { return llvm::failure(); }
  template <typename T> operator llvm::FailureOr<T>() const {
    return llvm::failure();
  }
};

/// Prints an error that has no position in a file.
inline Failed fail(const llvm::Twine &message) {
  llvm::WithColor::error() << message << '\n';
  return {};
}

/// Writes a whole file, or prints why it cannot.
inline llvm::LogicalResult writeText(llvm::StringRef path,
                                     llvm::StringRef text) {
  std::string error;
  auto print = [&](llvm::raw_ostream &os) { os << text; };
  if (llvm::succeeded(writeFileAtomically(path, print, error)))
    return llvm::success();
  return fail("cannot write '" + path + "': " + error);
}

} // namespace kerf

#endif // KERF_LIB_PIPELINE_FAIL_H
