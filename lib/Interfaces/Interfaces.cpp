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

std::optional<LibraryCall> kerf::libraryCallOf(Operation *op) {
  auto library = dyn_cast_or_null<LibraryOpInterface>(op);
  return library ? std::optional(library.getLibraryCall()) : std::nullopt;
}

bool kerf::isConversion(Operation *op) {
  auto scalar = dyn_cast_or_null<ScalarOpInterface>(op);
  return scalar && scalar.isConversion();
}

bool kerf::isConstant(Operation *op) {
  return op && op->hasTrait<OpTrait::ConstantLike>();
}

Attribute RowOrders::of(Value value) {
  llvm::SmallVector<int64_t> dims;
  int64_t rank = llvm::cast<RankedTensorType>(value.getType()).getRank();
  for (int64_t d = 0; d < rank; ++d)
    if (has(value, d))
      dims.push_back(d);
  return dims.empty() ? Attribute() : along(dims);
}

SizeName SizeName::last(Value value) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  return {value, static_cast<unsigned>(type.getRank() - 1)};
}
