#include "kerf/Interfaces/HostTensor.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"

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

/// To the nearest number with `digits` bits behind the first one, ties to even,
/// of a value of those that have all of them: at least `least`, and at most
/// `most` when it is rounded. Others are rounded by APFloat.
static double roundToDigits(double value, int digits, double least, double most,
                            const llvm::fltSemantics &to) {
  uint64_t bits = llvm::bit_cast<uint64_t>(value);
  constexpr int kDigitsOfDouble = 52;
  int dropped = kDigitsOfDouble - digits;
  uint64_t half = (uint64_t(1) << (dropped - 1)) - 1;
  bits += half + ((bits >> dropped) & 1);
  double rounded =
      llvm::bit_cast<double>(bits & ~((uint64_t(1) << dropped) - 1));
  bool isPlain = std::abs(value) >= least && std::abs(rounded) <= most;
  return isPlain || value == 0 ? rounded : roundToSemantics(value, to);
}

static double roundToBf16(double value) {
  return roundToDigits(value, 7, 0x1p-126, 0x1.fep127, llvm::APFloat::BFloat());
}

static double roundToF16(double value) {
  return roundToDigits(value, 10, 0x1p-14, 65504, llvm::APFloat::IEEEhalf());
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
  if (type.isBF16())
    return roundToBf16(value);
  if (type.isF16())
    return roundToF16(value);
  const llvm::fltSemantics &semantics =
      llvm::cast<mlir::FloatType>(type).getFloatSemantics();
  return type.getIntOrFloatBitWidth() == 8 ? saturate(value, semantics)
                                           : roundToSemantics(value, semantics);
}

void kerf::roundToType(llvm::MutableArrayRef<double> values, mlir::Type type,
                       bool f64Compute) {
  auto roundAll = [&](auto round) {
    for (double &x : values)
      x = round(x);
  };
  // The type is looked at once.
  if (llvm::isa<mlir::FloatType>(type) && (f64Compute || type.isF64()))
    return;
  if (type.isF32())
    return roundAll([](double x) { return static_cast<float>(x); });
  if (type.isBF16())
    return roundAll(roundToBf16);
  if (type.isF16())
    return roundAll(roundToF16);
  roundAll([&](double x) { return roundToType(x, type, f64Compute); });
}
