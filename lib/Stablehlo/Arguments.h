//===- Arguments.h - what a lowered function's arguments are ----*- C++ -*-===//

#ifndef KERF_LIB_STABLEHLO_ARGUMENTS_H
#define KERF_LIB_STABLEHLO_ARGUMENTS_H

#include "kerf/Stablehlo/Stablehlo.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace kerf {

/// A leaf of the function's arguments: `params['layers'][0]['down'].value`.
struct Argument {
  mlir::BlockArgument value;
  std::string root;     ///< `params`
  std::string path;     ///< `layers.0.down`
  std::string init;     ///< `normal, 0.02`, where the text says it
  bool isNamed = false; ///< the path stands in the text as such
  bool isFrozen = false;
  bool isParameter = false;
  std::string role; ///< of an input of the step
};

/// The arguments of `main`, in order, with what each is. Fails with an error
/// for those that have no name, or are neither a parameter nor an input.
mlir::FailureOr<std::vector<Argument>>
findArguments(mlir::Operation *main, const StablehloOptions &options);

/// The name of a leaf in parts: `layers`, `0`, `down`.
std::vector<std::string> partsOf(llvm::StringRef name);

} // namespace kerf

#endif // KERF_LIB_STABLEHLO_ARGUMENTS_H
