//===- Title.h - what people call a model ---------------------------------===//

#ifndef KERF_DIALECT_KERF_TITLE_H
#define KERF_DIALECT_KERF_TITLE_H

#include "kerf/Dialect/Kerf/Kerf.h"

namespace kerf {

/// The attribute `title` of a model, "llama-3-8b"; without one its symbol. All
/// screens and files name a model so.
llvm::StringRef titleOf(ModelOp model);

} // namespace kerf

#endif // KERF_DIALECT_KERF_TITLE_H
