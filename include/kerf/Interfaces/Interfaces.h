//===- Interfaces.h - what a stage may ask of an op -----------------------===//

#ifndef KERF_INTERFACES_INTERFACES_H
#define KERF_INTERFACES_INTERFACES_H

#include "kerf/Interfaces/Factors.h"
#include "kerf/Interfaces/HostTensor.h"
#include "kerf/Interfaces/StateTensor.h"
#include "kerf/Interfaces/View.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace kerf {

/// One flop per result element, every operand read and result written once.
OpCost pointwiseCost(mlir::Operation *op);

/// `pointwiseCost` bytes with the given flops.
OpCost costWithFlops(mlir::Operation *op, double matmulFlops,
                     double vectorFlops);

/// How an op hands its gradient to differentiation. Implemented by
/// `lib/Differentiate`; ops see only this.
class GradientBuilder {
public:
  virtual ~GradientBuilder() = default;

  /// Builder at the place where gradient ops go.
  virtual mlir::OpBuilder &builder() = 0;

  /// Gradient of the loss with respect to `result`, of the result's type; zeros
  /// when the loss does not depend on it.
  virtual mlir::Value of(mlir::Value result) = 0;

  /// True when a gradient was handed over for `result`.
  virtual bool has(mlir::Value result) = 0;

  /// True when the loss depends on `operand` through a trainable parameter, so
  /// that `add` for it has an effect.
  virtual bool needs(mlir::Value operand) = 0;

  /// Adds `gradient` (shaped like `operand`) to the gradient of `operand`.
  virtual void add(mlir::Value operand, mlir::Value gradient) = 0;

  /// Replaces the forward op by one that returns more (values the gradient
  /// needs); the first results of `replacement` stand for those of `op`.
  virtual void replaceForward(mlir::Operation *op,
                              mlir::Operation *replacement) = 0;
};

/// How two numbers are compared.
enum class Relation { EQ, NE, LT, LE, GT, GE };

/// Arithmetic on an element inside a kernel. Implemented by `lib/Codegen`; ops
/// see only this.
class ScalarBuilder {
public:
  using Value = mlir::Value;
  virtual ~ScalarBuilder() = default;

  /// A number of the type of `like`.
  virtual Value number(Value like, double x) = 0;
  virtual Value add(Value a, Value b) = 0;
  virtual Value sub(Value a, Value b) = 0;
  virtual Value mul(Value a, Value b) = 0;
  /// Integers: rounded down, 0 by zero.
  virtual Value div(Value a, Value b) = 0;
  /// NaN if one is NaN.
  virtual Value max(Value a, Value b) = 0;
  virtual Value min(Value a, Value b) = 0;
  virtual Value pow(Value a, Value b) = 0;
  virtual Value neg(Value x) = 0;
  virtual Value exp(Value x) = 0;
  virtual Value log(Value x) = 0;
  virtual Value sqrt(Value x) = 0;
  virtual Value tanh(Value x) = 0;
  virtual Value erf(Value x) = 0;
  virtual Value sin(Value x) = 0;
  virtual Value cos(Value x) = 0;
  /// The smallest power of two that is not below |x|, of f32.
  virtual Value powerOfTwo(Value x) = 0;
  virtual Value compare(Relation relation, Value a, Value b) = 0;
  /// `condition ? a : b`.
  virtual Value select(Value condition, Value a, Value b) = 0;
  /// From an element type in memory to another.
  virtual Value cast(Value x, mlir::Type from, mlir::Type to) = 0;
};

/// What an op asks of a library.
enum class LibraryCall {
  Matmul,    ///< a contraction that is one strided matmul
  Attention, ///< of q, k, v
  AttentionGradient,
  GroupedMatmul,   ///< rows of experts times their weights
  GroupedGradient, ///< the weights' gradients
};

/// The order of rows that an op is told. Implemented by `lib/Partition`.
class RowOrders {
public:
  virtual ~RowOrders() = default;

  /// True when the dimension of the value has the rows.
  virtual bool has(mlir::Value value, int64_t dim) = 0;
  /// The order of rows along these dimensions of a tensor.
  virtual mlir::Attribute along(llvm::ArrayRef<int64_t> dims) = 0;
  /// The order along those dimensions of a value that have the rows; null when
  /// none has.
  mlir::Attribute of(mlir::Value value);
};

/// A dimension of a value, or, without one, a factor of the op that speaks.
struct SizeName {
  mlir::Value value;
  unsigned index = 0; ///< of the dimension, or of the factor
  /// The last dimension of a value.
  static SizeName last(mlir::Value value);
  static SizeName factor(unsigned index) { return {{}, index}; }
};

/// What ops ask of the sizes of a step. Implemented by `lib/Twin`.
class SizeDemands {
public:
  virtual ~SizeDemands() = default;

