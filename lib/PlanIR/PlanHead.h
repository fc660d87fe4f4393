//===- PlanHead.h - a plan file without its rules -------------------------===//

#ifndef KERF_LIB_PLANIR_PLANHEAD_H
#define KERF_LIB_PLANIR_PLANHEAD_H

#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Support/Json.h"

namespace kerf {

/// Reports what is wrong in a plan file at its line and column. All violations
/// are told; a reader goes on after one and is asked at the end.
class PlanErrors {
public:
  PlanErrors(mlir::MLIRContext *context, llvm::StringRef path)
      : context(context), path(path) {}

  mlir::InFlightDiagnostic at(json::Position position) {
    any = true;
    return mlir::emitError(mlir::FileLineColLoc::get(
        context, path, position.line, position.column));
  }
  bool found() const { return any; }

  /// True for a value of this kind; else reports it.
  bool expectKind(const json::Value &value, json::Kind kind,
                  llvm::StringRef what);
  /// Reports members of an object that are not known.
  void expectKeys(const json::Value &object,
                  llvm::ArrayRef<llvm::StringLiteral> known,
                  llvm::StringRef what);

private:
  mlir::MLIRContext *context;
  llvm::StringRef path;
  bool any = false;
};

/// What a plan file says of the model that it was made for.
struct ModelStamp {
  std::string name;   ///< for people: `titleOf`
  std::string symbol; ///< in files that do not say it: the name
  std::string shapes; ///< 16 hexadecimal digits
};

/// The names of a model, and a hash of the shapes of its inputs and parameters
/// with the number of layers that have their own. Of number types it has
/// whether they are f16 or fp8, which add ops.
ModelStamp stampOf(ModelOp model);

/// What rules call the ops of a step: `weight_gradient 43 1` is the second op
/// of that phase. Casts count apart, `weight_gradient 43 cast 0`: number types
/// add and remove them, and a plan for f32 is one for bf16. Ops without a
/// phase have none.
llvm::DenseMap<mlir::Operation *, std::string> namesOfOps(ModelOp model);

/// What the ops of a step are, for people: "linear h.{}.mlp.c_fc.weight,
/// gpt.mlir:17"; of the backward pass with what they are of.
llvm::DenseMap<mlir::Operation *, std::string> describeOps(ModelOp model);

/// Reads all but the rules; fields that are wrong count as not given. Null when
/// the plan is for another model or its mesh is wrong: rules mean nothing then.
PlanAttr readPlanHead(ModelOp model, const json::Value &root,
                      PlanErrors &errors);

} // namespace kerf

#endif // KERF_LIB_PLANIR_PLANHEAD_H
