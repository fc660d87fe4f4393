//===- PlainBuilder.h - plain ops in few words ----------------------------===//
//
// Decompositions, gradients and update rules are formulas; this keeps them
// readable as such.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DIALECT_KERF_PLAINBUILDER_H
#define KERF_DIALECT_KERF_PLAINBUILDER_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Builds plain ops at one location. Operands of a binary op have one type;
/// `rows` and `columns` bring a smaller tensor to a larger one's shape.
struct PlainBuilder {
  mlir::OpBuilder &builder;
  mlir::Location loc;

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value pow(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, double b);
  mlir::Value sub(double a, mlir::Value b);
  mlir::Value mul(mlir::Value a, double b);
  mlir::Value div(double a, mlir::Value b);
  mlir::Value max(mlir::Value a, double b);
  mlir::Value min(mlir::Value a, double b);

  mlir::Value neg(mlir::Value x);
  mlir::Value exp(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value sqrt(mlir::Value x);
  mlir::Value rsqrt(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  mlir::Value sin(mlir::Value x);
  mlir::Value cos(mlir::Value x);
  mlir::Value logistic(mlir::Value x);

  mlir::Value compare(CompareKind kind, mlir::Value a, mlir::Value b);
  mlir::Value compare(CompareKind kind, mlir::Value a, double b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// `condition ? a : b`.
  mlir::Value select(mlir::Value condition, mlir::Value a, double b);
  /// `condition ? 1 : 0` of an element type.
  mlir::Value indicator(mlir::Value condition, mlir::Type element);
  mlir::Value logicalAnd(mlir::Value a, mlir::Value b);

  /// A tensor whose elements are all `value`.
  mlir::Value constant(mlir::Type type, double value);
  /// Index along `dim`, plus the scalar `offset` unless null; with `zigzag` the
  /// position of that row.
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, int64_t dim,
                   mlir::Value offset = {}, ZigzagAttr zigzag = {});
  /// Numbers of the chunks of so many tokens that tokens `shape` [B,S] are in,
  /// i32; of each document apart where `documents` has their numbers.
  mlir::Value chunks(llvm::ArrayRef<int64_t> shape, int64_t tokens,
                     mlir::Value documents = {});
  /// `x` with another element type (itself when it has that).
  mlir::Value cast(mlir::Value x, mlir::Type element);
  /// `x` in the type that reductions are computed in.
  mlir::Value widen(mlir::Value x);

  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> dims,
                        llvm::ArrayRef<int64_t> shape);
  /// One value per row, to all elements of the rows of `shape`: x has the
  /// leading dimensions of `shape`.
  mlir::Value rows(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  /// One value per trailing index, to all leading ones.
  mlir::Value columns(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  mlir::Value slice(mlir::Value x, llvm::ArrayRef<int64_t> offsets,
                    llvm::ArrayRef<int64_t> sizes);
  mlir::Value concat(int64_t dim, mlir::ValueRange inputs);

  mlir::Value reduce(ReduceKind kind, mlir::Value x,
                     llvm::ArrayRef<int64_t> dims);
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> dims);
  /// Sum, mean or maximum of each row (last dimension).
  mlir::Value rowSum(mlir::Value x);
  mlir::Value rowMean(mlir::Value x);
  mlir::Value rowMax(mlir::Value x);
  mlir::Value sumAll(mlir::Value x);
  /// Result of the element type of `a` unless given.
  mlir::Value einsum(llvm::StringRef equation, mlir::Value a, mlir::Value b,
                     mlir::Type element = {});

  mlir::Value gather(mlir::Value table, mlir::Value index);
  /// `distinct`: no two indices are equal.
  mlir::Value scatterAdd(mlir::Value x, mlir::Value index, int64_t rows,
                         bool distinct = false);
};

/// Dimensions `first, first+1, ..., last-1`.
llvm::SmallVector<int64_t> dimRange(int64_t first, int64_t last);

} // namespace kerf

#endif // KERF_DIALECT_KERF_PLAINBUILDER_H
