//===- Output.h - Write files whole or not at all ---------------*- C++ -*-===//

#ifndef KERF_SUPPORT_OUTPUT_H
#define KERF_SUPPORT_OUTPUT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"

#include <string>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace kerf {

/// Writes what `writer` prints to the file `path`. Readers see the old file or
/// the whole new one, never a part: the text goes to a temporary file beside
/// `path`, is flushed to the disk and renamed. On failure (also a full disk)
/// and on an interrupt the temporary file is removed and an existing `path` is
/// left as it was; on failure `error` holds one line without a path.
///
/// - "-" writes to standard output.
/// - A symbolic link is followed; permissions of an existing file are kept.
/// - What exists and is no regular file (/dev/null, a pipe) is written to
///   directly; a directory is refused.
[[nodiscard]] llvm::LogicalResult
writeFileAtomically(llvm::StringRef path,
                    llvm::function_ref<void(llvm::raw_ostream &)> writer,
                    std::string &error);

/// "there is no folder 'none'" where the folder that `path` is to be in does
/// not exist; else "". For a check before the work is done.
std::string checkFolderOf(llvm::StringRef path);

} // namespace kerf

#endif // KERF_SUPPORT_OUTPUT_H
