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
};

/// Adds what `more` hides to `form`; false, and nothing is changed, where both
/// have a window or documents.
bool join(MaskForm &form, const MaskForm &more);

/// The dimensions of scores, by number; negative for none.
struct ScoreDims {
  int64_t batch = 0;
  int64_t row = 2;    ///< of the query
  int64_t column = 3; ///< of the key
};

/// The form of a mask of truth values, as the scores see it: true where a row
/// sees a column, or, with `isHidden`, where it does not. None where it is
/// another function.
std::optional<MaskForm> maskOf(const Seen &mask, bool isHidden,
                               const ScoreDims &dims);

} // namespace kerf

#endif // KERF_LIB_RAISE_MASKS_H
