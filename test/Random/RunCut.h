//===- RunCut.h - one op, cut, on virtual ranks ---------------------------===//
//
// Problem: does the layout that an assignment of an op claims hold?
//
// Idea: a model of that op alone, its operands as inputs, is planned by the
// assignment, partitioned and run on virtual ranks of size-2 axes, in f64. The
// results, put together as their layouts say, must be those of the whole op.
// An operand that arrives as a sum is made by a sum over ranks before the op.
// Rows that lie with their owners cannot be put together: then the model is all
// that is between the dispatch and the combination of these rows.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_RANDOM_RUNCUT_H
#define KERF_TEST_RANDOM_RUNCUT_H

#include "Cuts.h"

#include "kerf/Interfaces/HostTensor.h"

namespace kerf::test {

/// Values of a flat model on global tensors, op by op.
class WholeRun {
public:
  /// Fails where the interpreter does.
  static mlir::FailureOr<WholeRun> of(ModelOp model);

  ModelOp getModel() const { return model; }
  const HostTensor &get(mlir::Value value) const {
    return values.find(value)->second;
  }

private:
  ModelOp model;
  llvm::DenseMap<mlir::Value, HostTensor> values;
};

enum class CutVerdict {
  Same,
  Wrong,  ///< another result, or no program
  Refused ///< sizes of this op do not divide, or it has no such factor
};

/// Makes a mistake in programs; false where there is none to make.
using Spoil = llvm::function_ref<bool(mlir::ModuleOp)>;

/// Runs an op of the model in a cut, its programs spoiled if that is asked for.
/// `why` says what differs, or why the cut is refused.
CutVerdict runCut(mlir::Operation *op, const Cut &cut, const WholeRun &whole,
                  std::string &why, Spoil spoil = nullptr);

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_RUNCUT_H
