//===- Units.h - a few ops of a model by themselves -----------------------===//

#ifndef KERF_TEST_RANDOM_UNITS_H
#define KERF_TEST_RANDOM_UNITS_H

#include "RunCut.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/SetVector.h"

namespace kerf::test {

/// Some ops of a flat model by themselves: what they read are inputs, what
/// others read of them is returned, after a loss of 0.
struct Unit {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ModelOp model;
  std::vector<HostTensor> inputs;
  mlir::IRMapping copies; ///< of values and ops
};

/// Which operands of the first op arrive as a sum of so many parts, which an op
/// before it adds.
struct Sums {
  llvm::SmallVector<unsigned> operands;
  int64_t parts = 1;
};

Unit makeUnit(const llvm::SetVector<mlir::Operation *> &ops,
              const WholeRun &whole, const Sums &sums);

/// True for ops whose rows may lie with owners that data decides.
bool hasRaggedMap(mlir::Operation *op);

/// All ops that the rows of an op with such a map connect with it, in program
/// order.
llvm::SetVector<mlir::Operation *> opsOfTables(mlir::Operation *op);

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_UNITS_H
