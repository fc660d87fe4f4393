//===- SolveExperts.h - how a search may bring rows to their experts ------===//

#ifndef KERF_LIB_PLAN_SOLVEEXPERTS_H
#define KERF_LIB_PLAN_SOLVEEXPERTS_H

#include "kerf/Plan/SolvePlan.h"

namespace kerf {

/// Room for exchanged rows in the search; 0 where none are to be exchanged.
double moeBufferOf(ModelOp model, const SolveRequest &request);

/// Whether expert ranks may hold all experts, as data ranks do: where a pin
/// asks for so many and they cannot hold parts, or the model has a plan by
/// which they hold all.
bool mayHoldAllExperts(ModelOp model, const Pins &pins);

/// Options that a search has for experts: those of the way that the pins ask
/// for ("gather", "all_to_all"; empty: either, or that of the model's plan).
/// Expert ranks hold parts of the experts, or with `holdAll` these or all.
OptionFilter expertOptions(ModelOp model, const Pins &pins, bool holdAll);

} // namespace kerf

#endif // KERF_LIB_PLAN_SOLVEEXPERTS_H
