//===- HostTensorTest.cpp - rounding to a type ----------------------------===//

#include "kerf/Interfaces/HostTensor.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace kerf;

namespace {

double slowly(double value, const llvm::fltSemantics &to) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(to, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  number.convert(llvm::APFloat::IEEEdouble(),
                 llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

/// Numbers of all sizes, ties and their neighbours, the ends of ranges.
std::vector<double> samples() {
  std::vector<double> values = {
      0.0,      -0.0,  INFINITY, -INFINITY, NAN,        65504,     65519.9,
      65520,    65536, 0x1p-14,  0x1p-24,   0x1p-25,    0x1p-126,  0x1p-133,
      0x1p-134, 1e300, 1e-300,   5e-324,    0x1.fep127, 0x1.ffp127};
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i)
    values.push_back(llvm::bit_cast<double>(random()));
  for (int i = 0; i < 20000; ++i) {
    int exponent = static_cast<int>(random() % 60) - 30;
    auto digits = static_cast<double>(random() % 8192);
    double tie = std::ldexp(digits / 4096, exponent);
    values.insert(values.end(),
                  {tie, std::nextafter(tie, 0), std::nextafter(tie, 9e9)});
  }
  return values;
}

bool same(double a, double b) {
  return std::isnan(a)
             ? std::isnan(b)
             : llvm::bit_cast<uint64_t>(a) == llvm::bit_cast<uint64_t>(b);
}

// The short way to round is the long one, bit for bit, one by one and all.
TEST(HostTensor, RoundsAsAPFloat) {
  mlir::MLIRContext context;
  const std::pair<mlir::Type, const llvm::fltSemantics *> types[] = {
      {mlir::BFloat16Type::get(&context), &llvm::APFloat::BFloat()},
      {mlir::Float16Type::get(&context), &llvm::APFloat::IEEEhalf()},
      {mlir::Float32Type::get(&context), &llvm::APFloat::IEEEsingle()},
      {mlir::Float64Type::get(&context), &llvm::APFloat::IEEEdouble()}};
  for (auto [type, semantics] : types) {
    std::vector<double> values = samples(), all = values;
    roundToType(all, type, false);
    for (auto [value, rounded] : llvm::zip(values, all)) {
      ASSERT_TRUE(same(rounded, slowly(value, *semantics))) << value;
      ASSERT_TRUE(same(rounded, roundToType(value, type, false))) << value;
    }
  }
}

// In f64 floats stay, integers do not.
TEST(HostTensor, F64KeepsFloats) {
  mlir::MLIRContext context;
  std::vector<double> values = {0.1, 3.7, -2.2};
  roundToType(values, mlir::BFloat16Type::get(&context), true);
  EXPECT_EQ(values, std::vector<double>({0.1, 3.7, -2.2}));
  roundToType(values, mlir::IntegerType::get(&context, 32), true);
  EXPECT_EQ(values, std::vector<double>({0, 3, -2}));
}

} // namespace
