//===- SolveExperts.h - how a search may bring rows to their experts ------===//

#ifndef KERF_LIB_PLAN_SOLVEEXPERTS_H
#define KERF_LIB_PLAN_SOLVEEXPERTS_H

#include "kerf/Plan/SolvePlan.h"

namespace kerf {

// `given` is a model with a plan that is to be kept, or null.

/// Room for exchanged rows in the search; 0 where none are to be exchanged.
double moeBufferOf(ModelOp given, const SolveRequest &request);

/// Whether expert ranks may hold all experts, as data ranks do: where a pin
/// asks for so many and they cannot hold parts, or the plan that is given
/// says that they hold all.
bool mayHoldAllExperts(ModelOp given, const Pins &pins);

/// Options that a search has for experts: those of the way that the pins ask
/// for ("gather", "all_to_all"; empty: either, or that of the given plan).
/// Expert ranks hold parts of the experts, or with `holdAll` these or all.
OptionFilter expertOptions(ModelOp given, const Pins &pins, bool holdAll);

} // namespace kerf

#endif // KERF_LIB_PLAN_SOLVEEXPERTS_H
