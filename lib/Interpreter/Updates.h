//===- Updates.h - optimizer steps on host tensors ------------------------===//

#ifndef KERF_LIB_INTERPRETER_UPDATES_H
#define KERF_LIB_INTERPRETER_UPDATES_H

#include "kerf/Dialect/Kerf/RecordedSums.h"

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

/// A state tensor of what is updated, or zeros where `known` has no type yet.
HostTensor stateOr(const HostTensor &known, const StateTensor &state,
                   mlir::RankedTensorType updated);

/// Applies update rules, each as a block of plain ops that is built once.
class UpdateRules {
public:
  /// What a rank updates by: the parameter (or master), its gradient, one
  /// tensor per state of the rule, and the scalars.
  struct Operands {
    HostTensor param, gradient;
    llvm::SmallVector<HostTensor> state;
    double scale = 1, rate = 0, step = 0;
  };
  /// Makes parts of a sum over dimensions of the parameter, counted from the
  /// last, the whole sum; one part per rank.
  using Total = llvm::function_ref<void(llvm::ArrayRef<int64_t> of,
                                        llvm::ArrayRef<HostTensor *> parts)>;

  /// The new parameter and the new state tensors of each rank. `whole`: shape
  /// of the parameter.
  std::vector<llvm::SmallVector<HostTensor>>
  apply(UpdateOp update, llvm::ArrayRef<int64_t> whole,
        std::vector<Operands> ranks, Total total, bool f64);

private:
  struct Program {
    std::unique_ptr<mlir::Block> block;
    llvm::SmallVector<mlir::Value> results;
    std::vector<RecordedSums::Sum> sums;
  };
  Program &programOf(UpdateOp update, llvm::ArrayRef<int64_t> whole,
                     const Operands &operands);

  llvm::DenseMap<mlir::Operation *, Program> programs;
};

} // namespace kerf

#endif // KERF_LIB_INTERPRETER_UPDATES_H
