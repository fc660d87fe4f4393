//===- HostTensor.h - a tensor value of the reference semantics -----------===//

#ifndef KERF_INTERFACES_HOSTTENSOR_H
#define KERF_INTERFACES_HOSTTENSOR_H

#include "mlir/IR/BuiltinTypes.h"

#include <vector>

namespace kerf {

/// A dense row-major tensor. Every element is held as f64, which represents
/// all values of f32, bf16, f16, 8-bit floats, i32, i8 and i1 exactly.
struct HostTensor {
  mlir::RankedTensorType type;
  std::vector<double> data;

  HostTensor() = default;
  /// A tensor of zeros.
  explicit HostTensor(mlir::RankedTensorType type)
      : type(type), data(type.getNumElements(), 0.0) {}

  llvm::ArrayRef<int64_t> shape() const { return type.getShape(); }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
};

/// Row-major strides, in elements.
llvm::SmallVector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape);

/// Calls `body` with every index of `shape`, in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> body);

/// Rounds `value` to the nearest value of `type`, ties to even. Integers wrap
/// to their width. `f64Compute` leaves floats as they are.
double roundToType(double value, mlir::Type type, bool f64Compute);
/// The same for many.
void roundToType(llvm::MutableArrayRef<double> values, mlir::Type type,
                 bool f64Compute);

} // namespace kerf

#endif // KERF_INTERFACES_HOSTTENSOR_H
