//===- Stablehlo.h - models that JAX lowered ---------------------*- C++
//-*-===//
//
// The generic text of a lowered JAX loss function, as jax.jit(loss).lower(...)
// prints it, becomes a flat kerf.model of plain ops. The text is read with
// unregistered ops: nothing of JAX or of StableHLO's project is linked.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_STABLEHLO_STABLEHLO_H
#define KERF_STABLEHLO_STABLEHLO_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kerf {

/// What the text does not say.
struct StablehloOptions {
  /// `NAME=ROLE`: which argument is which input of the step. Without it,
  /// arguments of integers are told by their names (label or target, segment,
  /// position, else tokens), or else by their order: tokens, then targets.
  std::vector<std::string> inputs;
  /// Arguments whose leaves are the parameters; empty: the first one.
  std::vector<std::string> params;
  /// Symbol of the model; empty for the function's name.
  std::string modelName;
};

/// True for text that has ops of StableHLO, in either form.
bool isStablehlo(llvm::StringRef text);

/// True where ops are printed in StableHLO's own form, which only its project
/// can read.
bool isPrettyStablehlo(llvm::StringRef text);

/// What to type in Python for text that can be read.
llvm::StringRef howToPrintStablehlo();

/// Builds a verified module with one `kerf.model` that computes what `main` of
/// `source` computes. Calls are inlined and loops that scan are written out.
/// Floats of any type are f32, as in all graphs: `kerfc --precision` chooses. A
/// parameter [L, ...] that a scan reads slice by slice becomes L parameters
/// with the number of the slice in their names. Returns null after an error
/// that names the line of the user's Python where the text has it. The context
/// of `source` has the kerf dialect loaded.
mlir::OwningOpRef<mlir::ModuleOp>
importStablehlo(mlir::ModuleOp source, const StablehloOptions &options);

} // namespace kerf

#endif // KERF_STABLEHLO_STABLEHLO_H