  /// It stays what it is.
  virtual void keep(SizeName size) = 0;
  virtual void atLeast(SizeName size, int64_t value) = 0;
  virtual void atMost(SizeName size, int64_t value) = 0;
  /// It stays a multiple of `parts`.
  virtual void divide(SizeName size, int64_t parts) = 0;
  /// Both are one size.
  virtual void unify(SizeName size, SizeName other) = 0;
  /// At least as large as another.
  virtual void cover(SizeName size, SizeName other) = 0;
  /// It is the product of others.
  virtual void product(SizeName size, llvm::ArrayRef<SizeName> factors) = 0;
  /// What nobody asks for has so many elements.
  virtual void setUsual(int64_t value) = 0;
};

/// The sizes with which an op is written. Implemented by `lib/Twin`.
class NewSizes {
public:
  virtual ~NewSizes() = default;

  virtual int64_t of(mlir::Operation *op, SizeName size) const = 0;
  /// An offset along a dimension of `value`.
  virtual int64_t offset(mlir::Value value, unsigned dim,
                         int64_t offset) const = 0;
};

/// Communication inside an op. Implemented by `lib/Partition`; ops see only
/// this. A group of ranks is named by the factor that is split over it: the
/// ranks that differ in its axes alone, a rank's place being the number of its
/// part.
class CollectiveBuilder {
public:
  virtual ~CollectiveBuilder() = default;

  /// Builder at the place where ops go.
  virtual mlir::OpBuilder &builder() = 0;
  /// Ranks over which a factor is split; 1 when it is whole.
  virtual int64_t ranksOf(unsigned factor) = 0;
  /// This rank's place among them, a `tensor<i32>`.
  virtual mlir::Value placeOf(unsigned factor) = 0;

  /// The sum or the maximum over the group, on every rank.
  virtual mlir::Value sum(mlir::Value x, unsigned factor) = 0;
  virtual mlir::Value max(mlir::Value x, unsigned factor) = 0;
  /// The parts of all ranks together along `dim`, by place.
  virtual mlir::Value gather(mlir::Value x, int64_t dim, unsigned factor) = 0;
  /// The sum over the group; every rank gets its part along `dim`.
  virtual mlir::Value scatterSum(mlir::Value x, int64_t dim,
                                 unsigned factor) = 0;
  /// This rank's part along `dim` of a value that all of the group hold.
  virtual mlir::Value take(mlir::Value x, int64_t dim, unsigned factor) = 0;
  /// Part r of dimension `split` goes to place r; what arrives is put together
  /// along `concat` by sender.
  virtual mlir::Value exchange(mlir::Value x, int64_t split, int64_t concat,
                               unsigned factor) = 0;
  /// The value of the next place, the first one's for the last.
  virtual mlir::Value rotate(mlir::Value x, unsigned factor) = 0;

  /// The plan's `moe_buffer`: room for exchanged rows in even shares; 0: for
  /// all.
  virtual double moeBuffer() = 0;
  /// Ends the step on all ranks, before anything is updated, if on one of them
  /// the `tensor<f32>` is above zero: an even share is multiplied by less than
  /// this step needs.
  virtual void needMoeBuffer(mlir::Value x) = 0;
};

/// Sums inside an update over dimensions of the parameter, which may be
/// sharded over ranks. Implemented by those who run updates; rules see only
/// this. Dimensions of the parameter are counted from the last, 1; a stack's is
/// none of them.
class UpdateSums {
public:
  virtual ~UpdateSums() = default;

  /// Sizes of the whole parameter.
  virtual llvm::ArrayRef<int64_t> shape() = 0;
  /// The sum of what ranks have, over those that hold other parts of the
  /// parameter's dimensions `of`: `part` was summed over this rank's.
  virtual mlir::Value total(mlir::Value part, llvm::ArrayRef<int64_t> of) = 0;
  /// The sum of `x` over its dimensions `dims`, which are (parts of) the
  /// parameter's dimensions `of`, on all ranks.
  virtual mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> dims,
                          llvm::ArrayRef<int64_t> of) = 0;
};

} // namespace kerf

#include "kerf/Interfaces/KerfOpInterfaces.h.inc"

#include "kerf/Interfaces/KerfAttrInterfaces.h.inc"

namespace kerf {

/// The library call that an op may be, if any.
std::optional<LibraryCall> libraryCallOf(mlir::Operation *op);
/// True for an op that may be one of these calls.
template <typename... Calls>
bool isCall(mlir::Operation *op, LibraryCall first, Calls... others) {
  std::optional<LibraryCall> call = libraryCallOf(op);
  return call && ((*call == first) || ... || (*call == others));
}

/// True for an op that changes the element type alone. False for null.
bool isConversion(mlir::Operation *op);

/// True for a constant, or what makes one. False for null.
bool isConstant(mlir::Operation *op);

} // namespace kerf

#endif // KERF_INTERFACES_INTERFACES_H
