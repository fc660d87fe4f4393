//===- Masks.h - which positions see which --------------------------------===//

#ifndef KERF_LIB_RAISE_MASKS_H
#define KERF_LIB_RAISE_MASKS_H

#include "Views.h"

namespace kerf {

/// A mask of scores [B,H,Sq,Sk] that attention knows.
struct MaskForm {
  bool isCausal = false;
  std::optional<int64_t> window;
  /// Numbers of documents [B,S], if those of a query and a key must be equal.
  mlir::Value segments;
  /// Positions in a row that see each other alone, those before them at least.
  std::optional<int64_t> chunk;
};

/// Adds what `more` hides to `form`; false, and nothing is changed, where both
/// have a window, documents or chunks.
bool join(MaskForm &form, const MaskForm &more);

/// The dimensions of scores, by number; negative for none.
struct ScoreDims {
  int64_t batch = 0;
  int64_t row = 2;    ///< of the query
  int64_t column = 3; ///< of the key
};

/// A condition by which scores are hidden.
struct Hiding {
  Seen condition;
  bool isHidden = false; ///< true hides
};

/// Numbers that a softmax of `scale` times the scores makes 0.
bool hides(std::optional<double> number, double scale);

/// The condition of a summand that is 0 where scores are shown and hides them
/// elsewhere: `c ? 0 : -inf`, `(1 - m) -1e9` with m of truth values.
std::optional<Hiding> hidingOf(const Seen &summand, double scale);

/// True for a factor that is 1 where scores are shown and 0 where not.
bool isShown(const Seen &factor, const Hiding &hiding);

/// row rows + column columns + constant.
struct Affine {
  int64_t rows = 0, columns = 0, constant = 0;

  Affine operator-(const Affine &other) const {
    return {rows - other.rows, columns - other.columns,
            constant - other.constant};
  }
  Affine operator+(const Affine &other) const {
    return {rows + other.rows, columns + other.columns,
            constant + other.constant};
  }
  bool operator==(const Affine &other) const = default;
};

/// Such a whole number of positions; none where it is another function.
std::optional<Affine> affineOf(Seen seen, const ScoreDims &dims);

/// The form of a mask of truth values, as the scores see it: true where a row
/// sees a column, or, with `isHidden`, where it does not. None where it is
/// another function.
std::optional<MaskForm> maskOf(const Seen &mask, bool isHidden,
                               const ScoreDims &dims);

} // namespace kerf

#endif // KERF_LIB_RAISE_MASKS_H
