//===- Optimizer.h - options of the update rule -----------------*- C++ -*-===//

#ifndef KERF_LIB_INGEST_OPTIMIZER_H
#define KERF_LIB_INGEST_OPTIMIZER_H

#include "kerf/Ingest/Import.h"

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

// Errors of options, at `loc`: a number outside of [0, end), a word that is not
// known.
mlir::LogicalResult checkRealOption(mlir::Location loc, llvm::StringRef name,
                                    double value, double end);
mlir::LogicalResult checkNameOption(mlir::Location loc, llvm::StringRef name,
                                    llvm::StringRef value,
                                    llvm::ArrayRef<llvm::StringRef> known);

/// Checks what the options say of the update rule.
mlir::LogicalResult checkOptimizer(mlir::Location loc,
                                   const ImportOptions &options);

/// Puts the groups of the options before the model's, which has all of its
/// parameters. Fails with an error at `loc` for a group that is none or that no
/// parameter belongs to.
mlir::LogicalResult addGroups(mlir::Location loc, ModelOp model,
                              const ImportOptions &options);

/// Sets the rule, the bound of the gradient's norm, and the groups: those
/// given, and the vectors, by patterns of their names, without weight decay.
void setOptimizer(ModelOp model, const ImportOptions &options,
                  llvm::ArrayRef<llvm::StringRef> vectors,
                  llvm::ArrayRef<GroupAttr> groups);

} // namespace kerf

#endif // KERF_LIB_INGEST_OPTIMIZER_H
