//===- SolveExperts.h - how a search may bring rows to their experts ------===//

#ifndef KERF_LIB_PLAN_SOLVEEXPERTS_H
#define KERF_LIB_PLAN_SOLVEEXPERTS_H

#include "kerf/Plan/SolvePlan.h"

namespace kerf {

/// Room for exchanged rows in the search; 0 where none are to be exchanged.
double moeBufferOf(ModelOp model, const SolveRequest &request);

/// Options that a search has for experts: those of the way that the pins ask
/// for
/// ("gather", "all_to_all"; empty: either, or that of the model's plan), and
/// expert ranks hold parts of the experts, unless a pin asks for so many ranks,
/// or the model has a plan by which they hold all.
OptionFilter expertOptions(ModelOp model, const Pins &pins);

} // namespace kerf

#endif // KERF_LIB_PLAN_SOLVEEXPERTS_H
