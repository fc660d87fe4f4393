//===- Plugins.h - shared objects with dialects and passes ----------------===//

#ifndef KERF_LIB_PIPELINE_PLUGINS_H
#define KERF_LIB_PIPELINE_PLUGINS_H

#include "mlir/Support/LLVM.h"

namespace kerf {

/// Fails with a message if a shared object was not built against this version
/// of Kerf, by which it would be bound to other classes. Does not load it.
mlir::LogicalResult checkPlugin(llvm::StringRef path);

/// Checks all plug-ins that a command line of `kerf-opt` names, itself or in a
/// response file (`@file`), and registers their passes. MLIR loads plug-ins
/// while it reads the options, too late for passes to be options themselves.
mlir::LogicalResult readPlugins(llvm::ArrayRef<char *> given);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_PLUGINS_H
