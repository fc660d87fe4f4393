//===- Attributes.h - what StableHLO's attributes say -----------*- C++ -*-===//
//
// And what the regions of reductions and scatters do.
//
// The dialect is not registered: its attributes are kept as their text, such as
// `dot<lhs_contracting_dimensions = [2], ...>` or `comparison_direction LT`.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_STABLEHLO_ATTRIBUTES_H
#define KERF_LIB_STABLEHLO_ATTRIBUTES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>
#include <vector>

namespace kerf {

using Sizes = llvm::SmallVector<int64_t>;

/// `array<i64: ...>` or `dense<...>` of integers; empty where there is none.
Sizes sizesOf(mlir::Operation *op, llvm::StringRef name);

/// An integer attribute.
std::optional<int64_t> integerOf(mlir::Operation *op, llvm::StringRef name);

/// The list `field = [...]` in the text of an attribute; empty where there is
/// none.
Sizes listIn(mlir::Operation *op, llvm::StringRef name, llvm::StringRef field);

/// `field = N` in the text of an attribute.
std::optional<int64_t> numberIn(mlir::Operation *op, llvm::StringRef name,
                                llvm::StringRef field);

/// The names of dimensions in the text of a convolution's attribute, such as
/// `conv<[b, 0, f]x[0, i, o]->[b, 0, f]>`: a list for each pair of brackets.
std::vector<std::vector<std::string>> dimLabelsIn(mlir::Operation *op,
                                                  llvm::StringRef name);

/// The last word of an attribute's text: `LT` of `comparison_direction LT`.
llvm::StringRef wordOf(mlir::Operation *op, llvm::StringRef name);

/// The op that the region of a reduction combines two elements by; empty where
/// it is not one op.
llvm::StringRef combiner(mlir::Operation *op);

/// Whether combining with `number` changes nothing.
bool isNeutral(llvm::StringRef kind, mlir::Type element, double number);

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_ATTRIBUTES_H
