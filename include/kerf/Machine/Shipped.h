//===- Shipped.h - descriptions that come with the compiler ---------------===//

#ifndef KERF_MACHINE_SHIPPED_H
#define KERF_MACHINE_SHIPPED_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kerf {

/// A file of examples/clusters, as it was when the compiler was built.
struct ShippedCluster {
  llvm::StringLiteral name; ///< "hgx-h100", of the file "hgx-h100.yaml"
  llvm::StringLiteral text; ///< YAML, for `readMachine`
};

/// All of them.
llvm::ArrayRef<ShippedCluster> shippedClusters();

/// The one of a name; null if there is none.
const ShippedCluster *findShippedCluster(llvm::StringRef name);

} // namespace kerf

#endif // KERF_MACHINE_SHIPPED_H
