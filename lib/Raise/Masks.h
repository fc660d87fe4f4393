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

/// The form of a mask of truth values: true where a row sees a column, or, with
/// `isHidden`, where it does not. None where it is another function.
std::optional<MaskForm> maskOf(mlir::Value mask, bool isHidden = false);

} // namespace kerf

#endif // KERF_LIB_RAISE_MASKS_H
