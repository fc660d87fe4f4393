//===- Input.h - Read files whole -------------------------------*- C++ -*-===//

#ifndef KERF_SUPPORT_INPUT_H
#define KERF_SUPPORT_INPUT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace kerf {

/// Reads a file or a pipe to its end. A device is refused, since it may have no
/// end (`/dev/full`); so are a folder, and a pipe that has nothing and that
/// nobody has open for writing. The error is one line without the path.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readFile(llvm::StringRef path);

/// The same; "-" is standard input, whatever it is.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readFileOrStdin(llvm::StringRef path);

} // namespace kerf

#endif // KERF_SUPPORT_INPUT_H
