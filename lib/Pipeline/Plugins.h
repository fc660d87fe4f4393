//===- Plugins.h - shared objects with dialects and passes ----------------===//

#ifndef KERF_LIB_PIPELINE_PLUGINS_H
#define KERF_LIB_PIPELINE_PLUGINS_H

#include "mlir/Support/LLVM.h"

namespace kerf {

/// Fails with a message if a shared object was not built against this version
/// of Kerf, by which it would be bound to other classes. Does not load it.
mlir::LogicalResult checkPlugin(llvm::StringRef path);

/// The same for all plug-ins that a command line of `kerf-opt` names, itself or
/// in a response file (`@file`): MLIR loads them while it reads the options.
mlir::LogicalResult checkPlugins(llvm::ArrayRef<char *> given);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_PLUGINS_H
