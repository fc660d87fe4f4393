//===- RankRules.h - what ops make of the states of their operands --------===//
//
// Rules of ops on local values, from what each computes (`Factors` of the local
// op) and from how its operands are sharded; never from a plan.
//
// - Dimensions that share a factor are sharded alike.
// - A factor that is split and that a result lacks makes a sum or a maximum;
//   one that is needed whole must not be split.
// - A sum passes through ops that are linear in it, if what it is multiplied
//   with is the same on all ranks, or all addends are sums.
// - Where one axis shards two dimensions, a result has a part of a ring for
//   each distance; all together are whole.
// - Ops that read global indices are told the place of the part that they get.
//
// Not followed (`Unknown`): rows that ranks exchange, until tokens are home.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_PARTITION_RANKRULES_H
#define KERF_LIB_PARTITION_RANKRULES_H

#include "RankState.h"

#include "llvm/ADT/DenseMap.h"

namespace kerf {

using RankStates = llvm::DenseMap<mlir::Value, RankState>;

/// The states of the results of an op that has factors, from those of its
/// operands. Fails with an error that names the axis, the state and what was
/// expected.
mlir::LogicalResult transferOp(FactorOpInterface op, RankStates &states,
                               const RankAxes &axes);

/// The same of a collective.
mlir::LogicalResult transferCollective(mlir::Operation *op, RankStates &states,
                                       const RankAxes &axes);

/// Runs a rule of an op, with its operands' axes at other dimensions where one
/// element makes several possible, until it holds. Else the error of the first.
mlir::LogicalResult tryPlaces(mlir::Operation *op, RankStates &states,
                              llvm::function_ref<mlir::LogicalResult()> run);

/// True for the collectives of the dialect `spmd`.
bool isCollective(mlir::Operation *op);

/// `over 'tp' operand #1 is split along dimension 0, expected ...`; the rest is
/// the caller's.
mlir::InFlightDiagnostic stateError(mlir::Operation *op, unsigned operand,
                                    const RankState &state, unsigned axis,
                                    const RankAxes &axes);

//===----------------------------------------------------------------------===//
// One op
//===----------------------------------------------------------------------===//

/// An op while its results' states are worked out.
class OpRule {
public:
  OpRule(FactorOpInterface op, RankStates &states, const RankAxes &axes);
  mlir::LogicalResult run();
  /// Hands the results over.
  void store();

private:
  // RankRules.cpp
  mlir::LogicalResult readOperands();
  mlir::LogicalResult splitDim(unsigned operand, unsigned dim, DimState from);
  mlir::LogicalResult meet(unsigned factor, const DimState &dim,
                           unsigned operand, unsigned at);
  void writeDims();
  mlir::LogicalResult followAxis(unsigned axis);
  mlir::FailureOr<Over> passPending(unsigned axis);
  mlir::LogicalResult reduceOver(unsigned axis, unsigned result, Over passed);
  void setPassed(unsigned axis, unsigned result, Over passed);
  void addRing(unsigned axis, unsigned result, uint64_t mask);
  mlir::InFlightDiagnostic error(unsigned axis, unsigned operand);
  bool isSharded(unsigned factor, unsigned axis) const {
    return known[factor] && known[factor]->isShardedBy(axis);
  }
  int carrierOf(unsigned factor) const;
  const RankState &operand(unsigned i) const { return *operands[i]; }

  // RankPlaces.cpp
  void findPlaces();
  mlir::LogicalResult checkPlaces();

  // RankShapes.cpp
  bool isShapeOp() const;
  mlir::LogicalResult runShapeOp();
  void reshape();
  void window(const View &view);
  mlir::LogicalResult concat(size_t at);
  mlir::LogicalResult normOfParts();

  // RankRows.cpp: overrides for ops on rows of experts
  void shardResult(unsigned axis, unsigned dim);
  mlir::FailureOr<bool> followRows(unsigned axis);
  mlir::FailureOr<bool> followDispatch(unsigned axis);
  mlir::FailureOr<bool> followCombine(unsigned axis);
  mlir::FailureOr<bool> followMatmul(unsigned axis);

  FactorOpInterface op;
  RankStates &states;
  const RankAxes &axes;
  Factors facts;
  llvm::SmallVector<const RankState *> operands;
  llvm::SmallVector<bool> isPlace; ///< operands that tell places
  std::vector<RankState> results;
  llvm::SmallVector<std::optional<DimState>> known; ///< by factor
  llvm::SmallVector<bool> loose;                    ///< by axis
  llvm::SmallVector<OffsetPlace> places;
};

} // namespace kerf

#endif // KERF_LIB_PARTITION_RANKRULES_H
