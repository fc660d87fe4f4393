//===- Updates.h - optimizer steps on host tensors ------------------------===//

#ifndef KERF_LIB_INTERPRETER_UPDATES_H
#define KERF_LIB_INTERPRETER_UPDATES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace kerf {

/// Runs a plain op; results are rounded to their types.
llvm::SmallVector<HostTensor>
evaluatePlain(EvaluateOpInterface op,
              llvm::ArrayRef<const HostTensor *> operands, bool f64);

/// Rounds every element to the tensor's type.
void roundTensor(HostTensor &tensor, bool f64);

/// Slice `at` of a stacked tensor.
HostTensor sliceOf(const HostTensor &stack, int64_t at);

/// Applies update rules, each as a block of plain ops that is built once.
class UpdateRules {
public:
  /// The scalars of an update.
  struct Scalars {
    double scale = 1, rate = 0, step = 0;
  };

  /// The new parameter (or master) and the new state tensors. `state` has one
  /// tensor per state of the rule, without a type where there is none yet.
  llvm::SmallVector<HostTensor> apply(UpdateOp update, HostTensor param,
                                      HostTensor gradient,
                                      llvm::ArrayRef<HostTensor> state,
                                      const Scalars &scalars, bool f64);

private:
  struct Program {
    std::unique_ptr<mlir::Block> block;
    llvm::SmallVector<mlir::Value> results;
  };
  Program &programOf(UpdateOp update, mlir::RankedTensorType type);

  llvm::DenseMap<mlir::Operation *, Program> programs;
};

} // namespace kerf

#endif // KERF_LIB_INTERPRETER_UPDATES_H
