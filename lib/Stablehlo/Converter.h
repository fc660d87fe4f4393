//===- Converter.h - ops of StableHLO as plain ops --------------*- C++ -*-===//

#ifndef KERF_LIB_STABLEHLO_CONVERTER_H
#define KERF_LIB_STABLEHLO_CONVERTER_H

#include "Attributes.h"
#include "FoldingBuilder.h"

#include "llvm/ADT/StringMap.h"

#include <vector>

namespace kerf {

class Converter;

/// One op that is converted: its operands as values of the model.
struct Source {
  mlir::Operation *op;
  Converter &converter;
  FoldingBuilder &b;
  std::vector<mlir::Value> operands;

  mlir::Value operand(size_t index) const { return operands[index]; }
  /// The shape and the element type of a result, in types of the model.
  llvm::ArrayRef<int64_t> shape(size_t result = 0) const;
  mlir::Type element(size_t result = 0) const;
  /// Reports what has no counterpart, and returns no values.
  mlir::FailureOr<std::vector<mlir::Value>>
  refuse(const llvm::Twine &what) const;
};

/// The values that an op gives.
using Converted = mlir::FailureOr<std::vector<mlir::Value>>;
using Conversion = Converted (*)(const Source &);
using Conversions = llvm::StringMap<Conversion>;

// Ops by name, a file each.
void addElements(Conversions &table);
void addShapes(Conversions &table);
void addMatmuls(Conversions &table);
void addRows(Conversions &table);
void addScatters(Conversions &table);
void addSorts(Conversions &table);
void addConvolutions(Conversions &table);
void addWindows(Conversions &table);
void addControl(Conversions &table);

/// Converts the ops of blocks one after the other.
class Converter {
public:
  Converter(mlir::OpBuilder &builder, mlir::Location loc);

  FoldingBuilder b;

  void map(mlir::Value from, mlir::Value to) { values[from] = to; }
  mlir::Value lookup(mlir::Value from) const { return values.lookup(from); }

  /// Converts all ops but the terminator; returns the terminator's operands.
  Converted convert(mlir::Block &block);
  Converted convert(mlir::Block &block, llvm::ArrayRef<mlir::Value> arguments);

private:
  mlir::LogicalResult convert(mlir::Operation *op);

  Conversions table;
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  int64_t count = 0; ///< ops converted: loops are written out
};

/// The type of the model for a tensor of the source: floats are f32, integers
/// i32 and truth values i1. Null where there is none.
mlir::RankedTensorType modelType(mlir::Type type);

/// File and line of the user's Python that an op comes from, else the place of
/// the text.
mlir::Location placeOf(mlir::Operation *op);

inline Converted one(mlir::Value value) {
  return std::vector<mlir::Value>{value};
}

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_CONVERTER_H
