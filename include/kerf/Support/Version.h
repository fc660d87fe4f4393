//===- Version.h - the version of Kerf ------------------------------------===//

#ifndef KERF_SUPPORT_VERSION_H
#define KERF_SUPPORT_VERSION_H

#include "llvm/ADT/StringRef.h"

namespace kerf {

/// "0.1.0".
llvm::StringRef getVersion();

/// Lets --version of a tool print "kerf 0.1.0, LLVM 22.1.8" instead of LLVM's
/// text. Call it before options are parsed.
void showOwnVersion();

} // namespace kerf

#endif // KERF_SUPPORT_VERSION_H
