//===- Factors.h - the iteration space of an op as named factors ----------===//
//
// Every parallelism is an assignment of a factor: `y[b,s,n] = sum_k x[b,s,k]
// w[n,k]` has the factors b, s, n, k; splitting b is data parallelism,
// splitting n or k is tensor parallelism. Planner and partitioner read only
// this.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_INTERFACES_FACTORS_H
#define KERF_INTERFACES_FACTORS_H

#include "kerf/Interfaces/Facts.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace kerf {

/// Does an element of a result depend on where it stands, or on where elements
/// of operands stand? Then parts that are no ranges of the global dimension
/// (zigzag, blocks) mean something else, and the planner offers none. There is
/// no default: an op that forgot to say so would train another model.
enum class Positions { Ignored = 1, Read }; // `{}` is neither

/// All facts about one op's iteration space. Invariants (`verifyFactors`): one
/// entry per operand and per result, one list per dimension, matmuls match.
struct Factors {
  explicit Factors(Positions positions) : positions(positions) {}

  Positions positions;
  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<TensorFactors, 4> operands;
  llvm::SmallVector<TensorFactors, 2> results;
  /// Operands in which the op is linear: pending sums may pass through. Each
  /// alone when all others are fixed (a product), or, `jointly`, all at once (a
  /// sum: an addend that is not pending would be added by every part).
  llvm::SmallVector<unsigned, 2> linearOperands;
  bool jointly = false;
  llvm::SmallVector<FactorVariant, 1> variants;
  llvm::SmallVector<FactorMap, 1> maps;
  /// Along factors that are whole or summed, an element depends on none behind
  /// it: a running sum, causal attention.
  bool looksBack = false;
  /// A maximum over a factor that micro-batches split is that of each of them.
  bool maxOfMicroBatch = false;

  /// Of an op that reads positions: the factors whose positions it reads; none
  /// stands for all.
  llvm::SmallVector<unsigned, 1> placed = {};

  bool readsPositions() const { return positions == Positions::Read; }
  bool readsPositions(unsigned factor) const {
    return readsPositions() &&
           (placed.empty() || llvm::is_contained(placed, factor));
  }

  /// Adds a factor and returns its index.
  unsigned add(llvm::StringRef name, int64_t size,
               FactorKind kind = FactorKind::Parallel);
};

/// The part of a factor that a rank computes.
struct FactorShard {
  int64_t globalSize;
  int64_t localSize;
  /// First global index of the part, a `tensor<i32>`; null when not split.
  mlir::Value offset;
};

/// Where an op is told that its part of a dimension begins.
struct OffsetPlace {
  mlir::Value offset; ///< a `tensor<i32>` among the operands
  bool isResult;      ///< the dimension is of a result, else of an operand
  unsigned tensor, dim;
};

/// Factors of an op all of whose non-scalar operands and results have one
/// shape and whose elements do not mix. With `linear`, lists the operands in
/// which it is linear.
Factors pointwiseFactors(mlir::Operation *op, Positions positions,
                         llvm::ArrayRef<unsigned> linear = {});

/// Factors from einsum-like labels: one string of letters per operand and per
/// result, one letter per dimension. A letter in no result is a sum. Letters of
/// `whole` must not be split.
Factors labelledFactors(mlir::Operation *op, Positions positions,
                        llvm::ArrayRef<std::string> operands,
                        llvm::ArrayRef<std::string> results,
                        llvm::ArrayRef<unsigned> linear = {},
                        llvm::StringRef whole = "");

/// `count` distinct labels for leading dimensions: "b", "bs", then "bsc"...
std::string leadingLabels(int64_t count);

/// Checks the invariants of `Factors` against the op; emits an error naming the
/// dimension when one is broken.
mlir::LogicalResult verifyFactors(mlir::Operation *op, const Factors &factors);

/// `b=8 s=16 n=256 k=64(sum) : [b, s, k], [n, k] -> [b, s, n]`.
void printFactors(llvm::raw_ostream &os, const Factors &factors);

} // namespace kerf

#endif // KERF_INTERFACES_FACTORS_H
