//===- Shipped.cpp - descriptions that come with the compiler -------------===//

#include "kerf/Machine/Shipped.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;

static constexpr ShippedCluster kClusters[] = {
#include "ShippedClusters.inc"
};

llvm::ArrayRef<ShippedCluster> kerf::shippedClusters() { return kClusters; }

const ShippedCluster *kerf::findShippedCluster(llvm::StringRef name) {
  const auto *found = llvm::find_if(
      kClusters, [&](const ShippedCluster &each) { return each.name == name; });
  return found == std::end(kClusters) ? nullptr : found;
}
