//===- FoldingBuilder.h - ops whose results are worked out where known ----===//
//
// Graphs of JAX are full of arithmetic on sizes and indices: whether an index
// is negative, which part a mask hides, how many rows there are. What constants
// and ranges of integers say is worked out as the graph is built; what is left
// is the model.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_STABLEHLO_FOLDINGBUILDER_H
#define KERF_LIB_STABLEHLO_FOLDINGBUILDER_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <optional>

namespace kerf {

/// Smallest and largest number that an integer may be.
struct IntRange {
  int64_t low = INT32_MIN;
  int64_t high = INT32_MAX;
};

/// Builds plain ops at `plain.loc`. Element types are f32, i32 and i1.
class FoldingBuilder {
public:
  explicit FoldingBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : plain{builder, loc} {}

  PlainBuilder plain;

  using Shape = llvm::ArrayRef<int64_t>;

  mlir::RankedTensorType type(Shape shape, mlir::Type element) const {
    return mlir::RankedTensorType::get(shape, element);
  }
  mlir::Type f32() const { return plain.builder.getF32Type(); }
  mlir::Type i32() const { return plain.builder.getI32Type(); }
  mlir::Type i1() const { return plain.builder.getI1Type(); }

  /// All elements are `value`. A number that f32 has not is written as f64 and
  /// cast: the type of training rounds it.
  mlir::Value splat(Shape shape, mlir::Type element, double value);
  mlir::Value truth(Shape shape, bool value) {
    return splat(shape, i1(), value);
  }
  /// The elements of an attribute; a rule of positions where they follow one
  /// (an arithmetic series along one dimension, a triangle of truth values,
  /// cosines or sines of positions times frequencies). Null where they follow
  /// none and there are too many to write.
  mlir::Value table(mlir::DenseElementsAttr elements);

  /// The largest f32 in place of what f64 alone has: masks are filled with it.
  static double inRange(double value);

  /// The number that all elements are, if it is known.
  static std::optional<double> splatOf(mlir::Value value);
  IntRange rangeOf(mlir::Value value) const;
  void setRange(mlir::Value value, IntRange range) { ranges[value] = range; }
  /// Whether f32 has all sums of so many of a value's elements, which are
  /// floats or whole numbers.
  bool isExact(mlir::Value value, int64_t count = 1) const;
  /// True where no element is negative, whatever the parameters are.
  static bool isNonNegative(mlir::Value value, int depth = 8);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value neg(mlir::Value x);
  mlir::Value abs(mlir::Value x);
  /// log(1 + x) and e^x - 1 with the digits of a small x.
  mlir::Value logOnePlus(mlir::Value x);
  mlir::Value expMinusOne(mlir::Value x);
  mlir::Value compare(CompareKind kind, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value either(mlir::Value a, mlir::Value b);
  mlir::Value negation(mlir::Value a);
  mlir::Value cast(mlir::Value x, mlir::Type element);

  /// `x` as a constant; itself where no parameter that is trained makes it.
  mlir::Value stopGradient(mlir::Value x);

  mlir::Value iota(Shape shape, int64_t dim);
  mlir::Value reshape(mlir::Value x, Shape shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  /// Dimension i of x is dimension `dims[i]` of the result, of size 1 or its
  /// size.
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> dims,
                        Shape shape);
  mlir::Value slice(mlir::Value x, Shape offsets, Shape sizes);
  mlir::Value concat(int64_t dim, llvm::ArrayRef<mlir::Value> parts);
  mlir::Value pad(mlir::Value x, llvm::ArrayRef<int64_t> low,
                  llvm::ArrayRef<int64_t> high);
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> dims);
  mlir::Value largest(mlir::Value x, llvm::ArrayRef<int64_t> dims);
  /// Truth values [..., size]: which element of the last dimension is `index`.
  mlir::Value chosen(mlir::Value index, int64_t size);

private:
  /// `fold` of two known numbers, as a value of the type of `a`; null else.
  mlir::Value foldNumbers(mlir::Value a, mlir::Value b,
                          llvm::function_ref<double(double, double)> fold);
  mlir::Value withRange(mlir::Value value, IntRange range) {
    ranges[value] = range;
    return value;
  }
  /// The view of a value has its range.
  mlir::Value view(mlir::Value of, mlir::Value made) {
    if (auto it = ranges.find(of); it != ranges.end()) {
      IntRange range = it->second;
      ranges[made] = range;
    }
    return made;
  }

  llvm::DenseMap<mlir::Value, IntRange> ranges;
};

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_FOLDINGBUILDER_H
