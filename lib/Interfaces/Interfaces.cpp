#include "kerf/Interfaces/Interfaces.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace kerf;

#include "kerf/Interfaces/KerfOpInterfaces.cpp.inc"

#include "kerf/Interfaces/KerfAttrInterfaces.cpp.inc"

static double bytesOfAll(TypeRange types) {
  double bytes = 0;
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      continue;
    unsigned bits = tensor.getElementTypeBitWidth();
    bytes += static_cast<double>(tensor.getNumElements()) * ((bits + 7) / 8);
  }
  return bytes;
}

OpCost kerf::costWithFlops(Operation *op, double matmulFlops,
                           double vectorFlops) {
  return {matmulFlops, /*attentionFlops=*/0, vectorFlops,
          bytesOfAll(op->getOperandTypes()), bytesOfAll(op->getResultTypes())};
}

OpCost kerf::pointwiseCost(Operation *op) {
  double elements = 0;
  for (Type type : op->getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      elements += tensor.getNumElements();
  return costWithFlops(op, 0, elements);
}
