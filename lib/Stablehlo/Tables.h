//===- Tables.h - rules that the elements of a table follow -----*- C++ -*-===//

#ifndef KERF_LIB_STABLEHLO_TABLES_H
#define KERF_LIB_STABLEHLO_TABLES_H

#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <vector>

namespace kerf {

/// start + step i for the index i along dimension `dim`.
struct Series {
  int64_t dim = 0;
  int64_t start = 0;
  int64_t step = 0;
};
std::optional<Series> seriesOf(llvm::ArrayRef<double> numbers,
                               llvm::ArrayRef<int64_t> shape);

/// True where `column - row <= edge` in the last two dimensions, or `>=` where
/// `isUpper`.
struct Triangle {
  int64_t edge = 0;
  bool isUpper = false;
};
std::optional<Triangle> triangleOf(llvm::ArrayRef<double> numbers,
                                   llvm::ArrayRef<int64_t> shape);

/// cos(p f), or sin(p f), of the row p and the frequency f of a column: what
/// rotary embeddings read.
struct Rotation {
  bool isSine = false;
  std::vector<double> frequencies;
};

/// The rotation of a table [rows, columns]; frequencies are those that its
/// numbers say, within 2e-4 of each of them.
std::optional<Rotation> rotationOf(llvm::ArrayRef<double> numbers, int64_t rows,
                                   int64_t columns);

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_TABLES_H
