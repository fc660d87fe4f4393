//===- SplitRepeat.h - two repeats of one ---------------------------------===//

#ifndef KERF_LIB_DIFFERENTIATE_SPLITREPEAT_H
#define KERF_LIB_DIFFERENTIATE_SPLITREPEAT_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// Splits the repeats that contain iteration `at` (not as their first), with
/// their updates; those of one pair alone unless `onlyPair` is negative. The
/// lower halves keep the pair's number.
void splitRepeats(ModelOp model, int64_t at, int64_t onlyPair);

} // namespace kerf

#endif // KERF_LIB_DIFFERENTIATE_SPLITREPEAT_H
