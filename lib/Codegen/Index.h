//===- Index.h - index arithmetic of generated loops ----------------------===//
//
// An index is a linear form over variables (loop counters, and quotients and
// remainders of forms), a constant, and a multiple of the lane number: lane l
// of a vector looks at `constant + sum of coefficient * variable + lane * l`.
// Forms are kept canonical, so that equal indices are found by comparison:
// splitting a row number into batch and position and joining them again gives
// the row number.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_CODEGEN_INDEX_H
#define KERF_CODEGEN_INDEX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace kerf::codegen {

/// A linear form. Terms are sorted by variable and have no zero coefficients.
struct Index {
  struct Term {
    unsigned variable;
    int64_t coefficient;
    bool operator==(const Term &other) const = default;
  };
  llvm::SmallVector<Term, 2> terms;
  int64_t constant = 0;
  int64_t lane = 0;

  Index(int64_t constant = 0) : constant(constant) {}
  bool operator==(const Index &other) const {
    return terms == other.terms && constant == other.constant &&
           lane == other.lane;
  }
  bool isConstant() const { return terms.empty() && lane == 0; }
  /// Appends numbers that tell this form from others.
  void appendKey(std::vector<int64_t> &key) const;
};

using Indices = llvm::SmallVector<Index, 4>;

/// True if one of `at` differs between the lanes of a vector.
inline bool hasLanes(llvm::ArrayRef<Index> at) {
  return llvm::any_of(at, [](const Index &index) { return index.lane != 0; });
}

Index operator+(const Index &a, const Index &b);
Index operator*(const Index &a, int64_t factor);

/// Smallest and largest value, both included.
struct Range {
  int64_t low, high;
};

/// The variables of one function.
class IndexSpace {
public:
  enum class Kind { Loop, Quotient, Remainder };
  struct Variable {
    Kind kind;
    Range range;
    unsigned depth; ///< of the scope that defines it
    Index of;       ///< of a quotient or remainder: the form divided,
    int64_t by = 1; ///< and by what
    /// Threads of one scope have different values, though the scope knows it.
    bool differs = false;
  };

  /// Number of lanes that count in ranges: those that are not masked off.
  int64_t activeLanes = 1;

  /// A new variable of a loop, or of a number read at run time.
  Index addVariable(Range range, unsigned depth, bool differs = false);
  const Variable &operator[](unsigned variable) const {
    return variables[variable];
  }
  size_t size() const { return variables.size(); }

  Range rangeOf(const Index &index) const;
  /// Depth of the innermost scope whose variables the form reads.
  unsigned depthOf(const Index &index) const;

  /// Whether threads of one scope have different values of the form.
  bool differs(const Index &index) const;
  /// The largest power of two that divides all values of the form (of its first
  /// lane), at most `limit`.
  int64_t alignmentOf(const Index &index, int64_t limit) const;

  struct Division {
    Index quotient, remainder;
  };
  /// Quotient and remainder of a form >= 0. The lanes of a vector must agree in
  /// the quotient, or be all its consecutive values; none if they do not.
  std::optional<Division> divide(const Index &index, int64_t by);

  /// `index = step * base + rest` with all lanes in `rest`, 0 <= rest < step,
  /// and `step` a divisor of `of`. `base` is the same in all lanes.
  struct Stepped {
    int64_t step;
    Index base, rest;
  };
  std::optional<Stepped> stepped(const Index &index, int64_t of) const;

  /// Row-major position of an index, and back.
  Index linearize(llvm::ArrayRef<Index> indices,
                  llvm::ArrayRef<int64_t> shape) const;
  std::optional<Indices> delinearize(const Index &index,
                                     llvm::ArrayRef<int64_t> shape);
  /// `form` with quotients and remainders that belong together joined.
  Index joined(Index form) const;

private:
  unsigned partOf(Kind kind, const Index &of, int64_t by, Range range);

  std::vector<Variable> variables;
  std::map<std::vector<int64_t>, unsigned> parts;
};

} // namespace kerf::codegen

#endif // KERF_CODEGEN_INDEX_H
