//===- Log.h - what components say of their decisions ---------------------===//
//
// `LDBG() << ...` of LLVM (llvm/Support/DebugLog.h) writes a line to standard
// error where the source's DEBUG_TYPE, a component's name, is switched on.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SUPPORT_LOG_H
#define KERF_SUPPORT_LOG_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace kerf {

/// Names of components that say what they decide: "search", "fuse", ...
llvm::ArrayRef<llvm::StringLiteral> logNames();

/// Switches lines of these components on. False where one is not known or the
/// build has no such lines; then `error` says what is.
bool enableLogs(llvm::ArrayRef<std::string> names, std::string &error);

/// The description of the option `--log`.
std::string describeLogOption();

} // namespace kerf

#endif // KERF_SUPPORT_LOG_H
