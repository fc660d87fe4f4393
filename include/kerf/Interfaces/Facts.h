//===- Facts.h - what ops tell about themselves, as plain data ------------===//
//
// The part of the interfaces that needs no IR, so that cost and search can use
// it too.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_INTERFACES_FACTS_H
#define KERF_INTERFACES_FACTS_H

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>

namespace kerf {

/// What splitting a factor does to the results. Of a result that has the
/// factor, each part computes its part, whatever the kind.
enum class FactorKind {
  Parallel, ///< a result without the factor is computed whole by every part
  Sum,      ///< a result without the factor becomes a partial sum
  Max,      ///< a result without the factor becomes a partial maximum
  Whole,    ///< must not be split without a variant (rows of a softmax, ...)
};

/// One index of the op's iteration space.
struct Factor {
  std::string name;
  int64_t size;
  FactorKind kind;
  bool operator==(const Factor &) const = default;
};

/// Factors that make up one dimension, major to minor; the product of their
/// sizes is the dimension. Merged heads `h = g * r` are `{g, r}`.
using DimFactors = llvm::SmallVector<unsigned, 2>;

/// Dimensions of one operand or result.
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

/// True where `factor` is in one of the dimensions.
bool hasFactor(const TensorFactors &dims, unsigned factor);

/// A way to split factors that otherwise must stay whole, with communication of
/// the op's own: `ring` attention splits query and key sequence on one axis,
/// `split_vocabulary` combines log-sum-exps.
struct FactorVariant {
  std::string name;
  llvm::SmallVector<unsigned, 2> factors;
  /// True when the factors are split together, on one axis (`ring`); false when
  /// any of them may be, on any axes.
  bool together = false;
  /// True when results without the split factors are sums that are still to be
  /// made (a bias is added after them); the op itself communicates nothing.
  bool leavesSum = false;
  /// True when ranks exchange the rows of a table. Unless they are split
  /// together, the axes of the second factor are the last of the first, and
  /// split the second alone where a tensor has both.
  bool exchanges = false;
  bool operator==(const FactorVariant &) const = default;
};

/// The data-dependent relation of factors that a gather makes: rows `from` are
/// sent to slots `to`, as the integer tensor that is operand `index` decides (a
/// slot per row, or the number of rows per owner).
struct FactorMap {
  unsigned index;
  llvm::SmallVector<unsigned, 2> from;
  llvm::SmallVector<unsigned, 2> to;
  /// The factor whose parts are as long as data says: each has room for all of
  /// it, its own rows first. -1 when parts are equal ranges.
  int ragged = -1;
  bool operator==(const FactorMap &) const = default;
};

/// Which scores of attention count, and what is done with them.
struct AttentionFacts {
  bool causal = false;     ///< keys behind a query are hidden
  bool drops = false;      ///< dropout
  bool capsScores = false; ///< a soft cap bounds them
  bool isPacked = false;   ///< documents do not see each other
  int64_t window = 0;      ///< keys that a query sees at most; 0: all
};

/// Work of one op: facts for the cost model.
struct OpCost {
  double matmulFlops = 0; ///< multiply and add count as two
  /// Matmuls inside attention, masked ones not counted; kernels reach other
  /// rates there than in plain matmuls.
  double attentionFlops = 0;
  double vectorFlops = 0; ///< arithmetic outside matmuls
  double bytesRead = 0;   ///< each operand once
  double bytesWritten = 0;
  /// Tables that are made on the way: in each call, and once per step.
  double tableBytes = 0, stepTableBytes = 0;
  /// Flops of all matmuls, those of attention included.
  double matmuls() const { return matmulFlops + attentionFlops; }
  bool operator==(const OpCost &) const = default;
};

} // namespace kerf

#endif // KERF_INTERFACES_FACTS_H
