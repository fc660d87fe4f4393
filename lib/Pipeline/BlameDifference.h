//===- BlameDifference.h - where a wrong value comes from -----------------===//

#ifndef KERF_LIB_PIPELINE_BLAMEDIFFERENCE_H
#define KERF_LIB_PIPELINE_BLAMEDIFFERENCE_H

#include "kerf/Dialect/Spmd/Spmd.h"
#include "kerf/Interpreter/CompareTraining.h"

namespace kerf {

/// Where the programs of a pipeline make a value.
struct Blame {
  mlir::Operation *maker = nullptr; ///< null where none was found
  int64_t stage = 0;
  /// The nearest collective that its operands come from; null: none.
  mlir::Operation *collective = nullptr;

  /// "'kerf.einsum' (weight_gradient 12) of stage 0, after 'spmd.all_reduce'
  /// over [tp] (input_gradient 14)"; "" without a maker.
  std::string describe() const;
};

/// The op that first wrote what differs, in the programs by stage.
Blame findBlame(llvm::ArrayRef<spmd::ProgramOp> programs,
                const TrainingDifference &difference);

} // namespace kerf

#endif // KERF_LIB_PIPELINE_BLAMEDIFFERENCE_H
