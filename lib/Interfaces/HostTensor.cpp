#include "kerf/Interfaces/HostTensor.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>

using namespace kerf;

llvm::SmallVector<int64_t> kerf::stridesOf(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

void kerf::forEachIndex(
    llvm::ArrayRef<int64_t> shape,
    llvm::function_ref<void(llvm::ArrayRef<int64_t>)> body) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    body(index);
    int64_t d = static_cast<int64_t>(shape.size()) - 1;
    while (d >= 0 && ++index[d] == shape[d])
      index[d--] = 0;
    if (d < 0)
      return;
  }
}

static double roundToSemantics(double value, const llvm::fltSemantics &to) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(to, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  number.convert(llvm::APFloat::IEEEdouble(),
                 llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

/// To a type without infinities in use: what is too large becomes its largest
/// number.
static double saturate(double value, const llvm::fltSemantics &to) {
  if (std::isnan(value))
    return value;
  double largest = llvm::APFloat::getLargest(to).convertToDouble();
  return roundToSemantics(std::clamp(value, -largest, largest), to);
}

template <typename Integer> static double wrapInteger(double value) {
  if (!std::isfinite(value))
    return 0.0;
  double wrapped = std::fmod(std::trunc(value), 4294967296.0);
  return static_cast<Integer>(
      static_cast<uint32_t>(static_cast<int64_t>(wrapped)));
}

double kerf::roundToType(double value, mlir::Type type, bool f64Compute) {
  if (type.isInteger(1))
    return value != 0.0 ? 1.0 : 0.0;
  if (type.isInteger(32))
    return wrapInteger<int32_t>(value);
  if (type.isInteger(8))
    return wrapInteger<int8_t>(value);
  if (f64Compute || type.isF64())
    return value;
  if (type.isF32())
    return static_cast<float>(value);
  const llvm::fltSemantics &semantics =
      llvm::cast<mlir::FloatType>(type).getFloatSemantics();
  return type.getIntOrFloatBitWidth() == 8 ? saturate(value, semantics)
                                           : roundToSemantics(value, semantics);
}
